# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of one tensor: float32 by vectors, other types by scalar loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import F64
from aot.ir.graph_nodes import Array, attribute
from aot.ir.operators import Elementwise, Exact, Given, OneOf, Trait
from aot.ir.splits import Split
from aot.ir.value_traits import Clamp, Curve
from aot.normalise.affine import scales
from aot.normalise.halves import jumps
from aot.ops.broadcast import stored
from aot.ops.kernels import (
    FLOATS,
    INTS,
    NUMBERS,
    RARE,
    SCALAR,
    SIGNED,
    SINGLES,
    header_of,
    kernel_of,
)
from aot.ops.registry import op
from aot.shapes.evaluate import elementwise, evaluates, need
from aot.shapes.interval_analysis import (
    Inputs as Bounded,
    Interval,
    approximated,
    bounds,
    rising,
    wrapping,
)
from aot.shapes.reference import Inputs
from aot.shapes.symbolic import Poly, Terms, add, polynomials, rounded
from aot.vendor import F32, Case, DType, Match, Pattern, Recorder, case, f32
from aot.vendor.by_rows import by_elements
from aot.vendor.layouts import follow

Constants = Callable[[Match], tuple[float, float, float]]
HEADER = "aot_unary_f32.h"


def elements(m: Match) -> int:
    """How many elements the result has in memory, pad lanes included."""
    return math.prod(stored(m.y))


def emit(c: Recorder, m: Match, kernel: str, a: float = 0, b: float = 0, d: float = 0) -> None:
    """Record aot_<kernel> for the type of m.x; a, b, d are its constants (of integers: bounds)."""
    dtype: DType = m.x.dtype
    header = header_of(kernel, dtype, HEADER, c.accuracy)
    params = c.params(n=elements(m))
    if header == SCALAR:
        params = c.params(n=elements(m), lo=_signed(a), hi=_signed(b))
    elif header != RARE:
        kind = np.float64 if dtype is F64 else np.float32
        params = c.params(n=elements(m), a=float(kind(a)), b=float(kind(b)), c=float(kind(d)))
    # Elements of one size are read before their place is written; others would be overwritten.
    same = m.x.dtype.nbytes == m.y.dtype.nbytes
    kernel, number = kernel_of(kernel, dtype, SINGLES)
    c.call(
        kernel,
        m.y,
        m.x,
        params,
        instance=number,
        header=header,
        inplace=[(m.y, m.x)] if same else (),
        rowwise=by_elements(m.y, (0, 1), "n"),
        splits=Split.elements(elements(m), m.y.dtype.nbytes, m.x.dtype.nbytes),
    )


def _signed(value: float) -> int:
    """The signed 64-bit number with the bits of an integer bound."""
    number = int(value)
    return number - 2**64 if number >= 2**63 else number


def declare(
    op_type: str,
    kernel: str,
    constants: Constants | None = None,
    types: tuple[DType, ...] = FLOATS,
    samples: Mapping[str, Any] | None = None,
    low: float = -4.0,
    high: float = 4.0,
    exact: Exact | None = None,
    traits: Sequence[Trait] = (),
    value: Callable[[Any], Any] | None = None,
    rules: Iterable[Given] = (),
    **attrs: Any,
) -> Pattern:
    """An operator computed by one kernel, at compile time by the NumPy function `value`.

    `samples` are attributes for its test.
    """
    made = op(
        op_type,
        "x",
        traits=[Elementwise(), *([exact] if exact else []), *traits],
        types=types,
        rules=[*rules, *([evaluates.by(elementwise(value))] if value else [])],
        lower=lambda c, m: emit(c, m, kernel, *(constants(m) if constants else ())),
        layouts=follow,
        **attrs,
    )

    @made.cases
    def cases() -> Iterator[Case]:
        """Floats over the usual range of the operator, integers at the ends of their types."""
        for t in types:
            if t.is_float:
                x = f32(1, 5, 3, 3, low=low, high=high).astype(t.numpy)
                yield case(x, **(samples or {}))
            else:
                yield case(edges(t), **(samples or {}))
        if F32 in types:
            yield case(f32(2, 3, 7, low=low, high=high), **(samples or {}))

    return made


def edges(dtype: DType) -> np.ndarray[Any, Any]:
    """Small and extreme integers of a type, 19 of them."""
    info = np.iinfo(dtype.np_name)
    values = [0, 1, 2, 3, 5, 7, info.min, info.min + 1, info.max, info.max - 1, 100]
    values += [-v if info.min else v for v in (1, 2, 3, 5, 7, 11, 13, 100)]
    return np.array(values, dtype.np_name)


SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.5, np.inf, -np.inf, np.nan, 1e-40, 90.0, -110.0], np.float32
)


def negated(node: ir.Node, inputs: Bounded) -> Interval | None:
    """The interval of -x; None if that of x is unknown."""
    found = inputs[0]
    return None if found is None else Interval(-found.high, -found.low)


def magnitude(node: ir.Node, inputs: Bounded) -> Interval | None:
    """The interval of |x|; None if that of x is unknown."""
    found = inputs[0]
    if found is None:
        return None
    largest = np.maximum(np.abs(found.low), np.abs(found.high))
    return Interval(np.maximum(np.maximum(found.low, -found.high), 0.0), largest)


@bounds("Reciprocal")
def inverse(node: ir.Node, inputs: Bounded) -> Interval | None:
    """The interval of 1 / x for positive x; None otherwise."""
    found = inputs[0]
    if found is None or not (found.low > 0).all():
        return None
    return Interval(1 / found.high, 1 / found.low)


def minus(terms: Terms, node: ir.Node) -> list[Poly] | None:
    """The polynomials of -x by element; None if x has none."""
    parts = terms.operands(node)
    return None if parts is None else [add((), a, -1) for a in parts[0]]


def erf(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The error function in float64, all digits; the reference computes it in float32."""
    found: np.ndarray[Any, Any] = np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64))
    return found


#: Of operators that onnx.reference computes in one step, and in several.
STEP, STEPS = Exact(), Exact(rounds_once=True)

CURVE = (Curve(),)

declare(
    "Abs", "abs", types=NUMBERS, value=np.abs, traits=CURVE, rules=[bounds.by(wrapping(magnitude))]
)
declare("Sign", "sign", types=NUMBERS, exact=STEP, rules=[bounds.by(rising(np.sign))])
declare(
    "Neg",
    "neg",
    types=FLOATS + SIGNED,
    value=np.negative,
    traits=CURVE,
    rules=[
        bounds.by(wrapping(negated)),
        scales.by(lambda place, other: (np.zeros_like(other) - 1, np.zeros_like(other))),
        polynomials.by(minus),
    ],
)
declare("BitwiseNot", "bit_not", types=INTS, exact=STEP)
declare(
    "Sigmoid",
    "sigmoid",
    exact=STEPS,
    traits=CURVE,
    rules=[bounds.by(approximated(lambda x: 1 / (1 + np.exp(-x))))],
)
declare("Tanh", "tanh", exact=STEP, traits=CURVE, rules=[bounds.by(approximated(np.tanh))])
declare("Erf", "erf", value=erf, traits=CURVE)
declare("Floor", "floor", value=np.floor, rules=[bounds.by(rising(np.floor))])
declare("Ceil", "ceil", value=np.ceil, rules=[bounds.by(rising(np.ceil))])
bounds("Log")(approximated(np.log, 0.0))
polynomials("Floor Ceil Round")(rounded)
jumps("Round Shrink Sign")(True)
declare("Round", "round", exact=STEP, rules=[bounds.by(rising(np.rint))])
for _name in ("Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh"):
    declare(_name, _name.lower(), exact=STEP)
for _name in ("Asin", "Acos", "Atanh"):
    declare(_name, _name.lower(), low=-0.99, high=0.99, exact=STEP)
declare("Acosh", "acosh", low=1.0, high=50.0, exact=STEP)
declare("Exp", "exp", exact=STEP, traits=CURVE, rules=[bounds.by(approximated(np.exp))])
for _name in ("Softplus", "Softsign", "Mish"):
    declare(_name, _name.lower(), exact=STEPS, traits=CURVE)
declare("Sqrt", "sqrt", low=0.125, value=np.sqrt, rules=[bounds.by(approximated(np.sqrt, 0.0))])
for _name in ("Log", "Reciprocal"):
    declare(_name, _name.lower(), low=0.125, exact=STEP)
relu = declare(
    "Relu",
    "relu",
    types=FLOATS + SIGNED,
    value=lambda x: np.maximum(x, x.dtype.type(0)),
    traits=(Curve(), Clamp(0.0, math.inf)),
    rules=[bounds.by(rising(lambda x: np.maximum(x, 0.0)))],
)
declare(
    "LeakyRelu",
    "leaky_relu",
    lambda m: (m.alpha, 0, 0),
    samples={"alpha": 0.3},
    exact=STEPS,
    traits=CURVE,
    alpha=0.01,
)
declare(
    "Elu",
    "elu",
    lambda m: (m.alpha, 1, 1),
    samples={"alpha": 2.0},
    exact=STEPS,
    traits=CURVE,
    alpha=1.0,
)
declare(
    "Selu",
    "elu",
    lambda m: (m.alpha * m.gamma, m.gamma, 1),
    samples={"alpha": 2.0, "gamma": 3.0},
    exact=STEPS,
    traits=CURVE,
    alpha=1.67326319217681884765625,
    gamma=1.05070102214813232421875,
)
celu = declare(
    "Celu",
    "elu",
    lambda m: (m.alpha, 1, 1 / m.alpha),
    samples={"alpha": 2.0},
    exact=STEPS,
    traits=CURVE,
    alpha=1.0,
)
declare(
    "HardSigmoid",
    "hard_sigmoid",
    lambda m: (m.alpha, m.beta, 0),
    samples={"alpha": 0.5, "beta": 0.6},
    exact=STEPS,
    traits=CURVE,
    alpha=0.2,
    beta=0.5,
)
declare("HardSwish", "hard_swish", lambda m: (1 / 6, 0.5, 0), exact=STEPS, traits=CURVE)
declare(
    "Swish",
    "swish",
    lambda m: (m.alpha, 0, 0),
    samples={"alpha": 0.7},
    exact=STEPS,
    traits=CURVE,
    alpha=1.0,
)
declare(
    "ThresholdedRelu",
    "thresholded_relu",
    lambda m: (m.alpha, 0, 0),
    samples={"alpha": 0.5},
    exact=STEPS,
    alpha=1.0,
)
declare(
    "Shrink",
    "shrink",
    lambda m: (m.lambd, m.bias, 0),
    samples={"lambd": 1.5, "bias": 0.5},
    exact=STEPS,
    bias=0.0,
    lambd=0.5,
)


@celu.check
def celu_divides(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that alpha is not 0, by which the definition divides."""
    yield m.alpha != 0, "alpha 0 (the definition divides by it)"


gelu = op(
    "Gelu",
    "x",
    traits=[Elementwise(), Curve()],
    types=FLOATS,
    approximate=OneOf("none tanh", "none"),
    layouts=follow,
    lower=lambda c, m: emit(c, m, "gelu_tanh" if m.approximate == "tanh" else "gelu"),
)


@evaluates("Gelu")
def gelu_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """Gelu of a constant, computed in float64; the reference knows it as a function only."""
    x = need(inputs, 0)
    wide = x.astype(np.float64)
    if str(attribute(node, "approximate", "none")) == "tanh":
        share = np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))
    else:
        share = erf(wide / math.sqrt(2))
    return [(0.5 * wide * (1 + share)).astype(x.dtype)]


