# SPDX-License-Identifier: Apache-2.0
"""Functions of one element, and operations of two tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from aot.vendor import (
    ACTIVATIONS,
    F32,
    Act,
    Case,
    Layout,
    Match,
    Pattern,
    Recorder,
    ValueRef,
    case,
    f32,
)
from aot.vendor.dnnl.base import (
    TYPES,
    blocked_by,
    blocks,
    declare,
    floats,
    like,
    primitive,
    stored_elements,
    type_of,
)
from aot.vendor.dnnl.products import ordered_bounds

Checks = Iterator[tuple[bool, str]]
#: Functions that take zero to zero, so pad lanes stay zero.
KEEP_ZERO = {2, 3, 6, 7, 8, 9, 10, 11, 12, 15, 16}  # 18 makes 1 or infinity of 0
MORE: tuple[tuple[str, Act], ...] = (
    ("Mish", Act(11)),
    ("Abs", Act(12)),
    ("Exp", Act(13)),
    ("Log", Act(14)),
    ("Sqrt", Act(15)),
    ("Round", Act(16)),
    ("Neg", Act(17, -1.0, 0.0)),
)


def _keeps_zero(act: Act) -> bool:
    """Whether the function maps 0 to 0, so that the pad lanes of blocked channels stay zero."""
    # kind 1 clips to [alpha, beta], kind 17 is alpha * x + beta
    if act.kind == 1:
        return act.alpha <= 0.0 <= act.beta
    return act.kind in KEEP_ZERO or (act.kind == 17 and act.beta == 0.0)


def _declare_unary(made: Pattern, act_of: Callable[[Match], Act]) -> None:
    """Add checks, layouts and lowering to `made`, a pattern of one tensor v and one result y.

    `act_of(match)` gives the number of the library's function and its two constants. The pattern is
    changed in place.
    """

    @made.check
    def fits(m: Match) -> Checks:
        """Check that v is a tensor of float32, or of bfloat16 except for Round, and is not
        empty.
        """
        yield from floats(m.v, kinds=(F32,) if made.name == "round" else TYPES)

    @made.layouts
    def layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
        """Keep the layout in which v arrives; y has zero pad lanes only if the function maps 0 to
        0.
        """
        x = incoming["v"]
        # The exponential of 0 is 1: pad lanes are then no zeros, and the layout must not promise
        # any.
        kept = x if _keeps_zero(act_of(m)) else Layout(x.block)
        return {"v": x, "y": kept}

    @made.lower
    def lowered(c: Recorder, m: Match) -> None:
        """Record the primitive and its call over all stored elements of v, pad lanes included.

        The result y may share the memory of v.
        """
        act = act_of(m)
        n = stored_elements(m.v)
        params = c.params(type=type_of(m.v), n=n, act=act.kind, alpha=act.alpha, beta=act.beta)
        state = primitive(c, "aot_dnnl_eltwise", params)
        c.call("aot_dnnl_run", state, m.y, m.v, None, inplace=[(m.y, m.v)], status=True, macs=n)


def _single(op_type: str) -> Callable[..., Any]:
    """A function that builds the graph of one operator `op_type` of one operand v."""
    return lambda op, v: getattr(op, op_type)(v)


def _always(act: Act) -> Callable[[Match], Act]:
    """A function that gives the same `act` for every match."""
    return lambda m: act


for _suffix, _extra, _act, _constants in ACTIVATIONS:
    if _suffix != "hardsigmoid":  # two functions, which only products can chain
        _made = declare(_suffix, ("v", *_extra), _act)
        if _extra:
            _made.check(ordered_bounds)
        _declare_unary(_made, _constants)
for _name, _value in MORE:
    _declare_unary(declare(_name.lower(), ("v",), _single(_name)), _always(_value))


def _power(m: Match) -> Act:
    """The library's power function (kind 18: alpha * x ** beta) with the constant exponent `m.e` as
    beta.
    """
    return Act(18, 1.0, float(np.asarray(m.e.data).reshape(())))


pow_ = declare("pow", ("v", "e"), lambda op, v, e: op.Pow(v, e))


@pow_.check
def exponent_is_known(m: Match) -> Checks:
    """Checks of a power of floats: one constant exponent, which adds no axis."""
    yield m.e.is_const and math.prod(m.e.shape) == 1, "the exponent is not one constant"
    yield from floats(m.v, m.e)
    yield m.y.shape == m.v.shape, f"an exponent of rank {m.e.rank}"


_declare_unary(pow_, _power)


@pow_.cases
def power_cases() -> Iterator[Case]:
    """Pow(X, Y) by one constant exponent."""
    for exponent in (2.5, -1.0, 0.5):
        yield case(f32(3, 7, low=0.1), np.array(exponent, np.float32), const=(1,))
    yield case(f32(2, 21, 3, 4), np.array([3.0], np.float32), const=(1,))


def _reverse(m: Match) -> Act:
    """The library's linear function (kind 17: alpha * x + beta) that subtracts from the constant
    `m.e`.
    """
    return Act(17, -1.0, float(np.asarray(m.e.data).reshape(())))


sub_from = declare("sub_from", ("e", "v"), lambda op, e, v: op.Sub(e, v))


@sub_from.check
def minuend_is_known(m: Match) -> Checks:
    """Checks of a difference of floats: one constant, which adds no axis, minus a tensor."""
    yield m.e.is_const and math.prod(m.e.shape) == 1, "the minuend is not one constant"
    yield from floats(m.v, m.e)
    yield m.y.shape == m.v.shape, f"a minuend of rank {m.e.rank}"


_declare_unary(sub_from, _reverse)


@sub_from.cases
def sub_from_cases() -> Iterator[Case]:
    """Sub(A, B) with one constant A."""
    yield case(np.array(1.0, np.float32), f32(2, 21, 3, 4), const=(0,))
    yield case(np.array([-2.5], np.float32), f32(3, 7), const=(0,))


prelu = declare("prelu", ("x", "s"), lambda op, x, s: op.PRelu(x, s))


@prelu.check
def slope_fits(m: Match) -> Checks:
    """Checks of a PRelu of floats of rank 2 to 5 with a constant slope."""
    yield from floats(m.x, m.s)
    yield m.s.is_const, "the slope is computed at run time (needs a constant)"
    yield 2 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 2 to 5)"
    yield m.s.rank <= m.x.rank, f"a slope of rank {m.s.rank}"


@prelu.layouts
def as_x_arrives(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Keep channels in blocks or last where x arrives so; {}, all plain, otherwise.

    The pad lanes of y are zero, because a PRelu of zero is zero, and so are factor and term of
    channels that are not there.
    """
    kept = like(incoming["x"], m.x.shape)
    return {"x": incoming["x"], "y": kept} if kept.blocked else {}


