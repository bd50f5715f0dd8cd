# SPDX-License-Identifier: Apache-2.0
"""TopK, Trilu, ReverseSequence, OneHot, and fills that were too large to fold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import F32, S32, S64
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, attribute, graph_of, shape_of
from aot.ir.operators import AxisOf, Exact, SizedBy
from aot.ops.kernels import NUMBERS
from aot.ops.registry import op
from aot.shapes.cures import Sizing, always, sizings
from aot.shapes.dynamic.dims import INT64, DynamicDims, axis_of, constant_ints, refused
from aot.shapes.dynamic.equality_constraints import agreed
from aot.shapes.dynamic.rules import (
    FLOAT_TYPE,
    dynamic,
    every_axis,
    needed,
    number_of,
    pass_on,
    run_time_shape,
)
from aot.shapes.evaluate import Invalid, evaluates, integers, need
from aot.shapes.interval_analysis import positions
from aot.shapes.operands import lists, one, operand_shape, operands_fit, wrong
from aot.shapes.partial_values import PartialValues
from aot.shapes.reference import Inputs, Unknown
from aot.vendor import Match, Recorder, UnsupportedError
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.strided_copy import split_at, strides

topk = op(
    "TopK",
    "x k",
    "y indices",
    traits=[SizedBy("k"), Exact()],
    types=NUMBERS,
    constants="k",
    axis=AxisOf("x", -1),
    largest=1,
    sorted=1,
)
trilu = op("Trilu", "x k?", traits=[Exact()], upper=1, rules=[operands_fit.by(one(1, "k"))])
reverse_sequence = op("ReverseSequence", "x lens", traits=[Exact()], batch_axis=1, time_axis=0)
one_hot = op(
    "OneHot", "indices depth pair", axis=-1, rules=[sizings.by(Sizing(examples={1: always(2)}))]
)
constant_of_shape = op(
    "ConstantOfShape",
    "shape",
    traits=[SizedBy("shape")],
    value=None,
    rules=[sizings.by(Sizing(data=0)), operands_fit.by(lists((0, "the shape")))],
)


@topk.check
def topk_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that k is between 1 and the elements of the axis."""
    extent = m.x.shape[m.axis]
    if m.k.is_const:
        k = int(m.k.data.reshape(()))
        yield 0 < k <= extent, f"k {k} of {extent} elements"


@topk.lower
def topk_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_topk on x [outer, axis, inner], with a temporary for values that nobody reads."""
    outer, extent, inner = split_at(m.x.shape, m.axis % m.x.rank)
    # The kernel sorts the values in place of its first output, so it always has one.
    y = m.y or c.temp(m.indices.shape, m.x.dtype, name="values")
    params = c.params(
        outer=outer,
        axis=extent,
        inner=inner,
        k=int(m.k.data.reshape(())),
        largest=int(m.largest),
    )
    kernel = f"aot_topk_{m.x.dtype.short}"
    c.call(kernel, y, m.indices, m.x, params, header="aot_topk.h")


@positions("TopK ArgMax ArgMin")
def along_axis(node: ir.Node) -> tuple[int, int]:
    """The second result of a TopK, and that of ArgMax and ArgMin, hold positions along an axis."""
    second = int(node.op_type == "TopK")
    return second, shape_of(needed(node, 0))[int(attribute(node, "axis", -second))]


@topk.cases
def topk_cases() -> Iterator[Case]:
    """TopK(X, K): largest and smallest, ties, all of an axis; two results."""
    yield case(f32(3, 17), i64(5), const=(1,), outputs=2)
    yield case(f32(3, 7, 2), i64(7), const=(1,), outputs=2, axis=1, largest=0)
    yield case(ints(4, 9, low=0, high=4), i64(3), const=(1,), outputs=2)
    for name in ("uint8", "uint16", "int16", "uint32", "uint64"):
        yield case(ints(2, 9, low=0, high=4, dtype=name), i64(3), const=(1,), outputs=2)


@trilu.check
def trilu_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that x has at least two axes."""
    yield m.x.rank >= 2, f"rank {m.x.rank} (needs at least 2)"


