# SPDX-License-Identifier: Apache-2.0
"""Nodes whose result is as long as the data say: planned for the longest it can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isfinite, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import DYNAMIC, attribute, original_name, shape_of
from aot.shapes.dynamic.extents import (
    INT64,
    Axes,
    Extents,
    axis_of,
    constant_ints,
    no_bound,
    refused,
)
from aot.shapes.dynamic.string_ops import normalizer, splitter
from aot.shapes.evaluate import Invalid
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.partial_values import lookup

if TYPE_CHECKING:
    import onnx_ir as ir

Rule = Callable[[Extents, "ir.Node"], None]
BOOL, FLOAT = 9, 1


def given(node: ir.Node, index: int) -> ir.Value | None:
    """Input `index`, None if it is absent."""
    return node.inputs[index] if index < len(node.inputs) else None


def needed(node: ir.Node, index: int) -> ir.Value:
    """Input `index`; Invalid if it is absent."""
    found = given(node, index)
    if found is None:
        raise Invalid(f"input {index} is missing")
    return found


def _indices(x: Extents, node: ir.Node, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Coordinates [rank, elements] of what is not zero in `value`, and their number."""
    shape = shape_of(value) or (1,)
    if int(value.dtype or 0) != BOOL:
        value = x.node(node, "Cast", [value], [(BOOL, shape_of(value))], to=BOOL)[0]
    if not shape_of(value):
        value = x.node(node, "Reshape", [value, x.ints(node, [1])], [(BOOL, (1,))])[0]
    count = prod(shape)
    kinds = [(INT64, (len(shape), count)), (INT64, (1,))]
    y, n = x.node(node, "NonZero", [value], kinds, DYNAMIC)
    return y, x.new(n, count)


def nonzero(x: Extents, node: ir.Node) -> None:
    """NonZero: at most as many as there are elements."""
    source = needed(node, 0)
    rank = len(shape_of(source))
    if x.of(source):
        source = _like_before(x, node, source)
    y, n = _indices(x, node, source)
    if rank == 0:
        y = x.node(node, "Reshape", [y, x.ints(node, [0, 1])], [(INT64, (0, 1))])[0]
    x.become(node.outputs[0], y, {1: n})
    x.drop(node)


def _like_before(x: Extents, node: ir.Node, source: ir.Value) -> ir.Value:
    """`source` as booleans that are false in the tails."""
    axes = x.of(source)
    if int(source.dtype or 0) != BOOL:
        source = x.node(node, "Cast", [source], [(BOOL, shape_of(source))], to=BOOL)[0]
        x.set(source, axes)
    return x.neutral(node, source, False)


def compress(x: Extents, node: ir.Node) -> None:
    """Compress: Gather at the places where the condition holds."""
    data, condition = needed(node, 0), needed(node, 1)
    if attribute(node, "axis") is None:
        axes: Axes = {0: total_of(x, node, data)} if x.of(data) else {}
        data, axis = x.flat(node, data), 0
        x.set(data, axes)
    else:
        axis = axis_of(node, len(shape_of(data)))
    size = shape_of(data)[axis]
    if x.of(condition):
        condition = x.neutral(node, condition, False)
    if shape_of(condition)[0] > size:
        cut = [x.ints(node, v) for v in ([0], [size], [0])]
        condition = x.node(node, "Slice", [condition, *cut], [(BOOL, (size,))])[0]
    places, n = _indices(x, node, condition)
    count = shape_of(places)[1]
    places = x.node(node, "Reshape", [places, x.ints(node, [count])], [(INT64, (count,))])[0]
    shape = (*shape_of(data)[:axis], count, *shape_of(data)[axis + 1 :])
    kind = [(int(data.dtype or 0), shape)]
    y = x.node(node, "Gather", [data, places], kind, axis=axis)[0]
    x.become(node.outputs[0], y, {**x.of(data), axis: n})
    x.drop(node)


def total_of(x: Extents, node: ir.Node, value: ir.Value) -> ir.Value:
    """How many elements a value has."""
    shape = x.shape(node, value)
    axes = x.ints(node, [0])
    total = x.node(node, "ReduceProd", [shape, axes], [(INT64, (1,))], keepdims=1)[0]
    return x.new(total, prod(shape_of(value)))


