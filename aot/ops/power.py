# SPDX-License-Identifier: Apache-2.0
"""Pow: frequent exponents have kernels of their own, mixed types are computed in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import F64, DType
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import array, shape_of
from aot.ir.operators import Elementwise, Exact
from aot.normalise.arithmetic import plainer
from aot.normalise.recognise_activations import multiplies, scalar
from aot.ops.binary import combine, combine_pair
from aot.ops.broadcast import Operand, operand, pack, stored
from aot.ops.kernels import NUMBERS
from aot.ops.registry import op
from aot.ops.unary import SPECIAL, emit
from aot.shapes.interval_analysis import (
    Inputs as Bounded,
    Interval,
    bounds,
    corners,
    given,
    in_steps,
    wrapping,
)
from aot.vendor import Handle, Match, Recorder, ValueRef
from aot.vendor.cases import Case, case, f32, ints
from aot.vendor.layouts import follow

power = op(
    "Pow", "a b", traits=[Elementwise(), Exact()], types=NUMBERS, typed="a b", layouts=follow
)
#: Exponents with a kernel of their own.
POWERS = {2.0: "square", 3.0: "cube", 0.5: "pow_half", -1.0: "reciprocal"}


@bounds("Pow")
@wrapping
@in_steps
def power_bounds(node: ir.Node, inputs: Bounded) -> Interval | None:
    """The interval of positive numbers to a power: the extremes lie in the corners; None
    otherwise.
    """
    found = given(inputs)
    if found is None or not (found[0].low > 0).all():
        return None
    return corners(np.power)(node, inputs)


@plainer("Pow")
def squared(edit: Editor, node: ir.Node) -> ir.Value | None:
    """Replace x to the power of 2 by x * x; returned is the new value, None for other exponents."""
    exponent, x = array(node.inputs[1]), node.inputs[0]
    if exponent is None or exponent.size != 1 or x is None or x.dtype is None:
        return None
    if shape_of(node.outputs[0]) != shape_of(x) or float(exponent.ravel()[0]) != 2.0:
        return None
    return edit.node("Mul", [x, x], before=node, shape=shape_of(x))


@multiplies("Pow")
def repeated(node: ir.Node) -> tuple[ir.Value, ...]:
    """The factors of a power: x twice or three times for exponents 2 and 3; () for others."""
    exponent, x = scalar(node.inputs[1]), node.inputs[0]
    return (x,) * int(exponent) if x is not None and exponent in (2.0, 3.0) else ()


@power.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that constant exponents are numbers that the type of the base holds."""
    if m.b.is_const and m.a.dtype in NUMBERS:
        data = np.asarray(m.b.data)
        same = np.array_equal(data.astype(m.a.dtype.numpy).astype(data.dtype), data)
        yield same, f"exponents that {m.a.dtype} cannot hold"


@power.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record a power: kernels of their own for 2, 3, 0.5 and -1; different types in float64."""
    base = operand(c, m.a, m.y)
    if m.b.is_const:
        data = np.asarray(m.b.data)
        single = float(data.reshape(-1)[0]) if data.size == 1 else 0.0
        # These kernels do not broadcast.
        own = POWERS.get(single) if m.a.shape == m.y.shape else None
        if own and (m.a.dtype.is_float or own == "square"):
            emit(c, Match((), {"x": m.a, "y": m.y}, {}, {}, ("y",)), own)
            return
        pair = [base, pack(c, data.astype(m.a.dtype.numpy), m.y)]
        combine(c, "pow", m.a.dtype, m.y, stored(m.y), pair)
    elif m.a.dtype is m.b.dtype:
        combine_pair(c, m, "pow")
    else:
        # float64 holds both types, but for integers beyond 2^53.
        pair = [widen(c, base, m.a.dtype), widen(c, operand(c, m.b, m.y), m.b.dtype)]
        wide = c.temp(stored(m.y), F64)
        combine(c, "pow", F64, wide, stored(m.y), pair)
        convert(c, m.y, m.y.dtype, wide, F64, math.prod(stored(m.y)))


def widen(c: Recorder, given: Operand, dtype: DType) -> Operand:
    """The operand as a float64 temporary, to which a conversion is recorded; itself if it is
    float64.

    float64 holds every 53-bit integer and so every sensible exponent.
    """
    if dtype is F64:
        return given
    wide = c.temp(given[1], F64)
    convert(c, wide, F64, given[0], dtype, math.prod(given[1]))
    return wide, given[1]


def convert(
    c: Recorder, y: ValueRef | Handle, to: DType, x: ValueRef | Handle, of: DType, count: int
) -> None:
    """Record the conversion of `count` elements from type `of` to type `to`."""
    kernel = f"aot_cast_{of.short}_{to.short}"
    if of is to:
        c.copy(y, x, count * to.nbytes)
    else:
        c.call(kernel, y, x, c.params(n=count), header="aot_cast.h")


@power.cases
def cases() -> Iterator[Case]:
    """Pow(X, Y): special floats by special floats, exponents of other types."""
    yield case(f32(3, 7, low=0.1), f32(3, 7, seed=1))
    yield case(SPECIAL[:, None], SPECIAL[None, :])
    for exponent in (2, 3, 0.5, -1, 1.7):
        yield case(f32(2, 5, 3, low=0.1), np.array(exponent, np.float32), const=(1,))
    yield case(f32(2, 5, 3), np.array(2, np.int64), const=(1,))
    yield case(f32(2, 5, 3).astype(np.float64), np.array(2.0), const=(1,))
    yield case(np.array([1, 2, 3, -4], np.int32), np.array([3, 30, 0, 3], np.int32))
    yield case(np.array([1, 2, 3, -4], np.int64), np.array(2, np.int64), const=(1,))
    yield case(f32(2, 5, 3, low=0.1), ints(3, low=-3, high=4))
    yield case(ints(2, 5, low=1, dtype="int32"), f32(5, low=0.1))
