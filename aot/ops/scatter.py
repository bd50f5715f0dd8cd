# SPDX-License-Identifier: Apache-2.0
"""ScatterElements and ScatterND. An index out of range ends the run: AOT_OUT_OF_RANGE."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import F32, F64, S32, S64, DType
from aot.ir.graph_nodes import attribute, shape_of
from aot.ir.operators import AxisOf, Exact, OneOf
from aot.ir.value_traits import Indexes
from aot.ops.gather import call_checked, from_start, in_range, proven
from aot.ops.registry import op
from aot.shapes.checks import checks, element_indices, shape_at
from aot.shapes.cures import Sizing, sizings
from aot.shapes.dynamic.dims import Axes, DynamicDims, axis_of, refused
from aot.shapes.dynamic.equality_constraints import fit_inputs, meet
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.partial_values import PartialValues
from aot.vendor import Match, Recorder
from aot.vendor.cases import Case, case, f32, ints
from aot.vendor.strided_copy import padded, strides

# In the order of AOT_SCATTER_* of runtime_c/kernels/aot_scatter.h.
REDUCTIONS = ("none", "add", "mul", "max", "min")
TYPES: tuple[DType | None, ...] = (None, F32, F64, S32, S64)
sizings("ScatterElements ScatterND")(Sizing(data=2))


# onnx.reference loses a NaN among the extremes of ScatterElements.
_KEEPS_NAN = Exact(when=lambda node, _: attribute(node, "reduction", "none") not in ("max", "min"))
REDUCTION = OneOf("none add mul max min", "none")
scatter_elements = op(
    "ScatterElements",
    "x indices updates",
    traits=[Indexes("indices", "x"), _KEEPS_NAN],
    axis=AxisOf("x", 0),
    reduction=REDUCTION,
    rules=[checks.by(element_indices)],
)
scatter_nd = op("ScatterND", "x indices updates", traits=[Exact()], reduction=REDUCTION)


def _reducible(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the reduction is known and, unless none, that the kernel has it for the type."""
    yield m.reduction in REDUCTIONS, f"reduction {m.reduction!r}"
    if m.reduction != "none":
        yield (
            m.x.dtype in TYPES,
            (f"reduction {m.reduction} of {m.x.dtype} (needs float32, float64, int32 or int64)"),
        )


def _checked(m: Match, extents: Sequence[int]) -> bool:
    """Whether all indices are known to be right: within `extents`, or checked before what is in
    their padding was put there (`_nowhere`)."""
    maker = m.indices.ir.producer()
    filled = maker is not None and maker.op_type == "FillPadding"
    return filled or proven(m.indices, extents)


def _instance(m: Match) -> dict[str, int]:
    """The kernels' constants R (reduction) and T (type, which matters to a reduction only)."""
    kind = REDUCTIONS.index(m.reduction)
    return {"R": kind, "T": TYPES.index(m.x.dtype) if kind else 0}


@scatter_elements.check
def elements_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of at most 8 axes, the reduction, and indices inside the axis."""
    yield m.x.rank <= 8, f"rank {m.x.rank} (at most 8)"
    yield from _reducible(m)
    yield from in_range(m.indices, (m.x.shape[m.axis],))


@scatter_elements.lower
def elements_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_scatter_elements, in place of x where possible; a view if there are no updates."""
    if math.prod(m.updates.shape) == 0:
        c.view(m.y, m.x)
        return
    axis, ys = m.axis % m.x.rank, strides(m.x.shape)
    params = c.params(
        bytes=math.prod(m.x.shape) * m.x.dtype.nbytes,
        dims=padded(m.updates.shape, 1),
        us=padded(strides(m.updates.shape), 0),
        # Along the axis the index decides, not the place of the update.
        ys=padded([0 if i == axis else s for i, s in enumerate(ys)], 0),
        axis=m.x.shape[axis],
        step=ys[axis],
    )
    call_checked(
        c,
        "aot_scatter_elements",
        _checked(m, (m.x.shape[axis],)),
        m.y,
        m.x,
        m.indices,
        m.updates,
        params,
        instance={"E": m.x.dtype.nbytes, "I": m.indices.dtype.nbytes, **_instance(m)},
        inplace=[(m.y, m.x)],
        header="aot_scatter.h",
    )


@scatter_elements.cases
def elements_cases() -> Iterator[Case]:
    """ScatterElements(data, indices, updates): each reduction with a repeated index."""
    once = np.array([[1, 0, 2], [0, 2, 1]])
    yield case(f32(3, 3), once, f32(2, 3, seed=1))
    yield case(f32(1, 5), np.array([[1, -2]]), f32(1, 2, seed=1), axis=1)
    for reduction in REDUCTIONS[1:]:
        again = ints(2, 4, low=-3, high=3)
        yield case(f32(3, 4), again, f32(2, 4, seed=1), reduction=reduction)
    yield case(ints(3, 4), ints(2, 4, low=0, high=3), ints(2, 4, seed=1), reduction="add")


