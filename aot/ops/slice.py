# SPDX-License-Identifier: Apache-2.0
"""Slice, Expand, Tile: strided reads of the source."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ir.layout import Layout
from aot.ir.operators import Moves
from aot.ops.concat import take_channels
from aot.ops.moves import Axis, Shape, stored, strides, view_or_move
from aot.ops.registry import op
from aot.shapes.cures import Sizing, axes, sizings, zeros
from aot.shapes.evaluate import evaluates, integers, need, optional, slice_of
from aot.shapes.reference import Inputs
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.layouts import channels_last, is_channels_last
from aot.vendor.match import Match, ValueRef
from aot.vendor.recorder import Recorder

if TYPE_CHECKING:
    import onnx_ir as ir

slice_ = op("Slice", "x starts ends axes? steps?", traits=[Moves("x", fewer=True)])
expand = op("Expand", "x shape", traits=[Moves("x")])
tile = op("Tile", "x repeats", traits=[Moves("x")])


sizings("Slice")(Sizing(examples={1: zeros, 3: axes}))


@evaluates("Slice")
def slice_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    data = need(inputs, 0)
    starts, ends = integers(need(inputs, 1)), integers(need(inputs, 2))
    axes = integers(optional(inputs, 3)) or list(range(len(starts)))
    steps = integers(optional(inputs, 4)) or [1] * len(starts)
    where = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        where[axis] = slice_of(start, end, step, data.shape[axis])
    return [data[tuple(where)]]


@evaluates("Expand")
def expand_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    data = need(inputs, 0)
    shape = np.broadcast_shapes(data.shape, tuple(integers(need(inputs, 1))))
    return [np.broadcast_to(data, shape)]


@evaluates("Tile")
def tile_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    return [np.tile(need(inputs, 0), integers(need(inputs, 1)))]


def _numbers(value: ValueRef | None) -> list[int] | None:
    return None if value is None or value.data is None else [int(v) for v in value.data.ravel()]


def ranges(m: Match) -> list[range]:
    """The indices that each axis of x keeps; bounds are clamped as ONNX says."""
    starts, ends = _numbers(m.starts) or [], _numbers(m.ends) or []
    axes = _numbers(m.axes) or list(range(len(starts)))
    steps = _numbers(m.steps) or [1] * len(starts)
    kept = [range(n) for n in m.x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        extent = m.x.shape[axis]
        kept[axis] = range(*slice(start, end, step).indices(extent))
    return kept


@slice_.check
def slice_supported(m: Match) -> Iterator[tuple[bool, str]]:
    for name in ("starts", "ends", "axes", "steps"):
        value = m.values[name]
        yield value is None or value.is_const, f"{name} is computed at run time (needs a constant)"
    steps = _numbers(m.steps) or [1]
    yield 0 not in steps, "step 0"


def _cut(m: Match) -> list[int]:
    """Axes that lose elements or change direction."""
    kept = ranges(m)
    return [i for i, (r, n) in enumerate(zip(kept, m.x.shape, strict=True)) if r != range(n)]


@slice_.layouts
def slice_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Blocked input: cuts of other axes, or one run of channels alone."""
    layout, cut = incoming["x"], _cut(m)
    if is_channels_last(m.x, layout) and math.prod(m.y.shape):
        return {"x": layout, "y": channels_last(m.y)}
    channels_alone = cut == [1] and ranges(m)[1].step == 1
    if not layout.blocked or (1 in cut and not channels_alone) or math.prod(m.y.shape) == 0:
        return {}
    return {"x": layout, "y": layout}


@slice_.lower
def slice_to_kernel(c: Recorder, m: Match) -> None:
    kept = ranges(m)
    last = is_channels_last(m.x, m.x.layout)
    if m.x.layout.blocked and _cut(m) == [1] and not last:
        take_channels(c, m.y, m.x, kept[1].start)
        return
    if m.x.layout.blocked:
        physical = stored(m.x)
        lanes = kept[1] if last else range(physical[-1])
        kept = [kept[0], range(physical[1]), *kept[2:], lanes]
    xs = strides(stored(m.x))
    shape = [len(r) for r in kept]
    ys = strides(shape)
    axes = [Axis(len(r), a, b * r.step) for r, a, b in zip(kept, ys, xs, strict=True)]
    first = sum(r.start * s for r, s in zip(kept, xs, strict=True)) if all(shape) else 0
    view_or_move(c, m.y, m.x, axes, first)


@slice_.cases
def slice_cases() -> Iterator[Case]:
    four = (1, 2, 3, 4)
    far = np.iinfo(np.int64)
    yield case(f32(4, 5, 6), i64(1, 2), i64(3, 5), const=(1, 2))
    yield case(f32(4, 5, 6), i64(1), i64(3), i64(0), const=(1, 2, 3))
    yield case(f32(4, 5, 6), i64(-1, 4), i64(int(far.min), 0), i64(2, 1), i64(-1, -2), const=four)
    yield case(f32(20, 3), i64(1), i64(int(far.max)), i64(0), i64(3), const=four)
    yield case(ints(4, 5, dtype="int8"), i64(-100, 1), i64(100, 2), const=(1, 2))
    yield case(f32(4, 5), i64(3), i64(2), i64(1), const=(1, 2, 3))
    yield case(ints(4, 5, 2, dtype="int64"), i64(1, 0), i64(5, 4), i64(1, 0), i64(2, 2), const=four)
    yield case(f32(4, 5), i64(-1, 3), i64(-9, 3), i64(0, 1), i64(-1, 1), const=four)


def broadcast_axes(x: Shape, y: Shape) -> list[Axis]:
    """Loops that read x (right-aligned, extents 1 repeated) for every element of y."""
    full = (1,) * (len(y) - len(x)) + tuple(x)
    xs = strides(full)
    return [
        Axis(n, a, b if own != 1 else 0)
        for n, own, a, b in zip(y, full, strides(y), xs, strict=True)
    ]


@expand.lower
def expand_to_kernel(c: Recorder, m: Match) -> None:
    view_or_move(c, m.y, m.x, broadcast_axes(m.x.shape, m.y.shape), 0)


@expand.cases
def expand_cases() -> Iterator[Case]:
    yield case(f32(3, 1), i64(2, 3, 5), const=(1,))
    yield case(f32(1, 4), i64(3, 1), const=(1,))
    yield case(ints(1, 32, 1), i64(1, 32, 7), const=(1,))
    yield case(f32(3, 4), i64(1, 1), const=(1,))
    yield case(np.array(2.5, np.float32), i64(2, 3), const=(1,))


@tile.check
def tile_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.repeats.is_const, "repeats are computed at run time (needs a constant)"


@tile.lower
def tile_to_kernel(c: Recorder, m: Match) -> None:
    axes: list[Axis] = []
    counts = _numbers(m.repeats) or []
    loops = zip(counts, m.x.shape, strides(m.y.shape), strides(m.x.shape), strict=True)
    for count, extent, ys, xs in loops:
        axes += [Axis(count, ys * extent, 0), Axis(extent, ys, xs)]
    view_or_move(c, m.y, m.x, axes, 0)


@tile.cases
def tile_cases() -> Iterator[Case]:
    yield case(f32(2, 3), i64(2, 2), const=(1,))
    yield case(f32(2, 3, 4), i64(1, 3, 1), const=(1,))
    yield case(ints(5, dtype="uint8", low=0), i64(3), const=(1,))
    yield case(f32(2, 3), i64(1, 1), const=(1,))
