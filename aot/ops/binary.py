# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of two or more float32 tensors with broadcasting, with a fused clamp."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aot.dtypes import F32
from aot.lower_context import Handle, LowerContext
from aot.ops.broadcast import Shape, Space, collapse, operand, stored
from aot.ops.layouts import follow
from aot.ops.registry import Case, case, f32, op, portable
from aot.ops.unary import SPECIAL, bound
from aot.partition.match import Match, ValueRef
from aot.vendor.backend import Pattern

Operand = tuple[ValueRef | Handle, Shape]
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


def elementwise(
    c: LowerContext,
    kernel: str,
    y: ValueRef | Handle,
    shape: Shape,
    operands: Sequence[Operand],
    act: int = NO_ACT,
    lo: float = 0.0,
    hi: float = 0.0,
) -> None:
    """Record a float32 call of two or three operands; `shape` is the result's stored shape."""
    space = collapse(shape, [s for _, s in operands])
    names = "abc"[: len(operands)]
    bounds = {"lo": float(np.float32(lo)), "hi": float(np.float32(hi))}
    c.call(
        kernel,
        y,
        *(what for what, _ in operands),
        c.params(**space_fields(space, names), **bounds),
        instance=instances(space, names) | {"ACT": act},
        header=HEADER,
        inplace=reusable(space, y, operands),
    )


def float_pair(m: Match) -> Iterator[tuple[bool, str]]:
    """Check: both operands are float32."""
    for v in (m.a, m.b):
        yield v.dtype is F32, f"dtype {v.dtype} (needs float32)"


def clamp_of(m: Match) -> tuple[int, float, float]:
    """(ACT, lo, hi) of the Clip whose bounds are m.low and m.high."""
    return CLIP, bound(m.low, -math.inf), bound(m.high, math.inf)


def declare(op_type: str, kernel: str) -> Pattern:
    """Operator, operator + Relu and operator + Clip on float32."""
    plain = op(op_type, "a b")
    with_relu = portable.pattern(_relu_of(op_type))
    with_clip = portable.pattern(_clip_of(op_type))
    for made, act in ((plain, NO_ACT), (with_relu, RELU), (with_clip, CLIP)):
        made.layouts(follow)
        made.check(float_pair)
        _lower(made, kernel, act)

    @with_clip.check
    def constant_bounds(m: Match) -> Iterator[tuple[bool, str]]:
        for name, value in (("min", m.low), ("max", m.high)):
            yield value is None or value.is_const, f"{name} is computed at run time"

    @with_relu.cases
    @with_clip.cases
    def fused_cases() -> Iterator[Case]:
        yield case(f32(2, 5, 3, 3), f32(1, 5, 1, 1, low=0.5))

    @with_clip.cases
    def clip_cases() -> Iterator[Case]:
        bounds = np.array(-0.5, np.float32), np.array(0.75, np.float32)
        yield case(f32(2, 5, 3, 3), f32(2, 5, 3, 3, low=0.5), *bounds, const=(2, 3))

    return plain


def _lower(made: Pattern, kernel: str, act: int) -> None:
    @made.lower
    def to_kernel(c: LowerContext, m: Match) -> None:
        bounds = clamp_of(m) if act == CLIP else (act, 0.0, 0.0)
        pair = [operand(c, m.a, m.y), operand(c, m.b, m.y)]
        elementwise(c, kernel, m.y, stored(m.y), pair, *bounds)


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


add = declare("Add", "aot_add_f32")
sub = declare("Sub", "aot_sub_f32")
mul = declare("Mul", "aot_mul_f32")
div = declare("Div", "aot_div_f32")


@add.cases
@sub.cases
@mul.cases
def pair_cases() -> Iterator[Case]:
    yield case(f32(3, 7), f32(3, 7, seed=1))
    yield case(f32(2, 5, 3, 3), f32(1, 5, 1, 1), const=(1,))
    yield case(f32(1, 5, 3, 3), f32(5, 1, 1), const=(1,))
    yield case(np.float32(2) * f32(2, 9, 2, 4), f32(1), const=(0,))
    yield case(f32(2, 3, 1, 5), f32(2, 1, 4, 5))
    yield case(f32(2, 1, 3, 1, 2, 1), f32(1, 2, 1, 2, 1, 3))