@scatter_nd.check
def nd_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of at most 8 int64 indices in a tuple, the reduction, and indices inside their
    axes.
    """
    depth = m.indices.shape[-1]
    yield depth <= 8, f"{depth} indices in a tuple (at most 8)"
    yield m.indices.dtype is S64, f"indices of {m.indices.dtype} (needs int64)"
    yield from _reducible(m)
    yield from in_range(m.indices, m.x.shape[:depth])


@scatter_nd.lower
def nd_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_scatter_nd, in place of x where possible; a view if there are no updates."""
    if math.prod(m.updates.shape) == 0:
        c.view(m.y, m.x)
        return
    depth = m.indices.shape[-1]
    params = c.params(
        bytes=math.prod(m.x.shape) * m.x.dtype.nbytes,
        count=math.prod(m.indices.shape[:-1]),
        depth=depth,
        inner=math.prod(m.x.shape[depth:]),
        # The kernel's tables have eight axes.
        extent=(*m.x.shape[:depth], *[1] * (8 - depth)),
        stride=(*strides(m.x.shape)[:depth], *[0] * (8 - depth)),
    )
    call_checked(
        c,
        "aot_scatter_nd",
        _checked(m, m.x.shape[:depth]),
        m.y,
        m.x,
        m.indices,
        m.updates,
        params,
        instance={"E": m.x.dtype.nbytes, **_instance(m)},
        inplace=[(m.y, m.x)],
        header="aot_scatter.h",
    )


@scatter_nd.cases
def nd_cases() -> Iterator[Case]:
    """ScatterND(data, indices, updates): slices, points, reductions of a repeated point."""
    rows, cells = np.array([[2], [0]]), np.array([[0, 1], [2, 3]])
    yield case(f32(3, 4), rows, f32(2, 4, seed=1))
    yield case(f32(3, 4, 2), cells, f32(2, 2, seed=1))
    for reduction in REDUCTIONS[1:]:
        twice = np.array([[0, 1], [2, 3], [0, 1]])
        yield case(f32(3, 4), twice, f32(3, seed=1), reduction=reduction)
    yield case(ints(3, 4, dtype="int32"), rows, ints(2, 4, dtype="int32"), reduction="max")


@checks("ScatterND")
def scatter_rows(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why updates of a ScatterND are not as many as its indices point at; "" if they
    are.
    """
    data, index, updates = (shape_at(node, i) for i in range(3))
    if not index or index[-1] > len(data):
        return f"indices {list(index)} point beyond the axes of the data {list(data)}"
    wanted = (*index[:-1], *data[index[-1] :])
    if updates != wanted:
        return f"updates {list(updates)} should be {list(wanted)}"
    return ""


def _all_fit(x: DynamicDims, node: ir.Node, places: dict[int, dict[int, int]]) -> None:
    """Let axes of inputs that mean the same have one size and one upper bound.

    `places` has, by number of the input and axis, a number for each such meaning.
    """
    what = "gets indices and updates of different sizes"
    open_ones = {
        p for i, own in places.items() for a, p in own.items() if a in x.run_sizes(needed(node, i))
    }
    found: Axes = {}
    for index, own in places.items():
        for axis, place in own.items():
            if place in open_ones:
                n = x.dim(node, needed(node, index), axis)
                meet(x, node, found, place, n, what)
    for index, own in places.items():
        value = needed(node, index)
        more = {a: found[p] for a, p in own.items() if p in found}
        x.set(value, {**x.run_sizes(value), **more})
    fit_inputs(x, node, {i: {a: p for a, p in o.items() if p in found} for i, o in places.items()})


def _nowhere(x: DynamicDims, node: ir.Node, length: ir.Value, extents: Sequence[int]) -> None:
    """Let indices count from the start, checked, and those in the padding be INT32_MAX, which
    writes nothing.

    `length` are the sizes of the axes that indices count in, `extents` their upper bounds.
    """
    index = needed(node, 1)
    axes = x.run_sizes(index)
    if axes or x.run_sizes(needed(node, 0)):
        index = from_start(x, node, index, length, extents)
    if axes:
        index = x.neutral(node, index, np.iinfo(np.int32).max)
    node.replace_input_with(1, index)


@dynamic("ScatterElements")
def elements_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a ScatterElements: x keeps its axes; indices and updates agree in
    theirs.

    UnsupportedError where there may be more indices than data along another axis.
    """
    data, index = needed(node, 0), needed(node, 1)
    rank = len(shape_of(data))
    axis = axis_of(node, rank)
    _all_fit(x, node, {i: {a: a for a in range(rank)} for i in (1, 2)})
    index = needed(node, 1)
    for place, size in enumerate(shape_of(index)):
        if place != axis and size > shape_of(data)[place]:
            raise refused(node, f"may have more indices than data along dimension {place}")
    _nowhere(x, node, x.dim(node, data, axis), shape_of(data)[axis : axis + 1])
    pass_on(x, node, x.run_sizes(data))


@dynamic("ScatterND")
def nd_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a ScatterND: x keeps its axes; indices and updates agree in theirs.

    UnsupportedError for tuples of dynamic length.
    """
    data, index, updates = (needed(node, i) for i in range(3))
    depth, tuples = shape_of(index)[-1], len(shape_of(index)) - 1
    if tuples in x.run_sizes(index):
        raise refused(node, "gets as many numbers in an index as a run says")
    _all_fit(x, node, {1: {a: a for a in range(tuples)}, 2: {a: a for a in range(tuples)}})
    parts = {0: {depth + a: a for a in range(len(shape_of(data)) - depth)}}
    parts[2] = {tuples + a: a for a in range(len(shape_of(updates)) - tuples)}
    _all_fit(x, node, parts)
    data = needed(node, 0)
    lengths = x.joined(node, [x.dim(node, data, a) for a in range(depth)])
    _nowhere(x, node, lengths, shape_of(data)[:depth])
    pass_on(x, node, x.run_sizes(data))
