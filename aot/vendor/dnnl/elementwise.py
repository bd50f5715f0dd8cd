# SPDX-License-Identifier: Apache-2.0
"""Functions of one element, and operations of two tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from aot.vendor import (
    ACTIVATIONS,
    F32,
    OP,
    Act,
    Case,
    Layout,
    Match,
    Pat,
    Recorder,
    ValueRef,
    case,
    f32,
    wildcard,
)
from aot.vendor.dnnl.base import (
    TYPES,
    Check,
    Checks,
    blocked_by,
    blocks,
    declare,
    floats,
    like,
    record,
    stored_elements,
    type_of,
)
from aot.vendor.dnnl.products import ordered_bounds

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


def _always(act: Act, m: Match) -> Act:
    return act


def _declare_unary(
    name: str, graph: Pat, act_of: Callable[[Match], Act], *checks: Check, **functions: Any
) -> None:
    """Declare the pattern of one tensor v of floats and one result y, with `checks` before its own.

    `act_of(match)` gives the number of the library's function and its two constants. Round is of
    float32 only.
    """
    kinds = (F32,) if name == "round" else TYPES
    declare(
        name,
        graph,
        *checks,
        lambda m: floats(m.v, kinds=kinds),
        lower=partial(record_unary, act_of),
        layouts=partial(unary_layouts, act_of),
        **functions,
    )


def unary_layouts(
    act_of: Callable[[Match], Act], m: Match, incoming: dict[str, Layout], vlen: int
) -> dict[str, Layout]:
    """Keep the layout in which v arrives; y has zero pad lanes only if the function maps 0 to 0."""
    x = incoming["v"]
    # The exponential of 0 is 1: pad lanes are then no zeros, and the layout must not promise
    # any.
    return {"v": x, "y": x if _keeps_zero(act_of(m)) else Layout(x.block)}


def record_unary(act_of: Callable[[Match], Act], c: Recorder, m: Match) -> None:
    """Record the primitive and its call over all stored elements of v, pad lanes included.

    The result y may share the memory of v.
    """
    act, n = act_of(m), stored_elements(m.v)
    fields = {"type": type_of(m.v), "n": n, "act": act.kind, "alpha": act.alpha, "beta": act.beta}
    record(c, "aot_dnnl_eltwise", fields, [m.y, m.v], n, inplace=[(m.y, m.v)])


_V, _E = wildcard("v"), wildcard("e")
for _suffix, _extra, _act, _constants in ACTIVATIONS:
    if _suffix != "hardsigmoid":  # two functions, which only products can chain
        _graph = _act(OP, _V, *map(wildcard, _extra))
        _declare_unary(_suffix, _graph, _constants, *([ordered_bounds] if _extra else []))
for _name, _value in MORE:
    _declare_unary(_name.lower(), getattr(OP, _name)(_V), partial(_always, _value))


def _power(m: Match) -> Act:
    """The library's power function (kind 18: alpha * x ** beta) with the constant exponent `m.e` as
    beta.
    """
    return Act(18, 1.0, float(np.asarray(m.e.data).reshape(())))


def one_constant(what: str, m: Match) -> Checks:
    """Checks of a function of floats with the one constant `m.e`, which adds no axis and is called
    `what`, with an article.
    """
    one = m.e.is_const and math.prod(m.e.shape) == 1
    yield one, f"the {what.split()[1]} is not one constant"
    yield from floats(m.v, m.e)
    yield m.y.shape == m.v.shape, f"{what} of rank {m.e.rank}"


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


def sub_from_cases() -> Iterator[Case]:
    """Sub(A, B) with one constant A."""
    yield case(np.array(1.0, np.float32), f32(2, 21, 3, 4), const=(0,))
    yield case(np.array([-2.5], np.float32), f32(3, 7), const=(0,))


for _name, _graph, _act, _what, _cases in (
    ("pow", OP.Pow(_V, _E), _power, "an exponent", power_cases),
    ("sub_from", OP.Sub(_E, _V), _reverse, "a minuend", sub_from_cases),
):
    _declare_unary(_name, _graph, _act, partial(one_constant, _what), cases=_cases)


def slope_fits(m: Match) -> Checks:
    """Checks of a PRelu of floats of rank 2 to 5 with a constant slope."""
    yield from floats(m.x, m.s)
    yield m.s.is_const, "the slope is computed at run time (needs a constant)"
    yield 2 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 2 to 5)"
    yield m.s.rank <= m.x.rank, f"a slope of rank {m.s.rank}"


def as_x_arrives(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Keep channels in blocks or last where x arrives so; {}, all plain, otherwise.

    The pad lanes of y are zero, because a PRelu of zero is zero, and so are factor and term of
    channels that are not there.
    """
    kept = like(incoming["x"], m.x.shape)
    return {"x": incoming["x"], "y": kept} if kept.blocked else {}


def to_prelu(c: Recorder, m: Match) -> None:
    """Record the primitive of a PRelu and its call.

    The constant slope gets leading axes of extent 1 until it has the rank of x.
    """
    slope = np.asarray(m.s.data)
    slope = slope.reshape((1,) * (m.x.rank - slope.ndim) + slope.shape)
    fields = {
        "type": type_of(m.x),
        "rank": m.x.rank,
        "block": m.x.layout.block,
        "x": m.x.shape,
        "slope": slope.shape,
    }
    given = [c.const(slope, "slope")]
    record(c, "aot_dnnl_prelu", fields, [m.y, m.x], stored_elements(m.x), given)


