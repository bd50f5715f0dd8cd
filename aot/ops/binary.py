# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of two or more tensors with broadcasting; float32 with a fused clamp."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, array, shape_of
from aot.ir.operators import Commutative, Elementwise, Exact, Given, Trait
from aot.ir.value_traits import Curve
from aot.normalise.affine import scales
from aot.normalise.arithmetic import plainer
from aot.normalise.identities import identity, neutral
from aot.normalise.recognise_activations import multiplies
from aot.ops.broadcast import Operand, Shape, Space, collapse, combined_by_rows, operand, stored
from aot.ops.kernels import FLOATS, INTS, NUMBERS, PAIRS, header_of, kernel_of, listing
from aot.ops.registry import op, portable
from aot.ops.unary import SPECIAL, edges, negated
from aot.shapes import symbolic
from aot.shapes.evaluate import elementwise, evaluates
from aot.shapes.interval_analysis import (
    Inputs as Bounded,
    Interval,
    bounds,
    corners,
    given,
    wrapping,
)
from aot.shapes.operands import operand_shape, operands_fit, repeats
from aot.shapes.partial_values import PartialValues
from aot.shapes.reference import Unknown
from aot.shapes.symbolic import Poly, Terms, combined, polynomials
from aot.vendor import (
    F32,
    OP,
    Case,
    DType,
    Handle,
    Match,
    Pattern,
    Recorder,
    ValueRef,
    case,
    f32,
    wildcard,
)
from aot.vendor.layouts import follow

NO_ACT, RELU, CLIP = 0, 1, 2
HEADER = "aot_binary_f32.h"


def space_fields(space: Space, names: str) -> dict[str, Shape]:
    """Fields of the broadcast parameter structs: sizes, and strides by operand (`names`: "ab" or
    "abc").
    """
    return {"dims": space.dims} | {f"s{n}": space.strides[k] for k, n in enumerate(names)}


def instances(space: Space, names: str) -> dict[str, int]:
    """The strides along the innermost axis (0 or 1) as instance constants IA, IB … by operand."""
    return {f"I{n.upper()}": space.inner(k) for k, n in enumerate(names)}


def reusable(space: Space, y: Any, operands: Sequence[Operand]) -> list[tuple[Any, Any]]:
    """(result, operand) pairs that may share memory: every operand that is not broadcast."""
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
    # The text of C then gives the very float that the kernel compares with.
    bounds = {"lo": float(np.float32(lo)), "hi": float(np.float32(hi))}
    header = header_of(name, dtype, HEADER, c.accuracy)
    kernel, number = kernel_of(name, dtype, PAIRS)
    c.call(
        kernel,
        y,
        *(what for what, _ in operands),
        c.params(**space_fields(space, names), **bounds),
        instance=instances(space, names) | ({"ACT": act} if header == HEADER else number),
        header=header,
        inplace=reusable(space, y, operands) if wide else (),
        rowwise=combined_by_rows(y, space, operands),
        splits=space.splits(
            y.dtype.nbytes if isinstance(y, ValueRef) else dtype.nbytes,
            *[dtype.nbytes] * len(operands),
        ),
    )


def combine_pair(c: Recorder, m: Match, name: str, *clamp: float, wide: bool = True) -> None:
    """Record aot_<name>_<dtype> of the operands a and b of a match, broadcast to y.

    `clamp` is (activation, low, high) or nothing, `wide` says that y's elements are no smaller
    than the operands', so that it may take the place of one.
    """
    pair = [operand(c, m.a, m.y), operand(c, m.b, m.y)]
    act, low, high = (*clamp, 0, 0.0, 0.0)[:3]
    combine(c, name, m.a.dtype, m.y, stored(m.y), pair, int(act), low, high, wide)


def same_type(m: Match, types: tuple[DType, ...]) -> Iterator[tuple[bool, str]]:
    """Checks that operands a and b have one type, which is among `types`."""
    yield m.a.dtype in types, f"dtype {m.a.dtype} (needs {listing(types)})"
    yield m.b.dtype is m.a.dtype, f"dtypes {m.a.dtype} and {m.b.dtype} (need to be equal)"


