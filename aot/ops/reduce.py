# SPDX-License-Identifier: Apache-2.0
"""Reductions: each run of adjacent reduced axes is one step on [outer, axis, inner]."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from aot.dtypes import F32
from aot.layout import Layout
from aot.lower_context import Handle, LowerContext
from aot.ops.broadcast import Shape, stored
from aot.ops.registry import Case, case, f32, full, i64, op
from aot.ops.unary import SPECIAL
from aot.partition.match import Match, ValueRef
from aot.vendor.backend import Pattern

X, ABS, SQUARE = 0, 1, 2  # MAP of aot_reduce_f32.h
AS_IS, DIVIDE, ROOT, LOG = 0, 1, 2, 3  # FINISH


@dataclass(frozen=True, slots=True)
class Kind:
    """How one reduction is spelled: kernel, what it does to every element, and at the end."""

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
    """Blocked in and out when only spatial axes are reduced."""
    layout = incoming["x"]
    if not layout.blocked or not (m.axes is None or m.axes.is_const):
        return {}
    axes = axes_of(m)
    if not axes or axes[0] < 2:
        return {}
    if m.keepdims:
        return {"x": layout, "y": layout}
    return {"x": layout} if m.x.shape[1] % vlen == 0 and len(m.y.shape) == 2 else {}


def declare(op_type: str) -> Pattern:
    """One reduction operator."""
    made = op(op_type, "x axes?", keepdims=1, noop_with_empty_axes=0)
    kind = KINDS[op_type]
    made.layouts(spatial)

    @made.check
    def supported(m: Match) -> Iterator[tuple[bool, str]]:
        yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"
        known = m.axes is None or m.axes.is_const or m.axes.shape == (0,)
        yield known, "axes are computed at run time (need a constant)"
        copied = known and not axes_of(m)
        plain = kind.map == X and kind.finish in (AS_IS, DIVIDE) and kind.kernel != "logsumexp"
        yield plain or not copied, f"no axes to reduce, noop_with_empty_axes for {op_type}"

    @made.lower
    def to_kernel(c: LowerContext, m: Match) -> None:
        reduce(c, m.y, m.x, axes_of(m), kind)

    @made.cases
    def cases() -> Iterator[Case]:
        low = 0.25 if "Log" in op_type else -2.0
        yield case(f32(2, 3, 37, low=low), i64(2), const=(1,))
        yield case(f32(2, 5, 3, 3, low=low), i64(2, 3), const=(1,))
        yield case(f32(2, 8, 7, 9, low=low), i64(2, 3), const=(1,), keepdims=0)
        yield case(f32(3, 4, 21, low=low), i64(1), const=(1,), keepdims=0)
        yield case(f32(3, 4, 5, low=low), i64(-1, 0), const=(1,))
        yield case(f32(3, 4, 5, low=low), keepdims=0)

    return made


def reduce(
    c: LowerContext, y: ValueRef | Handle, x: ValueRef, axes: tuple[int, ...], kind: Kind
) -> None:
    """Record the steps that reduce `x` over `axes` (of its stored shape) into `y`."""
    shape = stored(x)
    todo = steps(shape, axes)
    if not todo:
        c.copy(y, x, math.prod(shape) * x.dtype.nbytes)
        return
    count = float(math.prod(a for _, a, _ in todo))
    so_far: ValueRef | Handle = x
    for i, (outer, axis, inner) in enumerate(todo):
        last = i == len(todo) - 1
        result = y if last else c.temp((outer * inner,), x.dtype)
        params = c.params(outer=outer, axis=axis, inner=inner, count=float(np.float32(count)))
        instance = {"MAP": kind.map if i == 0 else X, "FINISH": kind.finish if last else AS_IS}
        c.call(
            f"aot_reduce_{kind.kernel}_f32",
            result,
            so_far,
            params,
            instance={} if kind.kernel == "logsumexp" else instance,
            header="aot_reduce_f32.h",
        )
        so_far = result


for _name in KINDS:
    _made = declare(_name)
    if _name in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"):

        @_made.cases
        def more_cases() -> Iterator[Case]:
            yield case(SPECIAL.reshape(1, -1), i64(1), const=(1,))
            yield case(np.where(np.isnan(SPECIAL), 3, SPECIAL).reshape(1, -1), i64(0), const=(1,))
            yield case(f32(2, 3), np.array([], np.int64), const=(1,), noop_with_empty_axes=1)

    if _name == "ReduceSum":

        @_made.cases
        def long_case() -> Iterator[Case]:
            yield case(full((1, 70001), 0.1), i64(1), const=(1,), rtol=1e-6)
            yield case(full((70001, 3), 0.125), i64(0), const=(1,), rtol=1e-6)
            yield case(f32(2, 0, 3), i64(1), const=(1,))
