# SPDX-License-Identifier: Apache-2.0
"""ImageDecoder on an image known at compile time: BMP and PNM; others are refused by name."""

from __future__ import annotations

import struct

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array, attribute, title
from aot.ir.operators import DataSized, OneOf, operator
from aot.shapes.evaluate import evaluates, need
from aot.shapes.reference import Inputs

#: How files begin, and what they are.
MAGIC = (
    (b"\xff\xd8", "JPEG"),
    (b"\x89PNG", "PNG"),
    (b"\x00\x00\x00\x0cjP", "JPEG 2000"),
    (b"RIFF", "WebP"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
)
HINT = "decode the image in the application, or give BMP or PNM"
INSTEAD = "decode the image in the application, or bind the input to a BMP or PNM"
#: Rounded shares of red, green and blue in a grey, in 65536ths.
GREY = np.array([19595, 38470, 7471], np.int64)


def decode_image(data: bytes, pixel_format: str) -> Array:
    """The pixels of a BMP or PNM file: uint8 [height, width, 3], or 1 channel for `Grayscale`.

    Raises UnsupportedError for other formats, for compressed BMPs, BMPs of other depths than 24
    and 32 bits, and PNMs of more than 255 levels; ValueError for a damaged file and for a
    `pixel_format` besides RGB, BGR and Grayscale.
    """
    kind = next((name for magic, name in MAGIC if data.startswith(magic)), "")
    if kind:
        raise UnsupportedError(f"an image in {kind}, which is not decoded here", hint=HINT)
    if data[:2] == b"BM":
        pixels = _bmp(data)
    elif data[:1] == b"P" and data[1:2] in b"2356":
        pixels = _pnm(data)
    else:
        raise UnsupportedError(f"an image that begins with {data[:4]!r}", hint=HINT)
    if pixel_format == "Grayscale":
        total = pixels.astype(np.int64) @ GREY
        return ((total + 0x8000) >> 16).astype(np.uint8)[..., None]
    if pixel_format not in ("RGB", "BGR"):
        raise ValueError(f"pixel_format {pixel_format!r}")
    return np.ascontiguousarray(pixels[..., ::-1] if pixel_format == "BGR" else pixels)


operator(
    "ImageDecoder",
    "data",
    traits=[DataSized(hint=INSTEAD)],
    pixel_format=OneOf("RGB BGR Grayscale"),
)


@evaluates("ImageDecoder")
def decoded(node: ir.Node, inputs: Inputs) -> list[Array]:
    """The pixels of a constant image file; UnsupportedError with the node's name if it is not
    decoded.
    """
    data, kind = need(inputs, 0).tobytes(), str(attribute(node, "pixel_format", "RGB"))
    try:
        return [decode_image(data, kind)]
    except UnsupportedError as error:
        raise UnsupportedError(f"{title(node)}: {error.what}", hint=error.hint) from None


def _bmp(data: bytes) -> Array:
    """The pixels [height, width, 3] (red, green, blue) of an uncompressed bitmap, top row first.

    UnsupportedError for compression and other depths, ValueError for a file that is too short.
    """
    if len(data) < 54:
        raise ValueError("a BMP without a header")
    start, header, width, height, _, depth, packing = struct.unpack_from("<I I i i H H I", data, 10)
    if packing or depth not in (8, 24, 32) or header < 40 or width <= 0 or not height:
        what = f"a BMP of {depth} bits a pixel, {width} by {height}, compression {packing}"
        raise UnsupportedError(what, hint="8, 24 or 32 bits, not compressed")
    # Rows of a bitmap are padded to four bytes.
    stride = (width * depth // 8 + 3) // 4 * 4
    rows = abs(height)
    if len(data) < start + rows * stride:
        raise ValueError(f"a BMP of {len(data)} bytes that needs {start + rows * stride}")
    raw: Array = np.frombuffer(data, np.uint8, rows * stride, start).reshape(rows, stride)
    raw = raw[:, : width * depth // 8].reshape(rows, width, depth // 8)
    if depth == 8:
        colours = struct.unpack_from("<I", data, 46)[0] or 256
        table = np.frombuffer(data, np.uint8, 4 * colours, 14 + header).reshape(colours, 4)
        raw = table[raw[..., 0]]
    # Pixels are stored as blue, green, red, rows from the bottom up unless the height is negative.
    return (raw if height < 0 else raw[::-1])[..., 2::-1]


def _pnm(data: bytes) -> Array:
    """The pixels [height, width, 3] of a grey or colour PNM, as text or bytes, scaled to 255
    levels.

    UnsupportedError for more than 255 levels, ValueError for a damaged file.
    """
    fields: list[int] = []
    at = 2
    while len(fields) < 3:
        while data[at : at + 1].isspace() or data[at : at + 1] == b"#":
            at = data.index(b"\n", at) if data[at : at + 1] == b"#" else at + 1
        end = at
        while data[end : end + 1].isdigit():
            end += 1
        fields.append(int(data[at:end]))
        at = end
    width, height, top = fields
    # Above 255 levels a sample takes two bytes.
    if not 0 < top < 256:
        raise UnsupportedError(f"a PNM of {top} levels", hint="255 levels at most")
    channels = 3 if data[1:2] in b"36" else 1
    count = width * height * channels
    if data[1:2] in b"23":
        flat = np.array([int(v) for v in data[at:].split()[:count]], np.int64)
    else:
        flat = np.frombuffer(data, np.uint8, count, at + 1).astype(np.int64)
    if flat.size != count or (flat > top).any():
        raise ValueError(f"a PNM of {flat.size} samples that needs {count}")
    pixels = ((flat * 255 + top // 2) // top).astype(np.uint8).reshape(height, width, channels)
    return np.broadcast_to(pixels, (height, width, 3))
