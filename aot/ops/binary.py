# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of two or more tensors with broadcasting; float32 with a fused clamp."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aot.ir.dtypes import F32, DType
from aot.ir.operators import Commutative, Elementwise, Exact, Trait
from aot.ops.broadcast import Operand, Shape, Space, collapse, operand, stored
from aot.ops.kernels import FLOATS, INTS, NUMBERS, UNSIGNED, header_of, listing
from aot.ops.registry import op, portable
from aot.ops.unary import SPECIAL, edges
from aot.vendor.backend import Pattern
from aot.vendor.cases import Case, case, f32
from aot.vendor.layouts import follow
from aot.vendor.match import Match, ValueRef
from aot.vendor.recorder import Handle, Recorder

NO_ACT, RELU, CLIP = 0, 1, 2
HEADER = "aot_binary_f32.h"


def space_fields(space: Space, names: str) -> dict[str, Shape]:
    """Fields of the broadcast parameter structs."""
    return {"dims": space.dims} | {f"s{n}": space.strides[k] for k, n in enumerate(names)}


def instances(space: Space, names: str) -> dict[str, int]:
    """Inner strides as instance constants IA, IB …"""
    return {f"I{n.upper()}": space.inner(k) for k, n in enumerate(names)}


def reusable(space: Space, y: Any, operands: Sequence[Operand]) -> list[tuple[Any, Any]]:
    """In-place pairs: the result may take the memory of any operand that is not broadcast."""
    return [(y, what) for k, (what, _) in enumerate(operands) if space.covers(k)]


def combine(
    c: Recorder,
    name: str,
    dtype: DType,
    y: ValueRef | Handle,
    shape: Shape,
    operands: Sequence[Operand],
    act: int = NO_ACT,
    lo: float = 0.0,
    hi: float = 0.0,
    wide: bool = True,
) -> None:
    """Record aot_<name>_<dtype> of two or three operands of `dtype`.

    `shape` is the result's stored shape; `wide` says that its elements are as large as the
    operands'. Only float32 kernels of aot_binary_f32.h take an activation.
    """
    space = collapse(shape, [s for _, s in operands])
    names = "abc"[: len(operands)]
    bounds = {"lo": float(np.float32(lo)), "hi": float(np.float32(hi))}
    header = header_of(name, dtype, HEADER, c.accuracy)
    c.call(
        f"aot_{name}_{dtype.short}",
        y,
        *(what for what, _ in operands),
        c.params(**space_fields(space, names), **bounds),
        instance=instances(space, names) | ({"ACT": act} if header == HEADER else {}),
        header=header,
        inplace=reusable(space, y, operands) if wide else (),
    )


def same_type(m: Match, types: tuple[DType, ...]) -> Iterator[tuple[bool, str]]:
    """Check: both operands have one type, among `types`."""
    yield m.a.dtype in types, f"dtype {m.a.dtype} (needs {listing(types)})"
    yield m.b.dtype is m.a.dtype, f"dtypes {m.a.dtype} and {m.b.dtype} (need to be equal)"


def declare(
    op_type: str,
    kernel: str,
    types: tuple[DType, ...] = NUMBERS,
    traits: Sequence[Trait] = (Elementwise(),),
) -> Pattern:
    """An operator of two operands of one type."""
    made = op(op_type, "a b", traits=traits)
    made.layouts(follow)
    made.check(lambda m: same_type(m, types))

    @made.lower
    def to_kernel(c: Recorder, m: Match) -> None:
        pair = [operand(c, m.a, m.y), operand(c, m.b, m.y)]
        combine(c, kernel, m.a.dtype, m.y, stored(m.y), pair)

    @made.cases
    def type_cases() -> Iterator[Case]:
        for t in types[1:]:
            if t.is_float:
                yield case(f32(3, 7).astype(t.numpy), f32(7, seed=1, low=0.5).astype(t.numpy))
            elif op_type not in ("Div", "Mod", "Pow", "PRelu"):
                yield case(edges(t), edges(t)[::-1].copy())

    return made