@gelu.cases
def gelu_cases() -> Iterator[Case]:
    """Gelu(X), exact and by tanh."""
    yield case(f32(2, 37, low=-5.0, high=5.0))
    yield case(f32(2, 37, low=-5.0, high=5.0), approximate="tanh")


@relu.cases
def special_cases() -> Iterator[Case]:
    """Relu(X) of NaN, infinities and zeros."""
    yield case(SPECIAL)


isnan = op(
    "IsNaN", "x", traits=[Elementwise(), STEP], types=FLOATS, lower=lambda c, m: emit(c, m, "isnan")
)
isinf = op(
    "IsInf",
    "x",
    traits=[Elementwise(), STEP],
    types=FLOATS,
    detect_negative=1,
    detect_positive=1,
    lower=lambda c, m: emit(c, m, "isinf", m.detect_negative, m.detect_positive),
)


@isnan.cases
@isinf.cases
def classify_cases() -> Iterator[Case]:
    """IsNaN and IsInf(X) of special floats, float64 too."""
    yield case(SPECIAL)
    yield case(SPECIAL.astype(np.float64))


@isinf.cases
def one_sided_cases() -> Iterator[Case]:
    """IsInf(X) of one sign only."""
    yield case(SPECIAL, detect_negative=0)
    yield case(SPECIAL, detect_positive=0)


logical_not = op(
    "Not",
    "x",
    traits=[Elementwise()],
    layouts=follow,
    rules=[evaluates.by(elementwise(np.logical_not))],
    lower=lambda c, m: emit(c, m, "not"),
)


@bounds("Not")
def not_bounds(node: ir.Node, inputs: Bounded) -> Interval | None:
    """The interval of a negated bool, 1 - x; None if that of x is unknown."""
    found = inputs[0]
    return None if found is None else Interval(1 - found.high, 1 - found.low)


@logical_not.cases
def not_cases() -> Iterator[Case]:
    """Not(X) of booleans."""
    yield case(np.array([True, False, True]))
