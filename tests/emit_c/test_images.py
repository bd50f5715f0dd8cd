# SPDX-License-Identifier: Apache-2.0
"""ImageDecoder on images known at compile time."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from aot.errors import UnsupportedError
from aot.ops.images import decode_image

PIXELS = np.random.default_rng(4).integers(0, 256, (3, 5, 3)).astype(np.uint8)


def bmp(pixels: np.ndarray, depth: int, down: bool = False) -> bytes:
    """An uncompressed bitmap; 8 bits: the first channel as indices into a table of greys."""
    height, width, _ = pixels.shape
    table = b"".join(bytes([i, i, i, 0]) for i in range(256)) if depth == 8 else b""
    rows = pixels[..., ::-1] if depth != 8 else pixels[..., :1]
    if depth == 32:
        rows = np.concatenate([rows, np.zeros((height, width, 1), np.uint8)], 2)
    rows = rows if down else rows[::-1]
    pad = -(width * depth // 8) % 4
    body = b"".join(row.tobytes() + bytes(pad) for row in rows)
    start = 54 + len(table)
    head = struct.pack("<2sIHHI", b"BM", start + len(body), 0, 0, start)
    size = -height if down else height
    info = struct.pack("<IiiHHIIiiII", 40, width, size, 1, depth, 0, len(body), 0, 0, 0, 0)
    return head + info + table + body


@pytest.mark.parametrize("down", [False, True])
def test_bitmaps(down: bool) -> None:
    for depth in (24, 32):
        assert np.array_equal(decode_image(bmp(PIXELS, depth, down), "RGB"), PIXELS)
    assert np.array_equal(decode_image(bmp(PIXELS, 24, down), "BGR"), PIXELS[..., ::-1])
    grey = np.repeat(PIXELS[..., :1], 3, 2)
    assert np.array_equal(decode_image(bmp(PIXELS, 8, down), "RGB"), grey)
    assert np.array_equal(decode_image(bmp(PIXELS, 8, down), "Grayscale"), PIXELS[..., :1])


def test_pnm() -> None:
    colour = b"P6\n# made by hand\n5 3\n255\n" + PIXELS.tobytes()
    assert np.array_equal(decode_image(colour, "RGB"), PIXELS)
    text = "P3 5 3 255 " + " ".join(map(str, PIXELS.ravel()))
    assert np.array_equal(decode_image(text.encode(), "RGB"), PIXELS)
    grey = b"P5 5 3 15\n" + (PIXELS[..., 0] & 15).tobytes()
    assert np.array_equal(decode_image(grey, "Grayscale")[..., 0], (PIXELS[..., 0] & 15) * 17)


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"\xff\xd8\xff", UnsupportedError, "in JPEG, which is not decoded"),
        (b"\x89PNG\r\n", UnsupportedError, "in PNG, which is not decoded"),
        (b"GIF89a", UnsupportedError, "begins with b'GIF8'"),
        (b"P4 1 1\n\0", UnsupportedError, "begins with b'P4 1'"),
        (bmp(PIXELS, 24)[:80], ValueError, "bytes that needs"),
        (b"P6 5 3 255\n1234", ValueError, "buffer is smaller|samples that needs"),
    ],
)
def test_refused(data: bytes, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        decode_image(data, "RGB")