def declare(
    op_type: str,
    kernel: str,
    types: tuple[DType, ...] = NUMBERS,
    traits: Sequence[Trait] = (Elementwise(),),
    value: Callable[[Any, Any], Any] | None = None,
    rules: Iterable[Given] = (),
) -> Pattern:
    """Declare the operator `op_type` of two broadcast operands of one type, computed by
    aot_<kernel>.

    `types` are the types it is for, `value` computes it with NumPy for constants (None: not at
    all).
    """
    made = op(
        op_type,
        "a b",
        traits=traits,
        rules=[*rules, *([evaluates.by(elementwise(value))] if value else [])],
        check=partial(same_type, types=types),
        lower=lambda c, m: combine_pair(c, m, kernel),
        layouts=follow,
    )

    @made.cases
    def type_cases() -> Iterator[Case]:
        """Operands of each type but the first, which the callers' own cases are of.

        Integers are the extreme values of their type, unless the operator has no meaning
        for some pairs.
        """
        for t in types[1:]:
            if t.is_float:
                yield case(f32(3, 7).astype(t.numpy), f32(7, seed=1, low=0.5).astype(t.numpy))
            elif op_type not in ("Div", "Mod", "Pow", "PRelu"):
                yield case(edges(t), edges(t)[::-1].copy())

    return made


_A, _B, _C = map(wildcard, "abc")


def declare_clamped(
    op_type: str, kernel: str, value: Callable[[Any, Any], Any], *rules: Given
) -> Pattern:
    """Declare the operator, and its float32 fusions with a Relu or Clip behind it."""
    pair = getattr(OP, op_type)(_A, _B)
    bounded = OP.Clip(pair, wildcard("low"), wildcard("high"), _optional=2)
    for name, graph, act in (("relu", OP.Relu(pair), RELU), ("clip", bounded, CLIP)):
        portable.declare(
            f"{op_type.lower()}_{name}",
            graph,
            partial(same_type, types=(F32,)),
            *([constant_bounds] if act == CLIP else []),
            lower=partial(to_clamped, kernel=kernel, act=act),
            layouts=follow,
            cases=partial(clamped_cases, act),
        )
    more: list[Trait] = [Commutative()] if op_type in ("Add", "Mul") else []
    more += [] if op_type == "Div" else [Curve()]
    return declare(op_type, kernel, traits=[Elementwise(), *more], value=value, rules=rules)


