# SPDX-License-Identifier: Apache-2.0
"""Slice and Reshape where the data say from where to where, or how long the new axes are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_nodes import DYNAMIC, attribute, original_name, shape_of
from aot.shapes.dynamic.data_dependent import SOURCES, given, needed, total_of
from aot.shapes.dynamic.equality_constraints import agreed
from aot.shapes.dynamic.extents import INT64, Extents, constant_ints, no_bound, refused
from aot.shapes.dynamic.reshape_factor import regrouped
from aot.shapes.evaluate import Invalid, slice_of
from aot.shapes.partial_values import lookup

if TYPE_CHECKING:
    import onnx_ir as ir

BOOL = 9
MOST_TIMES, MOST = 64, 1 << 16
"""A bound may have this many times the elements there are, or this many."""


def sliced(x: Extents, node: ir.Node) -> None:
    """Slice along a dynamic axis, or from or to places read at run time."""
    data = needed(node, 0)
    shape, rank = shape_of(data), len(shape_of(data))
    numbers = [given(node, i) for i in (1, 2, 3, 4)]
    if numbers[0] is None or numbers[1] is None:
        raise Invalid("starts or ends are missing")
    if x.of(numbers[0]) or x.of(numbers[1]):
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
    vectors = [_long(x, node, v) for v in (numbers[0], numbers[1], steps)]
    items = [_items(x, v) for v in vectors]
    result, open_axes = list(shape), {a: n for a, n in x.of(data).items() if a not in axes}
    cut: list[int] = []
    for i, axis in enumerate(axes):
        start, end, step = (v[i] for v in items)
        if axis not in x.of(data) and None not in (start, end, step):
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
    x.become(node.outputs[0], y, open_axes)
    x.drop(node)


def _until(
    x: Extents,
    node: ir.Node,
    data: ir.Value,
    axis: int,
    items: Sequence[Sequence[int | None]],
    vectors: Sequence[ir.Value],
    i: int,
    bound: int,
) -> ir.Value | None:
    """The extent of rows cut in steps of 1 from a known place, where it is a plain number.

    x[:n] has n rows if x has as many; x[2:] of n rows has n - 2 if n is 2 at least.
    """
    start, end, step = (v[i] for v in items)
    if start is None or start < 0 or step != 1:
        return None
    n = x.extent(node, data, axis)
    last = n
    if end is None:
        last = x.at(node, vectors[1], i)
        room = x.interval(x.vector(node, "Sub", n, last))
        fits = room is not None and room.low[0] >= 0
        if not fits and not _no_more(x, last, n):
            return None
    elif end < 0:
        last = x.vector(node, "Add", n, x.ints(node, [end]))
    else:
        least = x.interval(n)
        if end < shape_of(data)[axis]:
            return None if least is None or least.low[0] < end else x.ints(node, [end - start])
    length = last if start == 0 else x.vector(node, "Sub", last, x.ints(node, [start]))
    limits = x.interval(length)
    return length if limits is not None and limits.low[0] >= 0 else None


def _no_more(x: Extents, last: ir.Value, n: ir.Value) -> bool:
    """Whether an end is no further than the extent of the axis, as numbers."""
    a, b = x.interval(last), x.interval(n)
    return x.same(last, n) or (a is not None and b is not None and a.high[0] <= b.low[0])


def _items(x: Extents, vector: ir.Value) -> list[int | None]:
    known = lookup(vector, x.sweep.facts)
    return known.items() if known is not None else [None] * shape_of(vector)[0]


def _long(x: Extents, node: ir.Node, vector: ir.Value) -> ir.Value:
    if int(vector.dtype or 0) == INT64:
        return vector
    return x.node(node, "Cast", [vector], [(INT64, shape_of(vector))], to=INT64)[0]


def _cut_bound(x: Extents, vectors: Sequence[ir.Value], i: int, size: int) -> int:
    """The most elements that are left of an axis of at most `size`."""
    start, end, step = (x.interval(v) for v in vectors)
    if start is None or end is None or step is None or not step.low[i] >= 1:
        return size
    first, last = float(start.low[i]), float(end.high[i])
    if first < 0 or float(end.low[i]) < 0:
        return size
    span = max(0.0, min(last, float(size)) - first)
    return int(np.ceil(span / float(step.low[i])))


def reshaped(x: Extents, node: ir.Node) -> None:
    """Reshape: of the padded form where a dynamic axis stays what it is, else of the elements."""
    data, target = needed(node, 0), needed(node, 1)
    if x.of(target):
        raise refused(node, "gets a shape of unknown rank")
    reshape_to(x, node, data, target, not attribute(node, "allowzero", 0))


def reshape_to(
    x: Extents, node: ir.Node, data: ir.Value, target: ir.Value, zero: bool = False
) -> None:
    """Replace `node` by `data` in the shape `target`; `zero` copies extents as Reshape does."""
    if not regrouped(x, node, data, target, zero):
        _repacked(x, node, data, target, zero)


def _repacked(x: Extents, node: ir.Node, data: ir.Value, target: ir.Value, zero: bool) -> None:
    """All elements in a row, then spread to the new bound."""
    shape = shape_of(data)
    count, rank = prod(shape), shape_of(target)[0]
    items = _items(x, target)
    wanted = _long(x, node, target)
    total = total_of(x, node, data)
    _all_of(x, node, data, items, total, zero)
    if zero:
        own = [x.extent(node, data, a) for a in range(len(shape))][:rank]
        own += [x.ints(node, [0])] * (rank - len(own))
        wanted = _where(x, node, "Equal", wanted, x.joined(node, own) if own else wanted, wanted)
    one = x.ints(node, [1] * rank)
    rest = _where(x, node, "Less", wanted, one, wanted)
    product = x.node(node, "ReduceProd", [rest, x.ints(node, [0])], [(INT64, (1,))], keepdims=1)[0]
    left = x.vector(node, "Div", total, x.vector(node, "Max", product, x.ints(node, [1])))
    wanted = _where(x, node, "Less", wanted, left, wanted)
    fixed = prod(
        i for k, i in enumerate(items) if i is not None and i > 0 and not (i == 0 and k >= 0)
    )
    result, axes = [], {}
    for i, item in enumerate(items):
        if item == 0 and zero and i < len(shape) and i not in x.of(data):
            item = shape[i]
        if item is not None and item >= 0 and not (item == 0 and zero):
            result.append(item)
            continue
        high = x.of(data) and item == 0 and shape[i]
        bound = int(high) if high else count // max(fixed, 1)
        limits = x.interval(target) if item is None else None
        if limits is not None and limits.low[i] > 0:
            bound = int(min(float(bound), float(limits.high[i])))
        result.append(bound)
        axes[i] = x.new(x.at(node, wanted, i), bound)
    if prod(result) > max(MOST_TIMES * count, MOST):
        raise no_bound(node, f'"{original_name(target)}" can be any shape of {count} elements')
    kind = int(data.dtype or 0)
    parts = x.flat(node, data)
    y = x.node(node, "Spread", [parts, wanted], [(kind, tuple(result))], DYNAMIC)[0]
    x.become(node.outputs[0], y, axes)
    x.drop(node)


def _all_of(
    x: Extents,
    node: ir.Node,
    data: ir.Value,
    items: Sequence[int | None],
    total: ir.Value,
    zero: bool,
) -> None:
    """Let every run compare the elements there are with those of the new shape, where that says."""
    if None in items or not x.said(total):
        return
    product = x.ints(node, [prod(i for i in items if i is not None and i > 0)])
    for i, item in enumerate(items):
        if item == 0:
            own = x.extent(node, data, i) if zero and i < len(shape_of(data)) else x.ints(node, [0])
            product = x.vector(node, "Mul", product, own)
    if -1 in items:
        divisor = x.vector(node, "Max", product, x.ints(node, [1]))
        product = x.vector(node, "Mul", x.vector(node, "Div", total, divisor), product)
    agreed(x, node, total, product, "is not of as many elements")


def _where(
    x: Extents, node: ir.Node, test: str, wanted: ir.Value, yes: ir.Value, no: ir.Value
) -> ir.Value:
    """`yes` where an element of `wanted` is 0 (Equal) or negative (Less), else `no`."""
    rank = shape_of(wanted)
    zero = x.ints(node, [0])
    chosen = x.node(node, test, [wanted, zero], [(BOOL, rank)])[0]
    return x.node(node, "Where", [chosen, yes, no], [(INT64, rank)])[0]


SOURCES.update({"Slice": sliced, "Reshape": reshaped})