@prelu.lower
def to_prelu(c: Recorder, m: Match) -> None:
    """Record the primitive of a PRelu and its call.

    The constant slope gets leading axes of extent 1 until it has the rank of x.
    """
    slope = np.asarray(m.s.data)
    slope = slope.reshape((1,) * (m.x.rank - slope.ndim) + slope.shape)
    params = c.params(
        type=type_of(m.x),
        rank=m.x.rank,
        block=m.x.layout.block,
        x=m.x.shape,
        slope=slope.shape,
    )
    state = primitive(c, "aot_dnnl_prelu", c.const(slope, "slope"), params)
    c.call("aot_dnnl_run", state, m.y, m.x, None, status=True, macs=stored_elements(m.x))


@prelu.cases
def prelu_cases() -> Iterator[Case]:
    """PRelu(X, slope): a slope for each channel, for each column, one for all."""
    yield case(f32(2, 21, 5, 6), f32(21, 1, 1), const=(1,))
    yield case(f32(2, 16, 5), f32(1), const=(1,))
    yield case(f32(3, 7), f32(7), const=(1,))


# -- two operands -----------------------------------------------------------------------------

KINDS = {"Add": 0, "Sub": 1, "Mul": 2, "Div": 3, "Max": 4, "Min": 5}
DIV = KINDS["Div"]


def _operands(m: Match) -> tuple[ValueRef, ValueRef] | None:
    """The operand that has the result's shape, then the other; None if neither may come first."""
    if m.a.shape == m.y.shape:
        return m.a, m.b
    if m.b.shape == m.y.shape and m.root.op_type not in ("Sub", "Div"):
        return m.b, m.a
    return None