@trilu.lower
def trilu_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_trilu on batches of matrices; the diagonal may be computed at run time."""
    batch = math.prod(m.x.shape[:-2])
    rows, cols = m.x.shape[-2:]
    params = c.params(batch=batch, rows=rows, cols=cols, upper=int(m.upper))
    k = m.k if m.k is not None else c.const(np.zeros(1, np.int64), "diagonal")
    instance = {"E": m.x.dtype.nbytes}
    operands = (m.y, m.x, k, params)
    c.call("aot_trilu", *operands, instance=instance, inplace=[(m.y, m.x)], header="aot_select.h")


@trilu.cases
def trilu_cases() -> Iterator[Case]:
    """Trilu(input, k): both halves, diagonals beside the main one."""
    yield case(f32(2, 4, 5))
    yield case(f32(4, 5), np.array(-1), upper=0)
    yield case(ints(5, 4), np.array(2), const=(1,))
    yield case(ints(5, 4, dtype="int8"), np.array(-9), upper=0)


@reverse_sequence.check
def sequence_axes(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that batch and time are the first two axes."""
    axes = {m.batch_axis, m.time_axis}
    yield axes == {0, 1}, f"batch_axis {m.batch_axis}, time_axis {m.time_axis} (needs 0 and 1)"


@reverse_sequence.lower
def reverse_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_reverse_sequence with the strides of batch and time in elements."""
    steps = strides(m.x.shape)
    params = c.params(
        batch=m.x.shape[m.batch_axis],
        time=m.x.shape[m.time_axis],
        inner=math.prod(m.x.shape[2:]),
        batch_s=steps[m.batch_axis],
        time_s=steps[m.time_axis],
    )
    instance = {"E": m.x.dtype.nbytes}
    c.call(
        "aot_reverse_sequence", m.y, m.x, m.lens, params, instance=instance, header="aot_select.h"
    )


@reverse_sequence.cases
def reverse_cases() -> Iterator[Case]:
    """ReverseSequence(input, sequence_lens): either axis first."""
    yield case(f32(4, 3, 2), i64(1, 4, 2))
    yield case(f32(3, 5), i64(5, 2, 3), batch_axis=0, time_axis=1)


@evaluates("OneHot")
def one_hot_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """OneHot of constants, which picks on or off per element.

    ONNX's text multiplies their difference, which infinities do not have. Unknown for indices that
    are no integers.
    """
    indices, values = need(inputs, 0), need(inputs, 2)
    depth = int(need(inputs, 1).ravel()[0])
    axis = int(attribute(node, "axis", -1))
    if depth < 0 or not -indices.ndim - 1 <= axis <= indices.ndim:
        raise ValueError(f"OneHot of depth {depth} along axis {axis}")
    places = indices.astype(np.int64)
    if not np.array_equal(places.astype(indices.dtype), indices):
        raise Unknown  # no integers
    places = np.where(places < 0, places + depth, places)
    axis += indices.ndim + 1 if axis < 0 else 0
    line = np.arange(depth).reshape([-1 if a == axis else 1 for a in range(indices.ndim + 1)])
    hit = np.expand_dims(places, axis) == line
    return [np.where(hit, values[1], values[0]).astype(values.dtype, copy=False)]


@one_hot.check
def one_hot_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the kernel reads indices of this type."""
    known = (S32, S64, F32)
    yield m.indices.dtype in known, f"indices of {m.indices.dtype} (needs int32, int64, float32)"


@one_hot.lower
def one_hot_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_one_hot: the new axis of `depth` elements lies between outer and inner ones."""
    axis = m.axis % m.y.rank
    params = c.params(
        outer=math.prod(m.indices.shape[:axis]),
        depth=m.y.shape[axis],
        inner=math.prod(m.indices.shape[axis:]),
    )
    # I is the size of integers; 0 stands for float32.
    size = 0 if m.indices.dtype is F32 else m.indices.dtype.nbytes
    c.call(
        "aot_one_hot",
        m.y,
        m.indices,
        m.pair,
        params,
        instance={"E": m.y.dtype.nbytes, "I": size},
        header="aot_select.h",
    )


@one_hot.cases
def one_hot_cases() -> Iterator[Case]:
    """OneHot(indices, depth, values): negative indices, indices outside, each axis."""
    on = np.array([0.5, 2.0], np.float32)
    yield case(ints(2, 3, low=-4, high=4), np.array(4), on, const=(1,))
    yield case(ints(3, low=0, high=9, dtype="int32"), np.array(5), on, const=(1,), axis=0)
    yield case(np.array([1, 3, 0], np.float32), np.array(4), ints(2), const=(1,))


@evaluates("ConstantOfShape")
def constant_of_shape_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """A read-only array of the constant shape, filled with the attribute's value."""
    tensor = attribute(node, "value")
    fill = np.zeros(1, np.float32) if tensor is None else tensor.numpy()
    return [np.broadcast_to(fill.reshape(()), tuple(integers(need(inputs, 0))))]


@constant_of_shape.lower
def fill_to_kernel(c: Recorder, m: Match) -> None:
    """Record the kernel that writes one value, known here, to every element of y.

    Raises UnsupportedError if the value has another type than y.
    """
    value = fill_value(m)
    if value.dtype != m.y.dtype.numpy:
        raise UnsupportedError(f"the result is {m.y.dtype}, the value that fills it {value.dtype}")
    params = c.params(count=math.prod(m.y.shape))
    instance = {"E": m.y.dtype.nbytes}
    c.call(
        "aot_fill", m.y, c.const(value, "value"), params, instance=instance, header="aot_select.h"
    )


