# SPDX-License-Identifier: Apache-2.0
"""Pad: adds or removes elements at both ends of axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from aot.ir.layout import Layout
from aot.ir.operators import Exact, Moves
from aot.ops.moves import Axis, move, padded, stored, strides
from aot.ops.registry import op
from aot.shapes.cures import Sizing, axes, sizings, zeros
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.match import Match
from aot.vendor.recorder import Recorder

MODES = ("constant", "edge", "reflect", "wrap")

pad = op(
    "Pad",
    "x pads value? axes?",
    traits=[Moves("x", fills=True, bytes_only=True), Exact()],
    mode="constant",
)


sizings("Pad")(Sizing(examples={1: zeros, 3: axes}))


def before_of(m: Match) -> list[int]:
    """Elements added in front of every axis (negative: removed)."""
    pads = [int(p) for p in m.pads.data]
    half = len(pads) // 2
    axes = range(half) if m.axes is None else [int(a) % m.x.rank for a in m.axes.data]
    before = [0] * m.x.rank
    for axis, count in zip(axes, pads[:half], strict=True):
        before[axis] = count
    return before


def merged(
    y: Sequence[int], x: Sequence[int], before: Sequence[int], constant: bool
) -> tuple[list[int], list[int], list[int]]:
    """Shapes of y and x and the front padding in the fewest axes, so that rows are long.

    An axis that keeps all its elements joins the one before it, if that one does too or if whole
    rows of it are added (a constant does not care where it is copied from).
    """
    ys, xs, fronts = [y[0]], [x[0]], [before[0]]
    for extent, own, front in zip(y[1:], x[1:], before[1:], strict=True):
        alone = extent == own and front == 0
        if alone and (constant or (ys[-1] == xs[-1] and fronts[-1] == 0)):
            ys[-1], xs[-1], fronts[-1] = ys[-1] * extent, xs[-1] * own, fronts[-1] * extent
        else:
            ys, xs, fronts = [*ys, extent], [*xs, own], [*fronts, front]
    return ys, xs, fronts


@pad.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.mode in MODES, f"mode {m.mode!r} (needs one of {', '.join(MODES)})"
    yield m.pads.is_const, "pads are computed at run time (needs a constant)"
    yield m.axes is None or m.axes.is_const, "axes are computed at run time (needs a constant)"
    yield 1 <= m.x.rank <= 7, f"rank {m.x.rank} (needs 1 to 7)"
    empty = 0 in m.x.shape and m.mode != "constant"
    yield not empty, f"mode {m.mode!r} of an empty tensor {list(m.x.shape)}"


@pad.layouts
def spatial_only(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Channels in blocks may stay when no channel is added or removed."""
    layout = incoming["x"]
    if not layout.blocked or m.x.shape[1] != m.y.shape[1] or before_of(m)[1]:
        return {}
    return {"x": layout, "y": layout}


@pad.lower
def to_kernel(c: Recorder, m: Match) -> None:
    if math.prod(m.y.shape) == 0:
        move(c, m.y, m.x, [Axis(0, 1, 1)])
        return
    before = before_of(m) + [0] * (len(stored(m.x)) - m.x.rank)
    shape, source, before = merged(stored(m.y), stored(m.x), before, m.mode == "constant")
    value = m.value if m.value is not None else c.const(np.zeros(1, m.x.dtype.numpy), "zero")
    params = c.params(
        dims=padded(shape, 1),
        ys=padded(strides(shape), 0),
        xs=padded(strides(source), 0),
        extent=padded(source, 1),
        before=padded(before, 0),
    )
    instance = {"E": m.x.dtype.nbytes, "MODE": MODES.index(m.mode)}
    c.call("aot_pad", m.y, m.x, value, params, instance=instance)


@pad.cases
def cases() -> Iterator[Case]:
    half = np.array(0.5, np.float32)
    yield case(f32(2, 3, 4), i64(0, 1, 2, 1, 0, 3), const=(1,))
    x = f32(2, 3, 4)
    cut = np.pad(x[:, :2, 2:], ((0, 1), (1, 0), (0, 3)), constant_values=0.5)
    yield case(x, i64(0, 1, -2, 1, -1, 3), half, const=(1, 2), expected=(cut,))
    yield case(f32(2, 5, 6), i64(0, 2, 3, 1, 4, 5), const=(1,), mode="reflect")
    yield case(f32(1, 1, 40), i64(0, 0, 7, 0, 0, 39), const=(1,), mode="reflect")
    yield case(f32(2, 5), i64(3, 2, 1, 4), const=(1,), mode="edge")
    yield case(f32(2, 5), i64(3, 2, 1, 9), const=(1,), mode="wrap")
    yield case(ints(2, 3, dtype="int64"), i64(2, 1), np.array(7), i64(-1), const=(1, 2, 3))
    yield case(f32(3, 4), i64(1, 1, 1, 1), half, const=(1,))
    yield case(f32(1, 5, 4, 3), i64(0, 0, 0, 0, 0, 0, 3, 0), const=(1,))
    yield case(f32(2, 3, 4, 3), i64(0, 0, 2, 0, 0, 0, 1, 0), const=(1,), mode="reflect")