def _declare_binary(op_type: str) -> None:
    """Declare the pattern of one operator (a key of `KINDS`) of two tensors a and b with
    result y.
    """
    made = declare(op_type.lower(), ("a", "b"), lambda op, a, b: getattr(op, op_type)(a, b))

    @made.check
    def fits(m: Match) -> Checks:
        """Check types, a rank of at most 6, and that an operand that may come first has the shape
        of y.
        """
        yield from floats(m.a, m.b)
        yield m.y.rank <= 6, f"rank {m.y.rank} (at most 6)"
        shapes = f"operands {list(m.a.shape)} and {list(m.b.shape)}"
        yield _operands(m) is not None, f"{shapes}: none that may come first has the result's shape"

    @made.layouts
    def layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
        """Blocks of `vlen` channels for a, b and y if an operand that is no constant arrives in
        blocks, channels last if all do.

        The answer is {}, all plain, if the shapes of a and b differ or if no fast kernels exist.
        """
        arrive = [incoming[n] for n in ("a", "b") if not m.values[n].is_const]  # type: ignore[union-attr]
        if (
            m.a.shape != m.b.shape
            or not any(x.blocked for x in arrive)
            or not blocked_by(m.a, vlen)
        ):
            return {}
        last = all(x.block == m.a.shape[1] for x in arrive)
        both = arrive[0] if last else blocks(m.a.shape, vlen)
        # 0 / 0 is NaN: pad lanes of a quotient are not zero
        kept = both if KINDS[op_type] != DIV else Layout(both.block)
        return {"a": both, "b": both, "y": kept}

    @made.lower
    def lowered(c: Recorder, m: Match) -> None:
        """Record the primitive and its call; y may share the memory of the operand of its shape.

        Operands of equal shape become vectors of all stored elements. The smaller operand gets
        leading axes of extent 1 otherwise.
        """
        pair = _operands(m)
        assert pair is not None
        x, x1 = pair
        n = stored_elements(x)
        same = x.shape == x1.shape
        rank = 1 if same else x.rank
        shape = (n,) if same else x.shape
        other = (n,) if same else (*[1] * (rank - x1.rank), *x1.shape)
        params = c.params(type=type_of(x), rank=rank, kind=KINDS[op_type], x=shape, x1=other)
        state = primitive(c, "aot_dnnl_binary", params)
        place = [(m.y, x)] if x.ir is not x1.ir else []
        c.call("aot_dnnl_run2", state, m.y, x, x1, inplace=place, status=True, macs=n)


for _op in KINDS:
    _declare_binary(_op)


# -- one factor and one term per channel -------------------------------------------------------


def _affine(op: Any, x: Any, s: Any, t: Any) -> Any:
    """The graph x * s + t."""
    return op.Add(op.Mul(x, s), t)


def _per_channel(value: ValueRef, x: ValueRef) -> bool:
    """Whether v [C, 1, 1] or [1, C, 1, 1] has one element for each channel of x."""
    shape = (1,) * (x.rank - value.rank) + value.shape
    return value.is_const and shape == (1, x.shape[1], *[1] * (x.rank - 2))


def _declare_affine(relu: bool) -> None:
    """Declare the pattern x * s + t with one factor and one term per channel, with a Relu if
    `relu`.
    """

    def build(op: Any, x: Any, s: Any, t: Any) -> Any:
        """The graph of the pattern: x * s + t, and a Relu behind the sum if `relu`."""
        return op.Relu(_affine(op, x, s, t)) if relu else _affine(op, x, s, t)

    made = declare("affine_relu" if relu else "affine", ("x", "s", "t"), build)

    @made.check
    def fits(m: Match) -> Checks:
        """Check types, that x has rank 3 to 5, and that s and t are one constant for each channel
        of x.
        """
        yield from floats(m.x, m.s, m.t)
        yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
        for v in (m.s, m.t):
            one_each = 3 <= m.x.rank <= 5 and _per_channel(v, m.x)
            yield one_each, f"operand {list(v.shape)} is not one constant per channel"

    made.layouts(as_x_arrives)

    @made.lower
    def lowered(c: Recorder, m: Match) -> None:
        """Record the primitive, with rows of scale, shift, zeros and ones [C] as float32, and its
        call.
        """
        rows = [np.asarray(v.data, np.float32).reshape(-1) for v in (m.s, m.t)]
        # The library has no such operator but a batch normalization: with mean 0 and variance 1 it
        # is one.
        rows += [np.zeros_like(rows[0]), np.ones_like(rows[0])]
        names = ("scale", "shift", "zeros", "ones")
        consts = [c.const(row, name) for row, name in zip(rows, names, strict=True)]
        shape = {"rank": m.x.rank, "block": m.x.layout.block, "x": m.x.shape}
        params = c.params(type=type_of(m.x), relu=relu, **shape)
        state = primitive(c, "aot_dnnl_affine", *consts, params)
        macs = stored_elements(m.x)
        c.call("aot_dnnl_run", state, m.y, m.x, None, status=True, macs=macs)

    @made.cases
    def examples() -> Iterator[Case]:
        """Cases of rank 4 and 3: scale and shift given as [C, 1, ...] or [1, C, 1, ...]."""
        yield case(f32(2, 21, 5, 6), f32(21, 1, 1), f32(1, 21, 1, 1, seed=3), const=(1, 2))
        yield case(f32(1, 16, 9), f32(16, 1), f32(16, 1, seed=3), const=(1, 2))


for _relu in (False, True):
    _declare_affine(_relu)