def unique(x: Extents, node: ir.Node) -> None:
    """Unique: at most as many as there are slices."""
    data, axis = needed(node, 0), attribute(node, "axis")
    if axis is None:
        m = total_of(x, node, data)
        data, axis = x.flat(node, data), 0
    else:
        axis = axis_of(node, len(shape_of(data)))
        if set(x.of(data)) - {axis}:
            raise refused(node, "meets two dimensions known at run time only")
        m = x.extent(node, data, axis)
    size = shape_of(data)[axis]
    outputs = list(node.outputs)
    kinds: list[tuple[int, Sequence[int]] | None] = [(int(data.dtype or 0), shape_of(data))]
    for index in range(1, 4):
        wanted = index < len(outputs) and bool(outputs[index].name)
        kinds.append((INT64, (size,)) if wanted else None)
    kinds.append((INT64, (1,)))
    how: dict[str, Any] = {"axis": axis, "sorted": int(attribute(node, "sorted", 1))}
    *found, n = x.node(node, "Unique", [data, m], kinds, DYNAMIC, **how)
    x.new(n, size)
    lengths: list[Axes] = [{axis: n}, {0: n}, {0: m}, {0: n}]
    known = lookup(m, x.sweep.facts)
    if known is not None and known.full:
        lengths[2] = {}
    for old, new, axes in zip(outputs, found, lengths, strict=False):
        if old.name:
            x.become(old, new, axes)
    x.drop(node)


def suppression(x: Extents, node: ir.Node) -> None:
    """NonMaxSuppression: every box of every class, or as many as asked for."""
    scores = needed(node, 1)
    if x.of(needed(node, 0)) or x.of(scores):
        raise refused(node, "gets boxes whose number is known at run time only")
    batch, classes, boxes = shape_of(scores)
    most = x.interval(given(node, 2))
    limit = 0 if given(node, 2) is None else boxes
    if most is not None and most.high.size:
        limit = int(max(0.0, min(float(boxes), float(most.high.ravel()[0]))))
    rows = batch * classes * limit
    inputs = [given(node, i) for i in range(5)]
    how: dict[str, Any] = {"center_point_box": int(attribute(node, "center_point_box", 0))}
    kinds = [(INT64, (rows, 3)), (INT64, (1,))]
    y, n = x.node(node, "NonMaxSuppression", inputs, kinds, DYNAMIC, **how)
    x.become(node.outputs[0], y, {0: x.new(n, rows)})
    x.drop(node)


def top_k(x: Extents, node: ir.Node) -> None:
    """TopK with k read at run time: the best of as many as k can be, of which k count."""
    data, k = needed(node, 0), needed(node, 1)
    axis = axis_of(node, len(shape_of(data)), -1)
    size = shape_of(data)[axis]
    known = constant_ints(x, k)
    if axis in x.of(data):
        fill = number_of(data, -inf if attribute(node, "largest", 1) else inf)
        data = x.neutral(node, data, fill, (axis,))
    axes = {a: n for a, n in x.of(data).items() if a != axis}
    if known is not None:
        bound = known[0]
        if bound > size:
            raise Invalid(f"k {bound} of {size} elements")
    else:
        limits = x.interval(k)
        high = size if limits is None else float(limits.high.ravel()[0])
        bound = int(max(0.0, min(float(size), high)))
        n = x.as_vector(node, k)
        if limits is None or high > size or limits.low.ravel()[0] < 0:
            n = x.vector(node, "Min", n, x.extent(node, data, axis))
            n = x.vector(node, "Max", n, x.ints(node, [0]))
        axes[axis] = n
    if bound == 0:
        raise refused(node, "takes no elements at all")
    shape = (*shape_of(data)[:axis], bound, *shape_of(data)[axis + 1 :])
    how: dict[str, Any] = {key: int(attribute(node, key, 1)) for key in ("largest", "sorted")}
    kinds = [(int(data.dtype or 0), shape), (INT64, shape)]
    found = x.node(node, "TopK", [data, x.ints(node, [bound])], kinds, axis=axis, **how)
    for old, new in zip(node.outputs, found, strict=False):
        if old.name:
            x.become(old, new, axes)
    x.drop(node)


