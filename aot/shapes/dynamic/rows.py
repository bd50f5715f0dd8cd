# SPDX-License-Identifier: Apache-2.0
"""Rows of a dynamic axis, picked by numbers that are computed."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import DYNAMIC, graph_of, shape_of
from aot.shapes.dynamic.dims import INT64, DynamicDims


def counted(x: DynamicDims, node: ir.Node, size: int) -> ir.Value:
    """The constant 0, 1, … size - 1, an int64 vector."""
    return x.ints(node, range(size))


def picked(
    x: DynamicDims, node: ir.Node, data: ir.Value, rows: ir.Value, axis: int, value: ir.Value
) -> ir.Value:
    """Rows of `data` on an axis by number; the result has `value` of them, of those in `rows`."""
    shape = shape_of(data)
    size = shape_of(rows)[0]
    made_shape = (*shape[:axis], size, *shape[axis + 1 :])
    made = x.node(node, "Gather", [data, rows], [(int(data.dtype or 0), made_shape)], axis=axis)[0]
    x.set(made, {**x.run_sizes(data), axis: value})
    return made


def within(x: DynamicDims, node: ir.Node, rows: ir.Value, length: ir.Value, size: int) -> ir.Value:
    """Row numbers forced into 0 … length - 1, where the bound of the axis is `size`."""
    last = x.largest(node, x.sub(node, length, x.ints(node, [1])), x.ints(node, [0]))
    rows = x.largest(node, x.smallest(node, rows, last), x.ints(node, [0]))
    limits = x.interval(length)
    if limits is not None and limits.high[0] <= size:
        return rows
    return x.smallest(node, rows, x.ints(node, [max(size - 1, 0)]))


def along(
    x: DynamicDims, node: ir.Node, vector: ir.Value, rank: int, axis: int, kind: int
) -> ir.Value:
    """A vector as a tensor of `rank` axes that has its elements along `axis`."""
    length = shape_of(vector)[0]
    shape = [length if a == axis else 1 for a in range(rank)]
    return x.node(node, "Reshape", [vector, x.ints(node, shape)], [(kind, tuple(shape))])[0]


def most_of(x: DynamicDims, value: ir.Value) -> float:
    """The largest that the first element of a small value can be."""
    limits = x.interval(value)
    return inf if limits is None else float(limits.high.ravel()[0])


def whole_numbers(x: DynamicDims, node: ir.Node, vector: ir.Value) -> ir.Value:
    """A vector of integers as int64."""
    if int(vector.dtype or 0) == INT64:
        return vector
    return x.node(node, "Cast", [vector], [(INT64, shape_of(vector))], to=INT64)[0]


def made_by(value: ir.Value, op_type: str) -> bool:
    """Whether `value` is a result of that operator of the domain aot.dynamic."""
    node = value.producer()
    return node is not None and (node.domain, node.op_type) == (DYNAMIC, op_type)


def cut_out(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    axis: int,
    start: ir.Value,
    end: ir.Value,
    bound: int,
) -> tuple[ir.Value, dict[int, ir.Value]]:
    """Rows `start` to `end` of an axis, of which there are at most `bound`, and their axes."""
    shape = list(shape_of(data))
    rank, shape[axis] = len(shape), bound
    whole = x.shape(node, data)
    kinds = [(int(data.dtype or 0), tuple(shape)), (INT64, (rank,))]
    inputs = [data, whole, start, end, x.ints(node, [1])]
    y, out = x.node(node, "Cut", inputs, kinds, DYNAMIC, axes=[axis])
    n = x.new(x.at(node, out, axis), bound)
    wanted = x.sub(node, end, start)
    limits = x.interval(end)
    total = x.dim(node, data, axis)
    room = x.interval(x.sub(node, total, end))
    if limits is not None and room is not None and room.low[0] >= 0 and most_of(x, wanted) <= bound:
        n = wanted  # nothing is cut off: as long as it says
    return y, {**x.run_sizes(data), axis: n}


def edge(x: DynamicDims, node: ir.Node, data: ir.Value, axis: int) -> ir.Value:
    """`data` with its last row repeated in the padding of an axis."""
    size, n = shape_of(data)[axis], x.run_sizes(data)[axis]
    rows = within(x, node, counted(x, node, size), n, size)
    return picked(x, node, data, rows, axis, n)


def means(
    x: DynamicDims, data: ir.Value, node: ir.Node, axes: Sequence[int], keep: bool = True
) -> ir.Value:
    """Add nodes in front of `node` that compute the mean of the floating-point `data` over `axes`.

    `axes` are numbers from 0 to rank - 1; the result has the type of `data` and size 1 along them,
    or with `keep` False lacks them; then the dynamic axes of the result are left to the caller.
    A dynamic axis is stored at its upper bound: its padding counts as 0 in the sum, and the divisor
    uses its size of the run (int64, shape [1]). Dynamic axes outside of `axes` stay dynamic in the
    result.
    """
    kind, shape = int(data.dtype or 0), shape_of(data)
    own = x.run_sizes(data)
    inside = [a for a in own if a in axes]
    data = x.neutral(node, data, 0, inside) if inside else data
    result = tuple(1 if a in axes else d for a, d in enumerate(shape) if keep or a not in axes)
    typed, where = [(kind, result)], x.ints(node, axes)
    total = x.node(node, "ReduceSum", [data, where], typed, keepdims=int(keep))[0]
    count = x.ints(node, [prod(shape[a] for a in axes if a not in inside)])
    for a in inside:
        count = x.mul(node, count, own[a])
    divisor = x.node(node, "Cast", [count], [(kind, (1,))], to=kind)[0]
    if not result:
        divisor = x.node(node, "Reshape", [divisor, x.ints(node, [])], [(kind, ())])[0]
    made = x.node(node, "Div", [total, divisor], typed)[0]
    if keep:
        x.set(made, {a: n for a, n in own.items() if a not in axes})
    return made


def drop_attribute(node: ir.Node, name: str) -> None:
    """Take an attribute from a node."""
    Editor(graph_of(node)).drop_attribute(node, name)
