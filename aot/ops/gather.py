# SPDX-License-Identifier: Apache-2.0
"""Gather, GatherElements, GatherND. An index out of range ends the run: AOT_OUT_OF_RANGE."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import S32, S64
from aot.ir.graph_nodes import DYNAMIC, Array, attribute, shape_of
from aot.ir.operators import AxisOf, Exact, Moves
from aot.ir.value_traits import Indexes
from aot.load.encode_strings import axis_from_front, encodes
from aot.ops.registry import op
from aot.shapes.checks import checks, element_indices, indices_within
from aot.shapes.cures import Sizing, sizings
from aot.shapes.dynamic.dims import DynamicDims, axis_of, refused
from aot.shapes.dynamic.equality_constraints import require_equal
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.evaluate import Invalid, evaluates, need
from aot.shapes.interval_analysis import Bounds
from aot.shapes.operands import operand_shape, operands_fit
from aot.shapes.partial_values import PartialValues
from aot.shapes.reference import Inputs
from aot.vendor import Handle, Match, Recorder, ValueRef
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.strided_copy import Axis, move, padded, split_at, strides, view_or_move

gather = op(
    "Gather",
    "x indices",
    traits=[Moves("x", fewer=True), Indexes("indices", "x")],
    axis=AxisOf("x", 0),
    rules=[checks.by(indices_within), encodes.by(axis_from_front)],
    check=lambda m: in_range(m.indices, (m.x.shape[m.axis],)),
)
gather_elements = op(
    "GatherElements",
    "x indices",
    traits=[Moves("x", fewer=True), Indexes("indices", "x"), Exact()],
    axis=AxisOf("x", 0),
    rules=[checks.by(element_indices)],
)
gather_nd = op("GatherND", "x indices", traits=[Moves("x", fewer=True), Exact()], batch_dims=0)


sizings("Gather GatherElements GatherND")(Sizing(data=2))


@evaluates("Gather")
def gather_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """The elements that constant indices select; Invalid if one is outside the axis."""
    data, index = need(inputs, 0), need(inputs, 1)
    axis = int(attribute(node, "axis", 0))
    size = data.shape[axis]
    if index.size and (index.min() < -size or index.max() >= size):
        bad = int(index.min() if index.min() < -size else index.max())
        raise Invalid(f"index {bad} is outside axis {axis} of size {size}")
    return [np.take(data, wrapped(index, size), axis=axis)]


def in_range(indices: ValueRef, extents: Sequence[int]) -> Iterator[tuple[bool, str]]:
    """Checks that indices are int32 or int64, and that constant ones are inside their axes.

    `extents` are the sizes of the axes: one for each index of a tuple (last axis), or one for all.
    """
    yield indices.dtype in (S32, S64), f"indices of {indices.dtype} (needs int32 or int64)"
    empty = 0 in extents and math.prod(indices.shape) > 0
    yield not empty, f"indices into an axis without elements ({list(extents)})"
    if indices.data is None:
        return
    n = np.array(extents)
    bad = (indices.data < -n) | (indices.data >= n)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        extent = extents[where[-1] if len(extents) > 1 else 0]
        value = int(indices.data[where])
        yield False, f"index {value} at {list(where)} is out of range for an axis of {extent}"


@gather.lower
def gather_to_kernel(c: Recorder, m: Match) -> None:
    """Record a Gather: a view or strided copy for constant indices in even steps, else
    aot_gather.
    """
    outer, axis, inner = split_at(m.x.shape, m.axis % m.x.rank)
    if math.prod(m.y.shape) == 0:
        move(c, m.y, m.x, [Axis(0, 1, 1)])
        return
    if m.indices.is_const:
        wanted = wrapped(m.indices.data, axis).ravel()
        step = int(wanted[1] - wanted[0]) if wanted.size > 1 else 1
        # Indices in even steps are a slice, which may need no copy at all.
        if (np.diff(wanted) == step).all():
            count = wanted.size
            axes = [
                Axis(outer, count * inner, axis * inner),
                Axis(count, inner, step * inner),
                Axis(inner, 1, 1),
            ]
            view_or_move(c, m.y, m.x, axes, int(wanted[0]) * inner)
            return
    table, size = index_table(c, m.indices, axis)
    count = math.prod(m.indices.shape)
    params = c.params(outer=outer, axis=axis, inner=inner, count=count)
    instance = {"E": m.x.dtype.nbytes, "I": size}
    _record(c, m, "aot_gather", (axis,), table, params, instance)


def _record(
    c: Recorder, m: Match, kernel: str, extents: Sequence[int], table: Any, params: Any,
    instance: dict[str, int],
) -> None:  # fmt: skip
    """Record a gathering kernel, which checks indices that may be outside the axes of `extents`."""
    sure = proven(m.indices, extents)
    operands = (m.y, m.x, table, params)
    call_checked(c, kernel, sure, *operands, instance=instance, header="aot_gather.h")


def proven(indices: ValueRef, extents: Sequence[int], least: int | None = None) -> bool:
    """Whether all indices are known to lie within every axis, whatever the data.

    Negative ones may count from the end, or be at least `least`.
    """
    low, high = -min(extents, default=0) if least is None else least, min(extents, default=1) - 1
    return indices.is_const or Bounds({}).surely_in(indices.ir, low, high)


def call_checked(c: Recorder, kernel: str, sure: bool, *operands: Any, **said: Any) -> None:
    """Record a call of `kernel`, or unless indices are `sure` of the one that ends the run with
    AOT_OUT_OF_RANGE; both have the same parameters.
    """
    name = kernel if sure else f"{kernel}_checked"
    c.call(name, *operands, status=not sure, **{"header": f"{kernel}.h"} | said)


def wrapped(indices: np.ndarray[Any, Any], extent: int) -> np.ndarray[Any, Any]:
    """The indices with negative ones counted from the end of an axis of size `extent`."""
    return np.where(indices < 0, indices + extent, indices)


def index_table(c: Recorder, indices: ValueRef, extent: int) -> tuple[ValueRef | Handle, int]:
    """(operand to pass as indices, bytes of one index); constant indices are stored as int32."""
    if indices.data is None:
        return indices, indices.dtype.nbytes
    return c.const(wrapped(indices.data, extent).astype(np.int32), "indices"), 4


@gather.cases
def gather_cases() -> Iterator[Case]:
    """Gather(data, indices): along each axis, negative, constant and computed indices."""
    yield case(f32(4, 5), i64(2, 0, -1))
    yield case(f32(4, 5), i64(2, 0, -1), const=(1,))
    yield case(f32(3, 6, 2), i64(1, 3, 5), const=(1,), axis=1)
    yield case(f32(3, 6, 2), np.array(-2), const=(1,), axis=1)
    yield case(f32(3, 6), np.array(1), const=(1,))
    yield case(f32(3, 6), np.array([[0, 2], [5, -6]], np.int32), axis=-1)
    yield case(f32(139, 8), ints(1, 48, low=0, high=139), const=(0,))
    yield case(ints(5, 3, dtype="int8"), i64(4, 3, 2), const=(1,))


@gather_elements.check
def elements_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that x has at most 8 axes and the indices suit the axis."""
    yield m.x.rank <= 8, f"rank {m.x.rank} (at most 8)"
    yield from in_range(m.indices, (m.x.shape[m.axis],))