def prelu_cases() -> Iterator[Case]:
    """PRelu(X, slope): a slope for each channel, for each column, one for all."""
    yield case(f32(2, 21, 5, 6), f32(21, 1, 1), const=(1,))
    yield case(f32(2, 16, 5), f32(1), const=(1,))
    yield case(f32(3, 7), f32(7), const=(1,))


declare(
    "prelu",
    OP.PRelu(wildcard("x"), wildcard("s")),
    slope_fits,
    lower=to_prelu,
    layouts=as_x_arrives,
    cases=prelu_cases,
)

# -- two operands -----------------------------------------------------------------------------

KINDS = {"Add": 0, "Sub": 1, "Mul": 2, "Div": 3, "Max": 4, "Min": 5}


def _operands(m: Match) -> tuple[ValueRef, ValueRef] | None:
    """The operand that has the result's shape, then the other; None if neither may come first."""
    if m.a.shape == m.y.shape:
        return m.a, m.b
    if m.b.shape == m.y.shape and m.root.op_type not in ("Sub", "Div"):
        return m.b, m.a
    return None


def binary_fits(m: Match) -> Checks:
    """Check types, a rank of at most 6, and that an operand that may come first has the shape
    of y.
    """
    yield from floats(m.a, m.b)
    yield m.y.rank <= 6, f"rank {m.y.rank} (at most 6)"
    shapes = f"operands {list(m.a.shape)} and {list(m.b.shape)}"
    yield _operands(m) is not None, f"{shapes}: none that may come first has the result's shape"


def binary_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Blocks of `vlen` channels for a, b and y if an operand that is no constant arrives in
    blocks, channels last if all do.

    The answer is {}, all plain, if the shapes of a and b differ or if no fast kernels exist.
    """
    arrive = [incoming[n] for n in ("a", "b") if not m.values[n].is_const]  # type: ignore[union-attr]
    if m.a.shape != m.b.shape or not any(x.blocked for x in arrive) or not blocked_by(m.a, vlen):
        return {}
    last = all(x.block == m.a.shape[1] for x in arrive)
    both = arrive[0] if last else blocks(m.a.shape, vlen)
    # 0 / 0 is NaN: pad lanes of a quotient are not zero
    return {"a": both, "b": both, "y": both if m.root.op_type != "Div" else Layout(both.block)}


def record_binary(c: Recorder, m: Match) -> None:
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
    kind = KINDS[m.root.op_type]
    fields = {"type": type_of(x), "rank": rank, "kind": kind, "x": shape, "x1": other}
    place = [(m.y, x)] if x.ir is not x1.ir else []
    record(c, "aot_dnnl_binary", fields, [m.y, x, x1], n, inplace=place)


for _name in KINDS:
    declare(
        _name.lower(),
        getattr(OP, _name)(wildcard("a"), wildcard("b")),
        binary_fits,
        lower=record_binary,
        layouts=binary_layouts,
    )


# -- one factor and one term per channel -------------------------------------------------------


def _per_channel(value: ValueRef, x: ValueRef) -> bool:
    """Whether v [C, 1, 1] or [1, C, 1, 1] has one element for each channel of x."""
    shape = (1,) * (x.rank - value.rank) + value.shape
    return value.is_const and shape == (1, x.shape[1], *[1] * (x.rank - 2))


def affine_fits(m: Match) -> Checks:
    """Check types, that x has rank 3 to 5, and that s and t are one constant for each channel
    of x.
    """
    yield from floats(m.x, m.s, m.t)
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
    for v in (m.s, m.t):
        one_each = 3 <= m.x.rank <= 5 and _per_channel(v, m.x)
        yield one_each, f"operand {list(v.shape)} is not one constant per channel"


def record_affine(c: Recorder, m: Match) -> None:
    """Record the primitive, with rows of scale, shift, zeros and ones [C] as float32, and its
    call.
    """
    rows = [np.asarray(v.data, np.float32).reshape(-1) for v in (m.s, m.t)]
    # The library has no such operator but a batch normalization: with mean 0 and variance 1 it
    # is one.
    rows += [np.zeros_like(rows[0]), np.ones_like(rows[0])]
    names = ("scale", "shift", "zeros", "ones")
    consts = [c.const(row, name) for row, name in zip(rows, names, strict=True)]
    fields = {"type": type_of(m.x), "relu": m.root.op_type == "Relu"}
    fields |= {"rank": m.x.rank, "block": m.x.layout.block, "x": m.x.shape}
    record(c, "aot_dnnl_affine", fields, [m.y, m.x], stored_elements(m.x), consts)


def affine_examples() -> Iterator[Case]:
    """Cases of rank 4 and 3: scale and shift given as [C, 1, ...] or [1, C, 1, ...]."""
    yield case(f32(2, 21, 5, 6), f32(21, 1, 1), f32(1, 21, 1, 1, seed=3), const=(1, 2))
    yield case(f32(1, 16, 9), f32(16, 1), f32(16, 1, seed=3), const=(1, 2))


_AFFINE = OP.Add(OP.Mul(wildcard("x"), wildcard("s")), wildcard("t"))
for _name, _graph in (("affine", _AFFINE), ("affine_relu", OP.Relu(_AFFINE))):
    declare(
        _name,
        _graph,
        affine_fits,
        lower=record_affine,
        layouts=as_x_arrives,
        cases=affine_examples,
    )
