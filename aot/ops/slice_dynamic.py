# SPDX-License-Identifier: Apache-2.0
"""Slice, Expand and Tile along dynamic axes, or by numbers that are read at run time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import DYNAMIC, given, original_name, shape_of
from aot.shapes.dynamic.dims import INT64, Axes, DynamicDims, constant_ints, no_bound, refused
from aot.shapes.dynamic.rows import counted, most_of, picked, whole_numbers, within
from aot.shapes.dynamic.rules import dynamic, items_of, needed, run_time_shape
from aot.shapes.evaluate import Invalid, slice_of
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.partial_values import lookup


@dynamic("Slice")
def slice_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Slice along a dynamic axis, or between places read at run time: the node Cut makes the most
    elements there can be, and the true sizes (int64 [rank]). Raises Invalid for axes out of range.
    """
    data = needed(node, 0)
    shape, rank = shape_of(data), len(shape_of(data))
    numbers = [given(node, i) for i in (1, 2, 3, 4)]
    if numbers[0] is None or numbers[1] is None:
        raise Invalid("starts or ends are missing")
    if x.run_sizes(numbers[0]) or x.run_sizes(numbers[1]):
        raise refused(node, "cuts along axes that are known at run time only")
    count = shape_of(numbers[0])[0]
    axes = list(range(count)) if numbers[2] is None else constant_ints(x, numbers[2])
    if axes is None:
        raise refused(node, "gets its axes at run time")
    far = [a for a in axes if not -rank <= a < rank]
    if far or len(axes) != count:
        raise Invalid(f"axes {axes[:8]} of a tensor of {rank} axes, {count} starts")
    axes = [a + rank if a < 0 else a for a in axes]
    steps = numbers[3] or x.ints(node, [1] * count)
    vectors = [whole_numbers(x, node, v) for v in (numbers[0], numbers[1], steps)]
    items = [items_of(x, v) for v in vectors]
    result, open_axes = list(shape), {a: n for a, n in x.run_sizes(data).items() if a not in axes}
    cut: list[int] = []
    for i, axis in enumerate(axes):
        start, end, step = (v[i] for v in items)
        # Known places of a static axis give a size that needs no run.
        if axis not in x.run_sizes(data) and None not in (start, end, step):
            place = slice_of(int(start or 0), int(end or 0), int(step or 0), shape[axis])
            result[axis] = len(range(*place.indices(shape[axis])))
        else:
            result[axis] = _cut_bound(x, vectors, i, shape[axis])
            cut.append(axis)
    whole = x.shape(node, data)
    kinds = [(int(data.dtype or 0), tuple(result)), (INT64, (rank,))]
    y, out = x.node(node, "Cut", [data, whole, *vectors], kinds, DYNAMIC, axes=axes)
    whole_axes = {a: i for i, a in enumerate(axes)}
    for axis in cut:
        found = _until(x, node, data, axis, items, vectors, whole_axes[axis], result[axis])
        open_axes[axis] = x.new(x.at(node, out, axis) if found is None else found, result[axis])
    x.substitute(node, y, open_axes)


def _until(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    axis: int,
    items: Sequence[Sequence[int | None]],
    vectors: Sequence[ir.Value],
    i: int,
    bound: int,
) -> ir.Value | None:
    """The size of rows cut in steps of 1 from a known place, where it is a plain number.

    x[:n] has n rows if x has as many; x[2:] of n rows has n - 2 if n is 2 at least.
    """
    start, end, step = (v[i] for v in items)
    if start is None or start < 0 or step != 1:
        return None
    n = x.dim(node, data, axis)
    last = n
    if end is None:
        last = x.at(node, vectors[1], i)
        room = x.interval(x.sub(node, n, last))
        fits = room is not None and room.low[0] >= 0
        # Otherwise the size is the smaller of two numbers, which is no plain one.
        if not fits and not _no_more(x, last, n):
            return None
    elif end < 0:
        last = x.add(node, n, x.ints(node, [end]))
    else:
        least = x.interval(n)
        if end < shape_of(data)[axis]:
            return None if least is None or least.low[0] < end else x.ints(node, [end - start])
    length = last if start == 0 else x.sub(node, last, x.ints(node, [start]))
    limits = x.interval(length)
    return length if limits is not None and limits.low[0] >= 0 else None