@gather_elements.lower
def elements_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_gather_elements; a result without elements is an empty copy."""
    if math.prod(m.y.shape) == 0:
        move(c, m.y, m.x, [Axis(0, 1, 1)])
        return
    axis = m.axis % m.x.rank
    xs = strides(m.x.shape)
    table, size = index_table(c, m.indices, m.x.shape[axis])
    params = c.params(
        dims=padded(m.y.shape, 1),
        ys=padded(strides(m.y.shape), 0),
        xs=padded([0 if i == axis else s for i, s in enumerate(xs)], 0),
        axis=m.x.shape[axis],
        step=xs[axis],
    )
    instance = {"E": m.x.dtype.nbytes, "I": size}
    _record(c, m, "aot_gather_elements", (m.x.shape[axis],), table, params, instance)


@gather_elements.cases
def elements_cases() -> Iterator[Case]:
    """GatherElements(data, indices): indices of data's rank, negative ones too."""
    yield case(f32(3, 4), ints(2, 4, low=-3, high=3))
    yield case(f32(3, 4, 2), ints(3, 2, 2, low=0, high=4, dtype="int32"), axis=1)
    yield case(f32(3, 4), ints(3, 7, low=-4, high=4), const=(1,), axis=1)


@gather_nd.check
def nd_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that tuples have at most 8 int64 indices, which are inside their axes."""
    depth = m.indices.shape[-1]
    yield depth <= 8, f"{depth} indices in a tuple (at most 8)"
    yield m.indices.dtype is S64, f"indices of {m.indices.dtype} (needs int64)"
    yield from in_range(m.indices, m.x.shape[m.batch_dims : m.batch_dims + depth])


@gather_nd.lower
def nd_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_gather_nd: per batch, each tuple of indices selects a slice of `inner`
    elements.
    """
    # A result without elements needs a call as well, which defines it.
    if math.prod(m.y.shape) == 0:
        move(c, m.y, m.x, [Axis(0, 1, 1)])
        return
    b, depth = m.batch_dims, m.indices.shape[-1]
    batch = math.prod(m.x.shape[:b])
    params = c.params(
        batch=batch,
        count=math.prod(m.indices.shape[b:-1]),
        depth=depth,
        inner=math.prod(m.x.shape[b + depth :]),
        x_batch=math.prod(m.x.shape[b:]),
        extent=(*m.x.shape[b : b + depth], *[1] * (8 - depth)),
        stride=(*strides(m.x.shape)[b : b + depth], *[0] * (8 - depth)),
    )
    instance = {"E": m.x.dtype.nbytes}
    _record(c, m, "aot_gather_nd", m.x.shape[b : b + depth], m.indices, params, instance)