def fill_value(m: Match) -> np.ndarray[Any, Any]:
    """The one element of attribute `value`, float32 zero by default."""
    if m.value is None:
        return np.zeros(1, np.float32)
    data = m.value.numpy() if hasattr(m.value, "numpy") else np.asarray(m.value)
    return np.asarray(data).reshape(1)


@constant_of_shape.cases
def fill_cases() -> Iterator[Case]:
    """ConstantOfShape(input) of a constant shape: zeros."""
    yield case(i64(2, 3), const=(0,))


@dynamic("TopK")
def topk_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """TopK along a dynamic axis, or with k read at run time.

    The result has as many elements as k can be, at most those of the axis, of which k count: a
    dynamic axis. Padding of the data is -inf, or inf for the smallest ones. Where k is not known to
    be between 0 and the size of the axis it is limited to them. Raises Invalid for a known k above
    the upper bound; refused is a k that is always 0.
    """
    data, k = needed(node, 0), needed(node, 1)
    axis = axis_of(node, len(shape_of(data)), -1)
    size = shape_of(data)[axis]
    known = constant_ints(x, k)
    if axis in x.run_sizes(data):
        fill = number_of(data, -inf if attribute(node, "largest", 1) else inf)
        data = x.neutral(node, data, fill, (axis,))
    axes = {a: n for a, n in x.run_sizes(data).items() if a != axis}
    if known is not None:
        bound = known[0]
        if bound > size:
            raise Invalid(f"k is {bound}, the axis has {size} elements")
    else:
        limits = x.interval(k)
        high = size if limits is None else float(limits.high.ravel()[0])
        bound = int(max(0.0, min(float(size), high)))
        n = x.as_vector(node, k)
        # A k that a run says may be out of range, and a run cannot refuse it.
        if limits is None or high > size or limits.low.ravel()[0] < 0:
            n = x.smallest(node, n, x.dim(node, data, axis))
            n = x.largest(node, n, x.ints(node, [0]))
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


@dynamic("OneHot")
def one_hot_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a OneHot: those of the indices, around the new axis.

    UnsupportedError for a depth or values of unknown shape.
    """
    index = needed(node, 0)
    rank = len(shape_of(index)) + 1
    axis = axis_of(node, rank, -1)
    if any(x.run_sizes(i) for i in node.inputs[1:]):
        raise refused(node, "has a depth or values of unknown shape")
    pass_on(x, node, {a if a < axis else a + 1: n for a, n in x.run_sizes(index).items()})


@dynamic("ReverseSequence")
def reverse_sequence_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a ReverseSequence pass; lengths of padding become 0.

    UnsupportedError for lengths of another batch.
    """
    data, lengths = needed(node, 0), needed(node, 1)
    batch = int(attribute(node, "batch_axis", 1))
    ours, theirs = x.run_sizes(data).get(batch), x.run_sizes(lengths).get(0)
    other = "has lengths for another batch than its sequences"
    if agreed(x, node, ours, theirs, other) is not None:
        node.replace_input_with(1, x.neutral(node, lengths, 0))
    pass_on(x, node, x.run_sizes(data))


@dynamic("ConstantOfShape")
def constant_of_shape_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a ConstantOfShape of a shape read at run time by an Expand to its upper bounds."""
    shape, axes = run_time_shape(x, node, needed(node, 0))
    tensor = attribute(node, "value")
    fill = np.zeros((), np.float32) if tensor is None else tensor.numpy().reshape(())

    dtype = None if tensor is None else tensor.dtype
    value = Editor(graph_of(node)).const(fill, f"{node.outputs[0].name}_fill", dtype)
    kind = FLOAT_TYPE if tensor is None else int(tensor.dtype)
    y = x.node(node, "Expand", [value, x.ints(node, shape)], [(kind, tuple(shape))])[0]
    x.substitute(node, y, axes)


@dynamic("Trilu")
def trilu_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a Trilu pass: each element stays or not by its own position."""
    every_axis(x, node)


@operands_fit("ReverseSequence")
def reversed_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why the lengths of a ReverseSequence do not fit its batch; "" if they do."""
    x, axis = operand_shape(node, 0) or (), int(attribute(node, "batch_axis", 1))
    if len(x) < 2 or not -len(x) <= axis < len(x):
        return f"batch_axis {axis} of {list(x)}"
    return wrong("sequence_lens", operand_shape(node, 1), (x[axis],))