def number_of(value: ir.Value, number: float) -> float | int:
    """`number` in the value's type: for -inf and inf of integers the smallest and the largest."""
    assert value.dtype is not None
    kind = value.dtype.numpy()
    if isfinite(number) or kind.kind not in "iub":
        return number
    if kind.kind == "b":
        return int(number > 0)
    return int(np.iinfo(kind).max if number > 0 else np.iinfo(kind).min)


def ranged(x: Extents, node: ir.Node) -> None:
    """Range of run-time ends: start + i * delta for as many i as there can be."""
    start, limit, delta = (needed(node, i) for i in range(3))
    kind = int(start.dtype or 0)
    bound = _range_bound(x, node)
    parts = [_one(x, node, v) for v in (start, limit, delta)]
    n = _plain_count(x, node)
    if n is None:
        n = _range_count(x, node, parts, kind)
        n = x.vector(node, "Min", n, x.ints(node, [bound]))
        n = x.vector(node, "Max", n, x.ints(node, [0]))
    steps = x.const(node, np.arange(bound).astype(parts[0].dtype.numpy()), start)  # type: ignore[union-attr]
    typed = [(kind, (bound,))]
    moved = x.node(node, "Mul", [steps, parts[2]], typed)[0]
    y = x.node(node, "Add", [moved, parts[0]], typed)[0]
    x.become(node.outputs[0], y, {0: x.new(n, bound)})
    x.drop(node)


def _plain_count(x: Extents, node: ir.Node) -> ir.Value | None:
    """The limit of a Range from 0 in steps of 1, if it is an integer that is not negative."""
    start, limit, delta = (needed(node, i) for i in range(3))
    known = [lookup(v, x.sweep.facts) for v in (start, delta)]
    if any(k is None or not k.full for k in known) or limit.dtype is None:
        return None
    if [float(k.data.ravel()[0]) for k in known if k is not None] != [0.0, 1.0]:
        return None
    limits = x.interval(limit)
    if limit.dtype.numpy().kind not in "iu" or limits is None or not limits.low.ravel()[0] >= 0:
        return None
    return x.as_vector(node, limit)


def _one(x: Extents, node: ir.Node, value: ir.Value) -> ir.Value:
    """A scalar as a vector of one element."""
    where = x.ints(node, [1])
    return x.node(node, "Reshape", [value, where], [(int(value.dtype or 0), (1,))])[0]


def _range_bound(x: Extents, node: ir.Node) -> int:
    start, limit, delta = (x.interval(needed(node, i)) for i in range(3))
    names = [original_name(needed(node, i)) for i in range(3)]
    if start is None or limit is None or delta is None:
        raise no_bound(node, f'it goes from "{names[0]}" to "{names[1]}" in steps of "{names[2]}"')
    low, high = float(delta.low.ravel()[0]), float(delta.high.ravel()[0])
    if low > 0:
        span = float(limit.high.ravel()[0]) - float(start.low.ravel()[0])
        count = np.ceil(span / low)
    elif high < 0:
        span = float(start.high.ravel()[0]) - float(limit.low.ravel()[0])
        count = np.ceil(span / -high)
    else:
        raise no_bound(node, f'the step "{names[2]}" can be of either sign')
    if not count <= MAX_ELEMENTS:
        raise no_bound(node, f'"{names[0]}" and "{names[1]}" can be any distance apart')
    return max(0, int(count))