def _no_more(x: DynamicDims, last: ir.Value, value: ir.Value) -> bool:
    """Whether `last` is surely no larger than `value`, by their intervals or because they
    are one.
    """
    a, b = x.interval(last), x.interval(value)
    return x.same(last, value) or (a is not None and b is not None and a.high[0] <= b.low[0])


def _cut_bound(x: DynamicDims, vectors: Sequence[ir.Value], place: int, size: int) -> int:
    """The most elements that are left of an axis of at most `size`, by the intervals of its bounds.

    `vectors` are starts, ends and steps; `place` is the position of the axis in them.
    """
    start, end, step = (x.interval(v) for v in vectors)
    if start is None or end is None or step is None or not step.low[place] >= 1:
        return size
    first, last = float(start.low[place]), float(end.high[place])
    if first < 0 or float(end.low[place]) < 0:
        return size
    span = max(0.0, min(last, float(size)) - first)
    return int(np.ceil(span / float(step.low[place])))


@dynamic("Expand")
def expand_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Expand with dynamic axes, of the data or of the shape, counted from the last.

    A dynamic axis of the data must meet size 1 or the same dynamic size, else UnsupportedError.
    An axis of the data with a static size other than 1 keeps it. The result is stored at the
    upper bounds.
    """
    data, wanted = needed(node, 0), needed(node, 1)
    shape, axes = run_time_shape(x, node, wanted)
    own = shape_of(data)
    rank = max(len(own), len(shape))
    result: list[int] = []
    found: Axes = {}
    for axis in range(rank):
        i, j = axis - (rank - len(own)), axis - (rank - len(shape))
        size = own[i] if i >= 0 else 1
        requested = shape[j] if j >= 0 else 1
        mine, theirs = x.run_sizes(data).get(i), axes.get(j)
        if mine is not None:
            if not (theirs is None and requested == 1) and not (theirs and x.same(mine, theirs)):
                raise refused(node, f"may repeat dimension {axis}, known at run time only")
            found[axis], requested = mine, size
        elif size != 1:
            requested = size
        elif theirs is not None:
            found[axis] = theirs
        result.append(requested)
    y = x.node(
        node, "Expand", [data, x.ints(node, result)], [(int(data.dtype or 0), tuple(result))]
    )[0]
    x.substitute(node, y, found)


@dynamic("Tile")
def tile_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a Tile of dynamic axes, or by repeats read at run time.

    Row i of a repeated axis is row i modulo its real size.
    """
    data, times = needed(node, 0), needed(node, 1)
    rank = len(shape_of(data))
    known = lookup(times, x.sweep.partial_values)
    items = known.items() if known is not None else [None] * rank
    own, fixed = x.run_sizes(data), [1] * rank
    for axis, item in enumerate(items):
        if item is not None and axis not in own:
            # One Tile repeats all static axes together.
            fixed[axis] = item
        elif item != 1:
            repeats = x.at(node, whole_numbers(x, node, times), axis)
            data = _repeated(x, node, data, axis, repeats)
    kept = x.run_sizes(data)
    if any(f != 1 for f in fixed):
        shape = tuple(d * f for d, f in zip(shape_of(data), fixed, strict=True))
        kind = [(int(data.dtype or 0), shape)]
        data = x.node(node, "Tile", [data, x.ints(node, fixed)], kind)[0]
    x.substitute(node, data, kept)


def _repeated(
    x: DynamicDims, node: ir.Node, data: ir.Value, axis: int, times: ir.Value
) -> ir.Value:
    """`data` repeated `times` (read at run time) along `axis`, by picking rows.

    UnsupportedError if the result has no upper bound.
    """
    size, n = shape_of(data)[axis], x.dim(node, data, axis)
    most = most_of(x, times)
    if not most * max(size, 1) <= MAX_ELEMENTS:
        raise no_bound(
            node, f'dimension {axis} is repeated as often as "{original_name(times)}" says'
        )
    times = x.largest(node, times, x.ints(node, [0]))
    bound = max(0, int(most)) * size
    total = x.new(x.mul(node, n, times), bound)
    one = x.largest(node, n, x.ints(node, [1]))
    rows = x.vector(node, "Mod", counted(x, node, bound), one)
    return picked(x, node, data, within(x, node, rows, n, size), axis, total)
