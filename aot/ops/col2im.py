# SPDX-License-Identifier: Apache-2.0
"""Col2Im: overlapping blocks of an image, in columns, added up where they lie."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aot.ops.registry import op
from aot.shapes.cures import Role, Sizing, sizings
from aot.vendor import Match, Recorder
from aot.vendor.cases import Case, case, f32, i64, ints

#: Axes of an image that the kernel counts.
AXES = 6
FLOATS = {"float32": "f32", "float64": "f64"}

col2im = op("Col2Im", "x image block", dilations=None, pads=None, strides=None)


def image_example(role: Role, count: int) -> list[int]:
    """An example of an image shape that has as many positions as the input has columns.

    `count` is the number of axes: all of size 1 but the first.
    """
    return [1] * count if role.data is None else [role.data[-1], *[1] * (count - 1)]


sizings("Col2Im")(Sizing(examples={1: image_example}))


def windows(m: Match) -> dict[str, list[int]]:
    """By name, one number per axis of the image: sizes, window, strides, dilations, first pads,
    blocks.

    `steps` is the number of blocks that fit along an axis.
    """
    image, block = ([int(v) for v in c.data] for c in (m.image, m.block))
    rank = len(block)
    strides, dilations = m.strides or [1] * rank, m.dilations or [1] * rank
    pads = m.pads or [0] * (2 * rank)
    # How far the last block can begin behind the first one.
    reach = [
        i + a + b - d * (k - 1) - 1
        for i, k, d, a, b in zip(image, block, dilations, pads[:rank], pads[rank:], strict=True)
    ]
    return {
        "image": image,
        "block": block,
        "stride": list(strides),
        "dilation": list(dilations),
        "pad": list(pads[:rank]),
        "steps": [max(0, r // s + 1) for r, s in zip(reach, strides, strict=True)],
    }


@col2im.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of types, ranks, constant shapes and attributes within the kernel's limits."""
    kind = m.x.dtype.numpy.kind if m.x.dtype.numpy is not None else "?"
    known = m.x.dtype.name in FLOATS or kind in "iu"
    yield known, f"dtype {m.x.dtype} (needs floats or integers of 8 to 64 bits)"
    for name in ("image", "block"):
        yield getattr(m, name).is_const, f"{name}_shape is computed at run time (needs a constant)"
    yield m.x.rank == 3, f"input {list(m.x.shape)} (needs [N, C * block, blocks])"
    rank = math.prod(m.block.shape)
    yield 1 <= rank <= AXES, f"an image of {rank} axes (1 to {AXES})"
    yield m.image.shape == m.block.shape, f"{m.image.shape} extents, {m.block.shape} of blocks"
    # The kernel's parameters have 32 bits.
    for name, given, count in (
        ("strides", m.strides, rank),
        ("dilations", m.dilations, rank),
        ("pads", m.pads, 2 * rank),
    ):
        yield given is None or len(given) == count, f"{name} {given} of {rank} axes"
        least = 0 if name == "pads" else 1
        yield all(least <= v < 2**31 for v in given or ()), f"{name} {given}"
    yield from _fits(m)


def _fits(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the input has as many columns as the image has blocks."""
    found = windows(m)
    yield all(1 <= v < 2**31 for v in found["block"]), f"block_shape {found['block']}"
    yield all(0 <= v < 2**31 for v in found["image"]), f"image_shape {found['image']}"
    _, depth, count = m.x.shape
    taps, blocks = math.prod(found["block"]), math.prod(found["steps"])
    yield depth % taps == 0, f"{depth} rows of blocks of {found['block']}"
    yield blocks >= 1, f"an image of {found['image']} has no block of {found['block']}"
    yield blocks == count, f"{count} columns; the image has {blocks} blocks ({found['steps']})"


@col2im.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_col2im with every list extended to six axes in front."""
    found = windows(m)
    fill = {"image": 1, "block": 1, "stride": 1, "dilation": 1, "pad": 0, "steps": 1}

    def six(values: Sequence[int], first: int) -> tuple[int, ...]:
        """`values` at the end of AXES numbers, `first` before them."""
        return (*[first] * (AXES - len(values)), *values)

    short = FLOATS.get(m.x.dtype.name) or f"u{8 * m.x.dtype.nbytes}"
    params = c.params(
        planes=m.x.shape[0] * m.x.shape[1] // math.prod(found["block"]),
        **{name: six(values, fill[name]) for name, values in found.items()},
    )
    c.call(f"aot_col2im_{short}", m.y, m.x, params, header="aot_col2im.h")


@col2im.cases
def cases() -> Iterator[Case]:
    """Col2Im(input, image_shape, block_shape): overlap, strides, pads, dilations, 1-D to 3-D."""
    x = f32(2, 12, 12)
    yield case(x, i64(4, 5), i64(2, 2), const=(1, 2))
    yield case(f32(1, 9, 4), i64(5, 5), i64(3, 3), const=(1, 2), strides=[2, 2])
    yield case(
        f32(1, 4, 30), i64(6, 6), i64(2, 2), const=(1, 2), pads=[1, 0, 0, 1], dilations=[2, 1]
    )
    odd: dict[str, Any] = {"strides": [3, 2], "pads": [1, 2, 0, 1], "dilations": [1, 2]}
    yield case(f32(1, 12, 12), i64(9, 8), i64(2, 3), const=(1, 2), **odd)
    yield case(f32(1, 8, 12), i64(3, 4, 3), i64(2, 2, 2), const=(1, 2))
    yield case(f32(2, 3, 6), i64(8), i64(3), const=(1, 2))
    yield case(f32(1, 4, 6).astype(np.float64), i64(3, 4), i64(2, 2), const=(1, 2))
    for dtype in ("int8", "uint16", "int32", "int64"):
        yield case(ints(1, 4, 6, dtype=dtype, low=0, high=99), i64(3, 4), i64(2, 2), const=(1, 2))
    wild = f32(1, 8, 6)
    wild[0, 1, 2], wild[0, 5, 3], wild[0, 6, 0] = np.inf, -np.inf, np.nan
    yield case(wild, i64(3, 4), i64(2, 2), const=(1, 2))
