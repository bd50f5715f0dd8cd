# SPDX-License-Identifier: Apache-2.0
"""Operators whose result is as large as the data say; the graph holds each at its bound.

Before: y = NonZero(x)  [2, ?]        After: y, n = aot.dynamic.NonZero(x)  [2, 12], n [1]
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import DYNAMIC, attribute, given, shape_of
from aot.shapes.dynamic.dims import INT64, Axes, DynamicDims, axis_of, refused
from aot.shapes.dynamic.equality_constraints import fit_inputs, require_equal
from aot.shapes.dynamic.rules import BOOL_TYPE, dynamic, needed, total_of
from aot.shapes.partial_values import lookup


@dynamic("NonZero")
def nonzero_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a NonZero: at most as many columns as there are elements; padding counts as zero."""
    source = needed(node, 0)
    rank = len(shape_of(source))
    if x.run_sizes(source):
        source = _like_before(x, node, source)
    y, n = _indices(x, node, source)
    if rank == 0:
        y = x.node(node, "Reshape", [y, x.ints(node, [0, 1])], [(INT64, (0, 1))])[0]
    x.substitute(node, y, {1: n})


def _like_before(x: DynamicDims, node: ir.Node, source: ir.Value) -> ir.Value:
    """`source` as booleans that are false in the padding."""
    axes = x.run_sizes(source)
    if int(source.dtype or 0) != BOOL_TYPE:
        source = x.node(node, "Cast", [source], [(BOOL_TYPE, shape_of(source))], to=BOOL_TYPE)[0]
        x.set(source, axes)
    return x.neutral(node, source, False)


@dynamic("Compress")
def compress_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a Compress by a Gather at the positions where the condition holds.

    Without an axis the elements are flattened first.
    """
    data, condition = needed(node, 0), needed(node, 1)
    if attribute(node, "axis") is None:
        axes: Axes = {0: total_of(x, node, data)} if x.run_sizes(data) else {}
        data, axis = x.flat(node, data), 0
        x.set(data, axes)
    else:
        axis = axis_of(node, len(shape_of(data)))
    size = shape_of(data)[axis]
    # Padding must select nothing.
    if x.run_sizes(condition):
        condition = x.neutral(node, condition, False)
    if shape_of(condition)[0] > size:
        cut = [x.ints(node, v) for v in ([0], [size], [0])]
        condition = x.node(node, "Slice", [condition, *cut], [(BOOL_TYPE, (size,))])[0]
    places, n = _indices(x, node, condition)
    count = shape_of(places)[1]
    places = x.node(node, "Reshape", [places, x.ints(node, [count])], [(INT64, (count,))])[0]
    shape = (*shape_of(data)[:axis], count, *shape_of(data)[axis + 1 :])
    kind = [(int(data.dtype or 0), shape)]
    y = x.node(node, "Gather", [data, places], kind, axis=axis)[0]
    x.substitute(node, y, {**x.run_sizes(data), axis: n})


@dynamic("Unique")
def unique_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a Unique by its kernel, which gives the number of different slices, too.

    UnsupportedError if an axis besides `axis` is dynamic.
    """
    data, axis = needed(node, 0), attribute(node, "axis")
    if axis is None:
        m = total_of(x, node, data)
        data, axis = x.flat(node, data), 0
    else:
        axis = axis_of(node, len(shape_of(data)))
        if set(x.run_sizes(data)) - {axis}:
            raise refused(node, "meets two dimensions known at run time only")
        m = x.dim(node, data, axis)
    size = shape_of(data)[axis]
    outputs = list(node.outputs)
    kinds: list[tuple[int, Sequence[int]] | None] = [(int(data.dtype or 0), shape_of(data))]
    for index in range(1, 4):
        wanted = index < len(outputs) and bool(outputs[index].name)
        kinds.append((INT64, (size,)) if wanted else None)
    # One result more than ONNX's: how many slices there are.
    kinds.append((INT64, (1,)))
    how: dict[str, Any] = {"axis": axis, "sorted": int(attribute(node, "sorted", 1))}
    *found, n = x.node(node, "Unique", [data, m], kinds, DYNAMIC, **how)
    x.new(n, size)
    lengths: list[Axes] = [{axis: n}, {0: n}, {0: m}, {0: n}]
    known = lookup(m, x.sweep.partial_values)
    if known is not None and known.full:
        lengths[2] = {}
    for old, new, axes in zip(outputs, found, lengths, strict=False):
        if old.name:
            x.become(old, new, axes)
    x.drop(node)


@dynamic("NonMaxSuppression")
def suppression_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """NonMaxSuppression: every box of every class, or as many as asked for.

    It counts the boxes, classes and images there are; the padding takes no part.
    """
    _same_boxes(x, node)
    scores = needed(node, 1)
    batch, classes, boxes = shape_of(scores)
    most = x.interval(given(node, 2))
    limit = 0 if given(node, 2) is None else boxes
    if most is not None and most.high.size:
        limit = int(max(0.0, min(float(boxes), float(most.high.ravel()[0]))))
    rows = batch * classes * limit
    inputs = [given(node, i) for i in range(5)]
    if x.run_sizes(scores):
        inputs.append(x.shape(node, scores))
    how: dict[str, Any] = {"center_point_box": int(attribute(node, "center_point_box", 0))}
    kinds = [(INT64, (rows, 3)), (INT64, (1,))]
    y, n = x.node(node, "NonMaxSuppression", inputs, kinds, DYNAMIC, **how)
    x.substitute(node, y, {0: x.new(n, rows)})


def _same_boxes(x: DynamicDims, node: ir.Node) -> None:
    """Let boxes and scores have one number of images and of boxes, and the same upper bounds.

    UnsupportedError if their bounds differ.
    """
    boxes, scores = needed(node, 0), needed(node, 1)
    found = dict(x.run_sizes(scores))
    for theirs, ours in ((0, 0), (1, 2)):
        if theirs in x.run_sizes(boxes) or ours in found:
            n, own = x.dim(node, boxes, theirs), x.dim(node, scores, ours)
            found[ours] = require_equal(x, node, n, own, "gets scores of another number of boxes")
    x.set(scores, found)
    fit_inputs(
        x, node, {0: {a: {0: 0, 1: 2}[a] for a in x.run_sizes(boxes)}, 1: {a: a for a in found}}
    )
    if shape_of(needed(node, 0))[:2] != tuple(shape_of(needed(node, 1))[i] for i in (0, 2)):
        raise refused(node, "gets boxes and scores with different bounds")


def _indices(x: DynamicDims, node: ir.Node, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(coordinates int64 [rank, elements], their number int64 [1]) of what is not zero in `value`.

    One NonZero per value is made and used again.
    """
    known, requested = x.places.get(value), value
    if known is not None and (maker := known[0].producer()) and maker.graph is node.graph:
        return known
    shape = shape_of(value) or (1,)
    if int(value.dtype or 0) != BOOL_TYPE:
        value = x.node(node, "Cast", [value], [(BOOL_TYPE, shape_of(value))], to=BOOL_TYPE)[0]
    if not shape_of(value):
        value = x.node(node, "Reshape", [value, x.ints(node, [1])], [(BOOL_TYPE, (1,))])[0]
    count = prod(shape)
    kinds = [(INT64, (len(shape), count)), (INT64, (1,))]
    y, n = x.node(node, "NonZero", [value], kinds, DYNAMIC)
    x.places[requested] = y, x.new(n, count)
    return y, n
