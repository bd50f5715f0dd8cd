# SPDX-License-Identifier: Apache-2.0
"""Reductions: each run of adjacent reduced axes is one step on [outer, axis, inner]."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import BOOL, F32, F64, S8, S32, S64, U8, U32, U64
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, array, attribute, given, shape_of
from aot.ir.operators import Along, AxisOf, Exact, Given, Moves, Reduces, Trait
from aot.ir.value_traits import Averages, Compares
from aot.normalise.transposes import Permuted, permute
from aot.ops.broadcast import Shape, stored
from aot.ops.kernels import FLOATS, NUMBERS, SIGNED
from aot.ops.registry import op
from aot.ops.softmax import split_at
from aot.ops.unary import SPECIAL
from aot.shapes import symbolic
from aot.shapes.cures import Sizing, axes, sizings, zeros
from aot.shapes.dynamic.dims import DynamicDims, constant_ints, refused
from aot.shapes.dynamic.propagate import axes_left, reduced_axes
from aot.shapes.dynamic.rows import means
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.evaluate import Rule, evaluates, integers, need, optional
from aot.shapes.interval_analysis import (
    Inputs as Bounded,
    Interval,
    Rule as BoundsRule,
    bounds,
    in_steps,
    wrapping,
)
from aot.shapes.operands import lists, one, operands_fit, ranked
from aot.shapes.partial_values import PartialValues
from aot.shapes.reference import Inputs, by_reference
from aot.shapes.symbolic import polynomials
from aot.vendor import Handle, Layout, Match, Pattern, Recorder, UnsupportedError, ValueRef
from aot.vendor.cases import Case, case, f32, full, i64, ints

X, ABS, SQUARE = 0, 1, 2  # MAP of aot_reduce_f32.h
AS_IS, DIVIDE, ROOT, LOG = 0, 1, 2, 3  # FINISH


@dataclass(frozen=True, slots=True)
class Kind:
    """How a reduction is spelled: its kernel, the map of every element (MAP), the end (FINISH)."""

    kernel: str
    map: int = X
    finish: int = AS_IS


KINDS = {
    "ReduceSum": Kind("sum"),
    "ReduceMean": Kind("sum", X, DIVIDE),
    "ReduceMax": Kind("max"),
    "ReduceMin": Kind("min"),
    "ReduceProd": Kind("prod"),
    "ReduceL1": Kind("sum", ABS),
    "ReduceL2": Kind("sum", SQUARE, ROOT),
    "ReduceSumSquare": Kind("sum", SQUARE),
    "ReduceLogSum": Kind("sum", X, LOG),
    "ReduceLogSumExp": Kind("logsumexp"),
}


#: What a kernel of a reduction finds in an element that changes nothing.
NEUTRAL = {"sum": 0, "prod": 1, "max": -math.inf, "min": math.inf, "logsumexp": -math.inf}


def axes_of(m: Match) -> tuple[int, ...]:
    """The reduced axes, sorted and non-negative; the check has made sure they are known."""
    if m.axes is None or m.axes.shape == (0,):
        return () if m.noop_with_empty_axes else tuple(range(m.x.rank))
    given = np.asarray(m.axes.data).reshape(-1)
    return tuple(sorted(int(a) % m.x.rank for a in given))


def steps(shape: Shape, axes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """(outer, axis, inner) of each step, innermost run of axes first."""
    groups: list[list[int]] = []
    for a in axes:
        if groups and all(shape[k] == 1 for k in range(groups[-1][-1] + 1, a)):
            groups[-1].append(a)
        else:
            groups.append([a])
    left = list(shape)
    found = []
    for group in reversed(groups):
        first, last = group[0], group[-1]
        outer, inner = math.prod(left[:first]), math.prod(left[last + 1 :])
        found.append((outer, math.prod(left[first : last + 1]), inner))
        left[first : last + 1] = [1] * len(group)
    return found


def spatial(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: blocked x stays so where only spatial axes are reduced; plain otherwise."""
    layout = incoming["x"]
    if not layout.blocked or not (m.axes is None or m.axes.is_const):
        return {}
    axes = axes_of(m)
    if not axes or axes[0] < 2:
        return {}
    if m.keepdims:
        return {"x": layout, "y": layout}
    return {"x": layout} if m.x.shape[1] % vlen == 0 and len(m.y.shape) == 2 else {}