def declare_clamped(op_type: str, kernel: str) -> Pattern:
    """The operator, and its float32 fusions with Relu and Clip."""
    for act, made in (
        (RELU, portable.pattern(_relu_of(op_type))),
        (CLIP, portable.pattern(_clip_of(op_type))),
    ):
        made.layouts(follow)
        made.check(lambda m: same_type(m, (F32,)))
        _lower_clamped(made, kernel, act)
    exchange = [Commutative()] if op_type in ("Add", "Mul") else []
    return declare(op_type, kernel, traits=[Elementwise(), *exchange])


def _lower_clamped(made: Pattern, kernel: str, act: int) -> None:
    @made.check
    def constant_bounds(m: Match) -> Iterator[tuple[bool, str]]:
        for name in ("low", "high") if act == CLIP else ():
            v = m.values[name]
            known = v is None or (v.is_const and math.prod(v.shape) == 1)
            yield known, f"bound {name} is computed at run time"

    @made.lower
    def to_kernel(c: Recorder, m: Match) -> None:
        lo, hi = (_bound(m, "low", -math.inf), _bound(m, "high", math.inf))
        pair = [operand(c, m.a, m.y), operand(c, m.b, m.y)]
        combine(c, kernel, F32, m.y, stored(m.y), pair, act, lo, hi)

    @made.cases
    def fused_cases() -> Iterator[Case]:
        if act == RELU:
            yield case(f32(2, 5, 3, 3), f32(1, 5, 1, 1, low=0.5))
        else:
            bounds = np.array(-0.5, np.float32), np.array(0.75, np.float32)
            yield case(f32(2, 5, 3, 3), f32(2, 5, 3, 3, low=0.5), *bounds, const=(2, 3))
            yield case(f32(7), f32(1, low=0.5), bounds[0], const=(2,))


def _bound(m: Match, name: str, default: float) -> float:
    value = m.values.get(name)
    return default if value is None else float(np.asarray(value.data).reshape(()))


def _relu_of(op_type: str) -> Any:
    def pattern(op: Any, a: Any, b: Any) -> Any:
        return op.Relu(getattr(op, op_type)(a, b))

    pattern.__name__ = f"{op_type.lower()}_relu"
    return pattern


def _clip_of(op_type: str) -> Any:
    def pattern(op: Any, a: Any, b: Any, low: Any, high: Any) -> Any:
        return op.Clip(getattr(op, op_type)(a, b), low, high, _optional=2)

    pattern.__name__ = f"{op_type.lower()}_clip"
    return pattern


add = declare_clamped("Add", "add")
sub = declare_clamped("Sub", "sub")
mul = declare_clamped("Mul", "mul")
div = declare_clamped("Div", "div")
for _name, _kernel in (("And", "and"), ("Or", "or"), ("Xor", "xor")):
    declare(f"Bitwise{_name}", f"bit_{_kernel}", INTS, [Elementwise(), Commutative(), Exact()])


@add.cases
@sub.cases
@mul.cases
def pair_cases() -> Iterator[Case]:
    yield case(f32(3, 7), f32(3, 7, seed=1))
    yield case(f32(2, 5, 3, 3), f32(1, 5, 1, 1), const=(1,))
    yield case(f32(2, 5, 3, 3), f32(2, 1, 3, 3))
    yield case(f32(1, 5, 3, 3), f32(5, 1, 1), const=(1,))
    yield case(np.float32(2) * f32(2, 9, 2, 4), f32(1), const=(0,))
    yield case(f32(2, 3, 1, 5), f32(2, 1, 4, 5))
    yield case(f32(2, 1, 3, 1, 2, 1), f32(1, 2, 1, 2, 1, 3))


@div.cases
def div_cases() -> Iterator[Case]:
    yield case(f32(3, 7), f32(3, 7, seed=1))
    yield case(f32(2, 5, 3, 3), f32(1, 5, 1, 1), const=(1,))
    yield case(SPECIAL, np.float32(0) * np.ones(1, np.float32))
    for t in INTS:
        a = np.array([7, 8, 9, 100, 0], t.np_name)
        yield case(a, np.array([2, 3, 9, 7, 5], t.np_name))


@portable.pattern
def mul_add(op: Any, a: Any, b: Any, c: Any) -> Any:
    return op.Add(op.Mul(a, b), c)