def _range_count(x: Extents, node: ir.Node, parts: Sequence[ir.Value], kind: int) -> ir.Value:
    start, limit, delta = parts
    typed = [(kind, (1,))]
    span = x.node(node, "Sub", [limit, start], typed)[0]
    whole = x.node(node, "Div", [span, delta], typed)[0]
    if kind in (1, 10, 11, 16):
        whole = x.node(node, "Ceil", [whole], typed)[0]
        return x.node(node, "Cast", [whole], [(INT64, (1,))], to=INT64)[0]
    # Integers: one more where the division cut off a positive fraction.
    back = x.node(node, "Mul", [whole, delta], typed)[0]
    rest = x.node(node, "Sub", [span, back], typed)[0]
    product = x.node(node, "Mul", [rest, delta], typed)[0]
    zero = x.const(node, np.zeros(1, start.dtype.numpy()), start)  # type: ignore[union-attr]
    more = x.node(node, "Greater", [product, zero], [(BOOL, (1,))])[0]
    more = x.node(node, "Cast", [more], [(INT64, (1,))], to=INT64)[0]
    whole = x.node(node, "Cast", [whole], [(INT64, (1,))], to=INT64)[0]
    return x.vector(node, "Add", whole, more)


def expand(x: Extents, node: ir.Node) -> None:
    """Expand to a shape read at run time."""
    data, wanted = needed(node, 0), needed(node, 1)
    shape, axes = _wanted(x, node, wanted)
    own = shape_of(data)
    rank = max(len(own), len(shape))
    result: list[int] = []
    found: Axes = {}
    for axis in range(rank):
        i, j = axis - (rank - len(own)), axis - (rank - len(shape))
        size = own[i] if i >= 0 else 1
        asked = shape[j] if j >= 0 else 1
        mine, theirs = x.of(data).get(i), axes.get(j)
        if mine is not None:
            if not (theirs is None and asked == 1) and not (theirs and x.same(mine, theirs)):
                raise refused(node, f"may repeat dimension {axis}, known at run time only")
            found[axis], asked = mine, size
        elif size != 1:
            asked = size
        elif theirs is not None:
            found[axis] = theirs
        result.append(asked)
    y = x.node(
        node, "Expand", [data, x.ints(node, result)], [(int(data.dtype or 0), tuple(result))]
    )[0]
    x.become(node.outputs[0], y, found)
    x.drop(node)


def filled(x: Extents, node: ir.Node) -> None:
    """ConstantOfShape of a shape read at run time."""
    shape, axes = _wanted(x, node, needed(node, 0))
    tensor = attribute(node, "value")
    fill = np.zeros((), np.float32) if tensor is None else tensor.numpy().reshape(())
    assert node.graph is not None

    dtype = None if tensor is None else tensor.dtype
    value = Editor(node.graph).const(fill, f"{node.outputs[0].name}_fill", dtype)
    kind = FLOAT if tensor is None else int(tensor.dtype)
    y = x.node(node, "Expand", [value, x.ints(node, shape)], [(kind, tuple(shape))])[0]
    x.become(node.outputs[0], y, axes)
    x.drop(node)


def _wanted(x: Extents, node: ir.Node, vector: ir.Value) -> tuple[list[int], Axes]:
    """The bound of a shape read at run time, and the extents of what is not known of it."""
    if x.of(vector):
        raise refused(node, "gets a shape of unknown rank")
    rank = shape_of(vector)[0]
    known = lookup(vector, x.sweep.facts)
    items = known.items() if known is not None else [None] * rank
    limits = x.interval(vector)
    bound: list[int] = []
    axes: Axes = {}
    for axis, item in enumerate(items):
        if item is not None:
            bound.append(item)
            continue
        high = inf if limits is None else float(limits.high[axis])
        if not high <= MAX_ELEMENTS:
            what = f'dimension {axis} is element {axis} of "{original_name(vector)}"'
            raise no_bound(node, what)
        bound.append(max(0, int(high)))
        axes[axis] = x.new(x.at(node, vector, axis), max(0, int(high)))
    if prod(bound) > MAX_ELEMENTS:
        raise no_bound(node, f"all its dimensions together can be {bound}")
    return bound, axes


SOURCES: dict[str, Rule] = {
    "StringNormalizer": normalizer,
    "StringSplit": splitter,
    "NonZero": nonzero,
    "Compress": compress,
    "Unique": unique,
    "NonMaxSuppression": suppression,
    "TopK": top_k,
    "Range": ranged,
    "Expand": expand,
    "ConstantOfShape": filled,
}
"""Rules of operators whose result is as long as the data say."""