def left_before(perm: list[int], reduced: Sequence[int], keeps: bool) -> list[int]:
    """The Transpose behind a reduction of the axes `reduced` from before a Transpose by `perm`.

    Where these axes are dropped and the others stay in order, it moves nothing.
    """
    left = [p for p in perm if p not in reduced]
    return perm if keeps else [int(i) for i in np.argsort(np.argsort(left))]


def reduced_before(edit: Editor, node: ir.Node, perm: list[int]) -> Permuted | None:
    """The reduction as it is before a Transpose by `perm`: its axes, and the Transpose behind it.

    None if the axes, which are not negative, are absent or no constant.
    """
    axes = array(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is None:
        return None
    reduced = sorted(perm[int(a)] for a in axes)
    keeps = bool(attribute(node, "keepdims", 1))
    inputs = {1: edit.ints(reduced, f"{node.name}_axes")}
    return Permuted(left_before(perm, reduced, keeps), inputs=inputs)


@permute("ArgMax ArgMin")
def arg_before(edit: Editor, node: ir.Node, perm: list[int]) -> Permuted:
    """An ArgMax or ArgMin as it is before a Transpose by `perm`, and the Transpose behind it."""
    axis = perm[int(attribute(node, "axis", 0))]
    return Permuted(left_before(perm, [axis], bool(attribute(node, "keepdims", 1))), {"axis": axis})


def declare(op_type: str) -> Pattern:
    """The pattern of the reduction `op_type`, with its traits, checks, lowering and cases.

    Axes are constants; what KINDS has for the operator says how elements are mapped, combined and
    finished. The shape of the result is that of x with the axes gone, or 1 with keepdims.
    """
    kind = KINDS[op_type]
    extreme = Moves("x", by="order", fewer=True, bytes_only=True)
    traits: list[Trait] = [] if kind.kernel == "logsumexp" else [Exact(rounds_once=True)]
    divides = kind.finish == DIVIDE
    traits.append(Averages("axes") if divides else Reduces(NEUTRAL[kind.kernel], "axes"))
    # Only these two give back one of their operands.
    if kind.kernel in ("max", "min"):
        traits.append(extreme)
    types = NUMBERS
    if kind.kernel == "logsumexp" or kind.finish == LOG:
        types = FLOATS
    elif kind.kernel in ("max", "min"):
        types = (*NUMBERS, BOOL)
    rules = [sizings.by(Sizing(examples={1: axes})), permute.by(reduced_before)]
    rules += [operands_fit.by(lists((1, "axes"))), *RULES.get(op_type, ())]
    made = op(
        op_type,
        "x axes?",
        traits=traits,
        types=types,
        keepdims=1,
        noop_with_empty_axes=0,
        rules=rules,
        lower=lambda c, m: reduce(c, m.y, m.x, axes_of(m), kind),
        layouts=spatial,
    )

    @made.check
    def supported(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that axes are constants, and that there are some unless nothing is computed per
        element.
        """
        known = m.axes is None or m.axes.is_const or m.axes.shape == (0,)
        yield known, "axes are computed at run time (need a constant)"
        copied = known and not axes_of(m)
        plain = kind.map == X and kind.finish in (AS_IS, DIVIDE) and kind.kernel != "logsumexp"
        yield plain or not copied, f"no axes to reduce, noop_with_empty_axes for {op_type}"
        if known and kind.finish == DIVIDE and m.x.dtype not in FLOATS:
            none = 0 in (m.x.shape[a] for a in axes_of(m))
            yield not none, f"the mean of no integers, of {list(m.x.shape)}"

    @made.cases
    def cases() -> Iterator[Case]:
        """A reduction(data, axes) of every type it has; axes kept or dropped; all axes."""
        low = 0.25 if "Log" in op_type else -2.0
        yield case(f32(2, 3, 37, low=low), i64(2), const=(1,))
        yield case(f32(2, 5, 3, 3, low=low), i64(2, 3), const=(1,))
        yield case(f32(2, 8, 7, 9, low=low), i64(2, 3), const=(1,), keepdims=0)
        yield case(f32(3, 4, 21, low=low), i64(1), const=(1,), keepdims=0)
        yield case(f32(3, 4, 5, low=low), i64(-1, 0), const=(1,))
        yield case(f32(3, 4, 5, low=low), keepdims=0)
        if F64 in types:
            yield case(f32(3, 4, 5, low=low).astype(np.float64), i64(1), const=(1,))
        for t in (S32, S64, U32, U64, S8, U8):
            small = t.nbytes == 1 or (t.nbytes == 4 and op_type == "ReduceSumSquare")
            if t in types and (not small or kind.kernel in ("max", "min")):
                x = ints(3, 4, 5, low=-5 if t in SIGNED else 0, dtype=t.np_name)
                yield case(x, i64(1), const=(1,))

    return made


def reduce(
    c: Recorder, y: ValueRef | Handle, x: ValueRef, axes: tuple[int, ...], kind: Kind
) -> None:
    """Record the steps that reduce `x` over `axes` (of its stored shape) into `y`.

    Raises UnsupportedError for float64 logarithms with --accuracy strict.
    """
    shape = stored(x)
    todo = steps(shape, axes)
    if not todo:
        c.copy(y, x, math.prod(shape) * x.dtype.nbytes)
        return
    if (
        c.accuracy == "strict"
        and x.dtype is F64
        and (kind.finish == LOG or kind.kernel == "logsumexp")
    ):
        raise UnsupportedError(
            "float64 logarithms need the C library, whose last bits differ between systems",
            hint="use --accuracy normal, or float32",
        )
    header = "aot_reduce_f32.h" if x.dtype is F32 else "aot_reduce.h"
    count: float | int = math.prod(a for _, a, _ in todo)
    count = float(np.float32(count)) if x.dtype is F32 else count
    so_far: ValueRef | Handle = x
    for i, (outer, axis, inner) in enumerate(todo):
        last = i == len(todo) - 1
        result = y if last else c.temp((outer * inner,), x.dtype)
        params = c.params(outer=outer, axis=axis, inner=inner, count=count)
        # Elements are mapped once, before anything is combined, and results finished once.
        instance = {"MAP": kind.map if i == 0 else X, "FINISH": kind.finish if last else AS_IS}
        c.call(
            f"aot_reduce_{kind.kernel}_{x.dtype.short}",
            result,
            so_far,
            params,
            instance={} if kind.kernel == "logsumexp" else instance,
            header=header,
        )
        so_far = result


def reduction(function: Callable[..., Any]) -> Rule:
    """A rule for constants: the value of a reduction that the NumPy function computes."""

    def rule(node: ir.Node, inputs: Inputs) -> list[Array]:
        """The reduced constant in the type of x; of empty ones the reference decides."""
        data, axes = need(inputs, 0), integers(optional(inputs, 1))
        if not axes and attribute(node, "noop_with_empty_axes", 0):
            return [data]
        if not data.size:
            return by_reference(node, inputs)
        keep = bool(attribute(node, "keepdims", 1))
        result = function(data, axis=tuple(axes) if axes else None, keepdims=keep)
        return [np.asarray(result).astype(data.dtype, copy=False)]

    return rule


def whole(function: Callable[..., Any], least: float = -math.inf) -> BoundsRule:
    """An interval rule of reducing a whole vector by a function that rises for elements from
    `least` on.
    """

    def rule(node: ir.Node, inputs: Bounded) -> Interval | None:
        """The function of both ends of the interval; None where x is no vector or below `least`."""
        found, result = inputs[0], node.outputs[0]
        if found is None or found.low.ndim != 1 or math.prod(shape_of(result)) != 1:
            return None
        if not (found.low >= least).all():
            return None
        low, high = (np.full(shape_of(result), function(v)) for v in (found.low, found.high))
        return None if np.isnan(high).any() else Interval(low, high)

    return wrapping(in_steps(rule))


#: What passes ask of some reductions.
RULES: dict[str, list[Given]] = {
    "ReduceProd": [
        evaluates.by(reduction(np.prod)),
        bounds.by(whole(np.prod, 0)),
        polynomials.by(symbolic.total(symbolic.multiply, symbolic.number(1))),
    ],
    "ReduceSum": [
        evaluates.by(reduction(np.sum)),
        bounds.by(whole(np.sum)),
        polynomials.by(symbolic.total(symbolic.add, symbolic.number(0))),
    ],
    "ReduceMean": [bounds.by(whole(np.mean))],
    "ReduceMax": [evaluates.by(reduction(np.max)), bounds.by(whole(np.max))],
    "ReduceMin": [evaluates.by(reduction(np.min)), bounds.by(whole(np.min))],
}

for _name in KINDS:
    _made = declare(_name)
    if _name in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"):

        @_made.cases
        def more_cases() -> Iterator[Case]:
            """A reduction with NaN and infinities, and one of no axes."""
            yield case(SPECIAL.reshape(1, -1), i64(1), const=(1,))
            yield case(np.where(np.isnan(SPECIAL), 3, SPECIAL).reshape(1, -1), i64(0), const=(1,))
            yield case(f32(2, 3), np.array([], np.int64), const=(1,), noop_with_empty_axes=1)

    if _name in ("ReduceMax", "ReduceMin"):

        @_made.cases
        def bool_case() -> Iterator[Case]:
            """The maximum or minimum of booleans."""
            yield case(f32(3, 4, 2) > 0, i64(1), const=(1,))

    if _name == "ReduceSum":

        @_made.cases
        def long_case() -> Iterator[Case]:
            """Sums of many elements, whose rounding must not add up, and of none."""
            yield case(full((1, 70001), 0.1), i64(1), const=(1,), rtol=1e-6)
            yield case(full((70001, 3), 0.125), i64(0), const=(1,), rtol=1e-6)
            yield case(f32(2, 0, 3), i64(1), const=(1,))


for _name, _min in (("ArgMax", 0), ("ArgMin", 1)):
    # Where the first of equal elements counts, more of them behind it change nothing.
    _first = Reduces(
        math.inf if _min else -math.inf,
        "axis",
        when=lambda node: not attribute(node, "select_last_index", 0),
    )
    _exact: list[Trait] = [Exact(rounds_once=True), _first, Compares()]
    _arg = op(
        _name,
        "x",
        traits=_exact,
        types=NUMBERS,
        axis=AxisOf("x", 0),
        keepdims=1,
        select_last_index=0,
    )

    @_arg.check
    def arg_supported(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that the axis has elements."""
        yield m.x.rank > 0 and m.x.shape[m.axis] > 0, f"axis {m.axis} of shape {m.x.shape}"

    @_arg.lower
    def arg_to_kernel(c: Recorder, m: Match, least: int = _min) -> None:
        """Record aot_arg on x [outer, axis, inner]; `least` 1 is for ArgMin."""
        outer, axis, inner = split_at(m.x.shape, m.axis)
        c.call(
            f"aot_arg_{m.x.dtype.short}",
            m.y,
            m.x,
            c.params(outer=outer, axis=axis, inner=inner, count=axis),
            instance={"MIN": least, "LAST": m.select_last_index},
            header="aot_reduce.h",
        )

    @_arg.cases
    def arg_cases() -> Iterator[Case]:
        """ArgMax or ArgMin(data): NaN, and the first or last of equals."""
        yield case(f32(3, 4, 5), axis=1)
        yield case(f32(3, 17), axis=-1, keepdims=0)
        yield case(SPECIAL)
        for last in (0, 1):
            yield case(ints(3, 9, low=0, high=3), axis=1, select_last_index=last)
            yield case(np.round(f32(3, 9)), axis=1, select_last_index=last)
            yield case(np.array([1, np.nan, 2, np.nan]), select_last_index=last)
        for t in ("int8", "uint8", "int32", "uint64"):
            yield case(ints(3, 9, low=0, dtype=t), axis=1)


_line = Along("axis", -math.inf)
_once = Exact(rounds_once=True)
hardmax = op("Hardmax", "x", traits=[_line, _once], types=FLOATS, axis=AxisOf("x", -1))


@hardmax.lower
def hardmax_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_hardmax on x [outer, axis, inner]."""
    outer, axis, inner = split_at(m.x.shape, m.axis)
    params = c.params(outer=outer, axis=axis, inner=inner, count=axis)
    c.call(f"aot_hardmax_{m.x.dtype.short}", m.y, m.x, params, header="aot_reduce.h")


@hardmax.cases
def hardmax_cases() -> Iterator[Case]:
    """Hardmax(input), with ties."""
    yield case(np.round(f32(3, 9)))
    yield case(f32(2, 5, 3).astype(np.float64), axis=1)


_running: dict[str, Any] = {"types": (F32, F64, S32, S64, U32, U64), "exclusive": 0, "reverse": 0}
cumsum = op(
    "CumSum",
    "x axis",
    traits=[_once],
    **_running,
    rules=[sizings.by(Sizing(examples={1: zeros}))],
    lower=lambda c, m: running(c, m, "cumsum"),
)
cumprod = op("CumProd", "x axis", **_running, lower=lambda c, m: running(c, m, "cumprod"))


@cumsum.check
@cumprod.check
def cumsum_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the axis is a constant."""
    yield m.axis.is_const, "the axis is computed at run time (needs a constant)"


def running(c: Recorder, m: Match, kernel: str) -> None:
    """Record aot_<kernel> (cumsum, cumprod) along the constant axis; y may take x's place."""
    outer, axis, inner = split_at(m.x.shape, int(np.asarray(m.axis.data).reshape(())))
    c.call(
        f"aot_{kernel}_{m.x.dtype.short}",
        m.y,
        m.x,
        c.params(outer=outer, axis=axis, inner=inner, count=axis),
        instance={"EXCLUSIVE": m.exclusive, "REVERSE": m.reverse},
        header="aot_reduce.h",
        inplace=[(m.y, m.x)],
    )


@cumsum.cases
@cumprod.cases
def cumsum_cases() -> Iterator[Case]:
    """CumSum or CumProd(x, axis): exclusive or not, from either end."""
    for exclusive in (0, 1):
        for reverse in (0, 1):
            axis = np.array(1 - 2 * reverse)
            yield case(f32(2, 5, 3), axis, const=(1,), exclusive=exclusive, reverse=reverse)
    yield case(ints(7, dtype="int32"), np.array(0), const=(1,))
    yield case(ints(7, dtype="uint64", low=0), np.array(0), const=(1,))


@dynamic("ReduceMean")
def mean_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a ReduceMean along dynamic axes by the sum divided by the number of real elements."""
    data = needed(node, 0)
    axes, keep = reduced_axes(x, node, Reduces(0, "axes"))
    left = axes_left(x, data, axes, keep)
    if not any(a in axes for a in x.run_sizes(data)):
        pass_on(x, node, left)
        return
    x.substitute(node, means(x, data, node, axes, keep), left)


@dynamic("CumProd CumSum")
def running_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a running sum or product pass; padding counts nothing from the end.

    UnsupportedError for an axis read at run time.
    """
    data, where = needed(node, 0), constant_ints(x, given(node, 1))
    if where is None:
        raise refused(node, "gets its axis at run time")
    axis = where[0] % max(len(shape_of(data)), 1)
    if axis in x.run_sizes(data) and attribute(node, "reverse", 0):
        fill = 0 if node.op_type == "CumSum" else 1
        node.replace_input_with(0, x.neutral(node, data, fill, [axis]))
    pass_on(x, node, x.run_sizes(data))


@operands_fit("CumProd CumSum")
def cumulative_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why the axis of a running sum or product is no single number; "" if it is."""
    return one(1, "the axis")(node, partial_values) or ranked(1)(node, partial_values)