@portable.pattern
def mul_add_relu(op: Any, a: Any, b: Any, c: Any) -> Any:
    return op.Relu(op.Add(op.Mul(a, b), c))


for _made, _act in ((mul_add, NO_ACT), (mul_add_relu, RELU)):
    _made.priority = -1  # a convolution would rather take the Add
    _made.layouts(follow)

    @_made.check
    def three_floats(m: Match) -> Iterator[tuple[bool, str]]:
        for v in (m.a, m.b, m.c):
            yield v.dtype is F32, f"dtype {v.dtype} (needs float32)"

    @_made.lower
    def to_muladd(c: Recorder, m: Match, act: int = _act) -> None:
        operands = [operand(c, v, m.y) for v in (m.a, m.b, m.c)]
        combine(c, "muladd", F32, m.y, stored(m.y), operands, act)

    @_made.cases
    def muladd_cases() -> Iterator[Case]:
        yield case(f32(2, 5, 3, 3), f32(5, 1, 1), f32(5, 1, 1, seed=1), const=(1, 2))
        yield case(f32(1, 33, 3), f32(1, 33, 3, seed=1), f32(1, 33, 3, seed=2))
        yield case(f32(3, 7), f32(7), f32(3, 1))


prelu = declare("PRelu", "prelu", FLOATS, [Elementwise(broadcasts={"b": "a"})])


@prelu.check
def slopes_fit(m: Match) -> Iterator[tuple[bool, str]]:
    spread = np.broadcast_shapes(m.a.shape, m.b.shape) if _agree(m.a.shape, m.b.shape) else None
    yield spread == m.a.shape, f"slopes {list(m.b.shape)} do not fit {list(m.a.shape)}"


def _agree(a: Shape, b: Shape) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(p == q or 1 in (p, q) for p, q in pairs)


@prelu.cases
def prelu_cases() -> Iterator[Case]:
    yield case(f32(2, 5, 3, 3), f32(5, 1, 1), const=(1,))
    yield case(f32(2, 7), f32(1))


modulo = op("Mod", "a b", traits=[Elementwise()], fmod=0)
modulo.layouts(follow)
modulo.check(lambda m: same_type(m, NUMBERS))


@modulo.lower
def modulo_to_kernel(c: Recorder, m: Match) -> None:
    pair = [operand(c, m.a, m.y), operand(c, m.b, m.y)]
    combine(c, "fmod" if m.fmod else "mod", m.a.dtype, m.y, stored(m.y), pair)


@modulo.cases
def modulo_cases() -> Iterator[Case]:
    for t in INTS:
        divisor = np.array([3, 2, 7, 5, 9, 11, 13], t.np_name)
        yield case(edges(t)[:, None], divisor)
        if t not in UNSIGNED:
            yield case(edges(t)[:, None], -divisor)
            yield case(edges(t)[:, None], -divisor, fmod=1)
    for t in FLOATS:
        a, b = f32(3, 7).astype(t.numpy), f32(7, low=-0.7, high=0.3, seed=1).astype(t.numpy)
        yield case(a, b, fmod=1)
        yield case(np.array([1e30, -5.5, 3e-40, 7], t.np_name), np.array(3, t.np_name), fmod=1)


shift = op("BitShift", "a b", traits=[Elementwise(), Exact()], direction="")
shift.layouts(follow)


@shift.check
def shift_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield from same_type(m, INTS)
    yield m.direction in ("LEFT", "RIGHT"), f"direction {m.direction!r}"


@shift.lower
def shift_to_kernel(c: Recorder, m: Match) -> None:
    pair = [operand(c, m.a, m.y), operand(c, m.b, m.y)]
    name = "shift_left" if m.direction == "LEFT" else "shift_right"
    combine(c, name, m.a.dtype, m.y, stored(m.y), pair)


@shift.cases
def shift_cases() -> Iterator[Case]:
    for t in INTS:
        by = [0, 1, 3, t.bits - 1, t.bits] + ([] if t in UNSIGNED else [-1])
        for direction in ("LEFT", "RIGHT"):
            yield case(edges(t)[:, None], np.array(by, t.np_name), direction=direction)