def constant_bounds(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the bounds of a Clip are constants of one element."""
    # Bounds go into the parameters, which are constants of the program.
    for name in ("low", "high"):
        v = m.values[name]
        known = v is None or (v.is_const and math.prod(v.shape) == 1)
        yield known, f"bound {name} is computed at run time"


def to_clamped(c: Recorder, m: Match, kernel: str, act: int) -> None:
    """Record the kernel with its activation and bounds; an absent bound is infinite."""
    combine_pair(c, m, kernel, act, _bound(m, "low", -math.inf), _bound(m, "high", math.inf))


def clamped_cases(act: int) -> Iterator[Case]:
    """The operator, then Relu or Clip with constant bounds; b stays away from 0."""
    if act == RELU:
        yield case(f32(2, 5, 3, 3), f32(1, 5, 1, 1, low=0.5))
    else:
        bounds = np.array(-0.5, np.float32), np.array(0.75, np.float32)
        yield case(f32(2, 5, 3, 3), f32(2, 5, 3, 3, low=0.5), *bounds, const=(2, 3))
        yield case(f32(7), f32(1, low=0.5), bounds[0], const=(2,))


def _bound(m: Match, name: str, default: float) -> float:
    """The constant bound `name` of a match as a number; `default` where it is absent."""
    value = m.values.get(name)
    return default if value is None else float(np.asarray(value.data).reshape(()))


def quotient(a: Array, b: Array) -> Array:
    """a / b; integers round towards zero, INT_MIN / -1 wraps. Raises Unknown for x / 0."""
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    if np.any(b == 0):
        raise Unknown
    found = a // b
    return np.asarray(found + ((a % b != 0) & ((a < 0) != (b < 0))).astype(a.dtype))


add = declare_clamped(
    "Add",
    "add",
    np.add,
    bounds.by(wrapping(corners(np.add))),
    polynomials.by(combined(symbolic.add)),
)
sub = declare_clamped(
    "Sub",
    "sub",
    np.subtract,
    identity.by(neutral(0, negative=False)),
    polynomials.by(combined(lambda a, b: symbolic.add(a, b, -1))),
)
mul = declare_clamped(
    "Mul",
    "mul",
    np.multiply,
    identity.by(neutral(1)),
    bounds.by(wrapping(corners(np.multiply))),
    polynomials.by(combined(symbolic.multiply)),
)
div = declare_clamped("Div", "div", quotient, identity.by(neutral(1)))


def float_operand(node: ir.Node, limit: int = 1 << 16) -> Array | None:
    """Input 1 of `node` as a constant float array; None if it is computed or larger than `limit`
    elements.

    None also for types that NumPy does not compute with as floats.
    """
    data = array(node.inputs[1])
    if data is None or data.dtype.kind != "f" or data.size > limit:
        return None
    return data


@plainer("Sub")
def added(edit: Editor, node: ir.Node) -> ir.Value | None:
    """Replace x - c by x + -c for a constant c: returned is the new value, None where c is no
    constant.
    """
    data, x = float_operand(node), node.inputs[0]
    if data is None or x is None:
        return None
    negative = edit.const(-data, f"{node.name}_negated")
    return edit.node("Add", [x, negative], before=node, shape=shape_of(node.outputs[0]))


@plainer("Div")
def multiplied(edit: Editor, node: ir.Node) -> ir.Value | None:
    """Replace x / c by x * (1 / c) for a constant c; returned is the new value, or None.

    Only for powers of two whose reciprocals are normal numbers: then the product has the same bits.
    """
    data, x = float_operand(node), node.inputs[0]
    if data is None or x is None or not np.all(np.isfinite(data)) or np.any(data == 0):
        return None
    mantissa, _ = np.frexp(data)
    with np.errstate(all="ignore"):
        inverse = (1 / data).astype(data.dtype)
    if np.any(np.abs(mantissa) != 0.5) or np.any(np.abs(inverse) < np.finfo(data.dtype).tiny):
        return None
    if not np.all(np.isfinite(inverse)):
        return None
    factor = edit.const(inverse, f"{node.name}_inverse")
    return edit.node("Mul", [x, factor], before=node, shape=shape_of(node.outputs[0]))


@scales("Add")
def add_scales(place: int, other: Array) -> tuple[Array, Array]:
    """x + c as (factor, addend) of x: 1 and c."""
    return np.ones_like(other), other


@scales("Sub")
def sub_scales(place: int, other: Array) -> tuple[Array, Array]:
    """x - c or c - x (the variable is input `place`) as (factor, addend) of x."""
    one = np.ones_like(other)
    return (-one, other) if place else (one, -other)


@scales("Mul")
def mul_scales(place: int, other: Array) -> tuple[Array, Array]:
    """x * c as (factor, addend) of x: c and 0."""
    return other, np.zeros_like(other)


@multiplies("Mul")
def mul_factors(node: ir.Node) -> tuple[ir.Value, ...]:
    """The values whose product the node is."""
    return tuple(v for v in node.inputs if v is not None)


@scales("Div")
def div_scales(place: int, other: Array) -> tuple[Array, Array] | None:
    """x / c as (factor, addend) of x; None for c / x and for a c with a zero."""
    return None if place or not np.all(other) else (1 / other, np.zeros_like(other))


@bounds("Sub")
@wrapping
def sub_bounds(node: ir.Node, inputs: Bounded) -> Interval | None:
    """The interval of a difference: that of a plus the negated interval of b; None if one is
    unknown.
    """
    return corners(np.add)(node, [inputs[0], negated(node, inputs[1:])])


@bounds("Div")
@wrapping
def div_bounds(node: ir.Node, inputs: Bounded) -> Interval | None:
    """The interval of a quotient whose divisor is positive; None otherwise or if it is unknown.

    Integers round towards zero.
    """
    found = given(inputs)
    if found is None or not (found[1].low > 0).all():
        return None
    a, b = found
    results = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
    if any(np.isnan(r).any() for r in results):
        return None
    low, high = np.minimum.reduce(results), np.maximum.reduce(results)
    source = node.inputs[0]
    if source is not None and source.dtype is not None and source.dtype.numpy().kind in "iu":
        low, high = np.trunc(low), np.trunc(high)
    return Interval(low, high)


@polynomials("Div")
def div_polynomials(terms: Terms, node: ir.Node) -> list[Poly] | None:
    """The quotients as polynomials of sizes, per element; None if an operand is none.

    A constant positive divisor divides integers that are not negative; other quotients become
    unknowns of their own, the same one for the same operands.
    """
    source = node.inputs[0]
    shape = shape_of(node.outputs[0])
    parts, limits = terms.operands(node), terms.limits(source, shape)
    if parts is None or source is None or source.dtype is None:
        return None
    whole = source.dtype.numpy().kind in "iu"
    found = []
    for i, (a, b) in enumerate(zip(*parts, strict=True)):
        by = symbolic.constant(b)
        # n / n is 1 only where n cannot be 0.
        if a and a == b and limits is not None and limits[0][i] > 0:
            found.append(symbolic.number(1))
        elif by is None or by <= 0:
            found.append(terms.atom("quotient", a, b, whole))
        elif all(f % by == 0 for _, f in a):
            found.append(tuple((m, f // by) for m, f in a))
        # ONNX rounds negative quotients towards 0, which no polynomial does.
        elif not whole or limits is None or limits[0][i] < 0:
            found.append(terms.atom("quotient", a, b, whole))
        else:
            found.append(terms.divided(a, by))
    return found


for _name, _kernel in (("And", "and"), ("Or", "or"), ("Xor", "xor")):
    declare(f"Bitwise{_name}", f"bit_{_kernel}", INTS, [Elementwise(), Commutative(), Exact()])


@add.cases
@sub.cases
@mul.cases
def pair_cases() -> Iterator[Case]:
    """Two operands, equal or broadcast, constants among them."""
    yield case(f32(3, 7), f32(3, 7, seed=1))
    yield case(f32(2, 5, 3, 3), f32(1, 5, 1, 1), const=(1,))
    yield case(f32(2, 5, 3, 3), f32(2, 1, 3, 3))
    yield case(f32(1, 5, 3, 3), f32(5, 1, 1), const=(1,))
    yield case(np.float32(2) * f32(2, 9, 2, 4), f32(1), const=(0,))
    yield case(f32(2, 3, 1, 5), f32(2, 1, 4, 5))
    yield case(f32(2, 1, 3, 1, 2, 1), f32(1, 2, 1, 2, 1, 3))


@div.cases
def div_cases() -> Iterator[Case]:
    """Two operands, equal or broadcast; special floats by 0, and integers."""
    yield case(f32(3, 7), f32(3, 7, seed=1))
    yield case(f32(2, 5, 3, 3), f32(1, 5, 1, 1), const=(1,))
    yield case(SPECIAL, np.float32(0) * np.ones(1, np.float32))
    for t in INTS:
        a = np.array([7, 8, 9, 100, 0], t.np_name)
        yield case(a, np.array([2, 3, 9, 7, 5], t.np_name))


def three_floats(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that all three operands are float32."""
    for v in (m.a, m.b, m.c):
        yield v.dtype is F32, f"dtype {v.dtype} (needs float32)"


def to_muladd(c: Recorder, m: Match, act: int) -> None:
    """Record one call of aot_muladd_f32, with a Relu or without (`act`)."""
    operands = [operand(c, v, m.y) for v in (m.a, m.b, m.c)]
    combine(c, "muladd", F32, m.y, stored(m.y), operands, act)


def muladd_cases() -> Iterator[Case]:
    """a * b + c: channels broadcast, all alike."""
    yield case(f32(2, 5, 3, 3), f32(5, 1, 1), f32(5, 1, 1, seed=1), const=(1, 2))
    yield case(f32(1, 33, 3), f32(1, 33, 3, seed=1), f32(1, 33, 3, seed=2))
    yield case(f32(3, 7), f32(7), f32(3, 1))


_SUM = OP.Add(OP.Mul(_A, _B), _C)
for _name, _graph, _act in (("mul_add", _SUM, NO_ACT), ("mul_add_relu", OP.Relu(_SUM), RELU)):
    portable.declare(
        _name,
        _graph,
        three_floats,
        lower=partial(to_muladd, act=_act),
        layouts=follow,
        cases=muladd_cases,
        priority=-1,  # a convolution would rather take the Add
    )


def sloped(x: Array, slope: Array) -> Array:
    """PRelu with NumPy: x, or x * slope where x is negative.

    Zero is not multiplied, since an infinite slope would make it NaN.
    """
    return np.where(x < 0, x * slope, x)


prelu = declare("PRelu", "prelu", FLOATS, [Elementwise(broadcasts={"b": "a"}), Curve()], sloped)


@prelu.check
def slopes_fit(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the slope broadcasts to x, which keeps its shape."""
    spread = (
        np.broadcast_shapes(m.a.shape, m.b.shape) if _broadcasts(m.a.shape, m.b.shape) else None
    )
    yield spread == m.a.shape, f"slopes {list(m.b.shape)} do not fit {list(m.a.shape)}"


def _broadcasts(a: Shape, b: Shape) -> bool:
    """Whether two shapes broadcast to each other."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(p == q or 1 in (p, q) for p, q in pairs)


@prelu.cases
def prelu_cases() -> Iterator[Case]:
    """PRelu(X, slope): a slope for each channel, one slope for all."""
    yield case(f32(2, 5, 3, 3), f32(5, 1, 1), const=(1,))
    yield case(f32(2, 7), f32(1))


@operands_fit("PRelu")
def slope_repeats(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why the slope of a PRelu does not repeat to the input's shape; "" if it does."""
    return repeats("the slope", operand_shape(node, 1), operand_shape(node, 0) or ())