@div.cases
def div_cases() -> Iterator[Case]:
    yield case(f32(3, 7), f32(3, 7, seed=1))
    yield case(f32(2, 5, 3, 3), f32(1, 5, 1, 1), const=(1,))
    yield case(SPECIAL, np.float32(0) * np.ones(1, np.float32))


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
    def to_muladd(c: LowerContext, m: Match, act: int = _act) -> None:
        operands = [operand(c, v, m.y) for v in (m.a, m.b, m.c)]
        elementwise(c, "aot_muladd_f32", m.y, stored(m.y), operands, act)

    @_made.cases
    def muladd_cases() -> Iterator[Case]:
        yield case(f32(2, 5, 3, 3), f32(5, 1, 1), f32(5, 1, 1, seed=1), const=(1, 2))
        yield case(f32(1, 33, 3), f32(1, 33, 3, seed=1), f32(1, 33, 3, seed=2))
        yield case(f32(3, 7), f32(7), f32(3, 1))


prelu = op("PRelu", "a b")
prelu.layouts(follow)
prelu.check(float_pair)
_lower(prelu, "aot_prelu_f32", NO_ACT)


@prelu.cases
def prelu_cases() -> Iterator[Case]:
    yield case(f32(2, 5, 3, 3), f32(5, 1, 1), const=(1,))
    yield case(f32(2, 7), f32(1))


def chain(c: LowerContext, m: Match, kernel: str, scale: float | None = None) -> None:
    """y = x0 ∘ x1 ∘ …, each step on what the steps before made, then times `scale`."""
    shape = stored(m.y)
    so_far, so_shape = operand(c, m.xs[0], m.y)
    for i, x in enumerate(m.xs[1:]):
        what, own = operand(c, x, m.y)
        both = np.broadcast_shapes(so_shape, own)
        last = i == len(m.xs) - 2 and scale is None
        result = m.y if last else c.temp(both, m.y.dtype)
        space_shape = shape if last else both
        elementwise(c, kernel, result, space_shape, [(so_far, so_shape), (what, own)])
        so_far, so_shape = result, space_shape
    if scale is not None:
        n = math.prod(shape)
        params = c.params(n=n, a=float(np.float32(scale)), b=0.0, c=0.0)
        c.call(
            "aot_affine_f32",
            m.y,
            so_far,
            params,
            header="aot_unary_f32.h",
            inplace=[(m.y, so_far)],
        )


for _name, _kernel in (("Min", "min"), ("Max", "max"), ("Sum", "add"), ("Mean", "add")):
    _made = op(_name, "xs*")
    _made.layouts(follow)

    @_made.check
    def all_float(m: Match) -> Iterator[tuple[bool, str]]:
        for x in m.xs:
            yield x.dtype is F32, f"dtype {x.dtype} (needs float32)"

    @_made.lower
    def to_chain(
        c: LowerContext, m: Match, name: str = _name, kernel: str = f"aot_{_kernel}_f32"
    ) -> None:
        if len(m.xs) == 1:
            c.copy(m.y, m.xs[0], math.prod(stored(m.y)) * m.y.dtype.nbytes)
        else:
            chain(c, m, kernel, 1 / len(m.xs) if name == "Mean" else None)

    @_made.cases
    def chain_cases(name: str = _name) -> Iterator[Case]:
        yield case(f32(2, 5, 3), f32(2, 5, 3, seed=1), f32(2, 5, 3, seed=2))
        yield case(f32(2, 9, 3), f32(1), const=(1,))
        yield case(f32(2, 3))
        yield case(SPECIAL, np.full(1, np.nan, np.float32))
        if name != "Mean":  # onnx.reference sums a mean in place, which does not broadcast
            yield case(f32(2, 1, 3), f32(1, 5, 1), f32(2, 1, 1))
            yield case(np.full(1, 0.5, np.float32), SPECIAL)