@gather_nd.cases
def nd_cases() -> Iterator[Case]:
    """GatherND(data, indices [*, K]): points, slices, a shared leading axis."""
    yield case(f32(3, 4, 2), np.array([[0, 1], [2, -1], [1, 3]]))
    yield case(f32(3, 4, 2), np.array([[[0], [2]], [[1], [1]]]))
    yield case(f32(2, 3, 4), np.array([[[1], [2]], [[0], [-1]]]), batch_dims=1)


def from_start(
    x: DynamicDims, node: ir.Node, index: ir.Value, length: ir.Value, extents: Sequence[int]
) -> ir.Value:
    """`index` with `length` added to negative indices, so that all count from the start.

    A run with an index outside of the `length` real elements ends with AOT_OUT_OF_RANGE. `length`
    has one element, or one for each index of a tuple (last axis); `extents` are its upper bounds.
    Padding of the indices becomes 0, which is allowed in it. The value is returned unchanged where
    no index can be negative or beyond the bound.
    """
    axes, shape = x.run_sizes(index), shape_of(index)
    if axes:
        index = x.neutral(node, index, 0)
    if x.bounds.surely_in(index, 0, min(extents) - 1):
        return index
    kind, padded = [(int(index.dtype or 0), shape)], int(bool(axes))
    index = x.node(node, "FromStart", [index, length], kind, DYNAMIC, padded=padded)[0]
    x.set(index, axes)
    return index


@dynamic("Gather")
def gather_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a Gather: axes of the indices take the place of the gathered axis.

    Along a dynamic axis negative indices are counted from its real end.
    """
    data, index = needed(node, 0), needed(node, 1)
    axis = axis_of(node, len(shape_of(data)))
    more = len(shape_of(index)) - 1
    found = {axis + a: n for a, n in x.run_sizes(index).items()}
    found |= {a if a < axis else a + more: n for a, n in x.run_sizes(data).items() if a != axis}
    if axis in x.run_sizes(data):
        _count_from_start(x, node, axis)
    elif x.run_sizes(index):
        node.replace_input_with(1, x.neutral(node, index, 0))
    pass_on(x, node, found)


def _count_from_start(x: DynamicDims, node: ir.Node, axis: int) -> None:
    """Let the indices of `node` count from the start of the dynamic axis of its data."""
    data, index = needed(node, 0), needed(node, 1)
    sizes = x.run_sizes(data)[axis], (shape_of(data)[axis],)
    node.replace_input_with(1, from_start(x, node, index, *sizes))


@dynamic("GatherND")
def gather_nd_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a GatherND: axes of the indices but the last, then axes of x not
    indexed.

    UnsupportedError for batch_dims or tuples of dynamic length.
    """
    data, index = needed(node, 0), needed(node, 1)
    batch = int(attribute(node, "batch_dims", 0))
    tuple_axis = len(shape_of(index)) - 1
    if batch or tuple_axis in x.run_sizes(index):
        raise refused(node, "gathers by batch along a dimension known at run time only")
    depth = shape_of(index)[-1]
    found = dict(x.run_sizes(index))
    found |= {tuple_axis + a - depth: n for a, n in x.run_sizes(data).items() if a >= depth}
    if any(a < depth for a in x.run_sizes(data)):
        lengths = x.joined(node, [x.dim(node, data, a) for a in range(depth)])
        extents = shape_of(data)[:depth]
        node.replace_input_with(1, from_start(x, node, index, lengths, extents))
    elif x.run_sizes(index):
        node.replace_input_with(1, x.neutral(node, index, 0))
    pass_on(x, node, found)


@dynamic("GatherElements")
def gather_elements_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a GatherElements: the result has those of the indices.

    UnsupportedError where there may be more indices than data along another axis.
    """
    data, index = needed(node, 0), needed(node, 1)
    axis = axis_of(node, len(shape_of(data)))
    for other, n in x.run_sizes(data).items():
        if other == axis:
            continue
        ours, limits = x.run_sizes(index).get(other), x.interval(n)
        if ours is not None:
            require_equal(
                x, node, n, ours, "has indices for another dimension known at run time only"
            )
        # Indices beyond the data would pick padding.
        elif limits is None or shape_of(index)[other] > limits.low[0]:
            raise refused(
                node, "may have more indices than data along a dimension known at run time"
            )
    if axis in x.run_sizes(data):
        _count_from_start(x, node, axis)
    elif x.run_sizes(index):
        node.replace_input_with(1, x.neutral(node, index, 0))
    pass_on(x, node, x.run_sizes(index))


@operands_fit("GatherND")
def gather_nd_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why indices of a GatherND do not fit the data's axes; "" if they do."""
    data, index = operand_shape(node, 0) or (), operand_shape(node, 1) or ()
    batch = int(attribute(node, "batch_dims", 0))
    if not 0 <= batch < min(len(data), len(index)) or data[:batch] != index[:batch]:
        return f"batch_dims {batch} of data {list(data)} and indices {list(index)}"
    if index[-1] > len(data) - batch:
        return f"indices {list(index)} point beyond the axes of the data {list(data)}"
    return ""
