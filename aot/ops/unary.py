# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of one tensor: float32 by vectors, other types by scalar loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from aot.dtypes import F32
from aot.lower_context import LowerContext
from aot.ops.broadcast import stored
from aot.ops.layouts import follow
from aot.ops.registry import Case, case, f32, op
from aot.partition.match import Match
from aot.vendor.backend import Pattern

Constants = Callable[[Match], tuple[float, float, float]]
HEADER = "aot_unary_f32.h"


def elements(m: Match) -> int:
    """Elements stored in the result, pad lanes included."""
    return math.prod(stored(m.y))


def emit(c: LowerContext, m: Match, kernel: str, a: float = 0, b: float = 0, d: float = 0) -> None:
    """Record one call of a float32 kernel of aot_unary_f32.h."""
    a, b, d = (float(np.float32(v)) for v in (a, b, d))
    params = c.params(n=elements(m), a=a, b=b, c=d)
    c.call(f"aot_{kernel}_f32", m.y, m.x, params, header=HEADER, inplace=[(m.y, m.x)])


def declare(
    op_type: str,
    kernel: str,
    constants: Constants | None = None,
    domain: str = "",
    samples: Mapping[str, Any] | None = None,
    low: float = -4.0,
    **attrs: Any,
) -> Pattern:
    """An operator computed by one float32 kernel; `samples` are attributes for its test."""
    made = op(op_type, "x", domain=domain, **attrs)
    made.layouts(follow)

    @made.check
    def float_only(m: Match) -> Iterator[tuple[bool, str]]:
        yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"

    @made.lower
    def to_kernel(c: LowerContext, m: Match) -> None:
        emit(c, m, kernel, *(constants(m) if constants else ()))

    @made.cases
    def cases() -> Iterator[Case]:
        yield case(f32(2, 3, 7, low=low, high=4.0), **(samples or {}))
        yield case(f32(1, 5, 3, 3, low=low, high=4.0))

    return made


SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.5, np.inf, -np.inf, np.nan, 1e-40, 90.0, -110.0], np.float32
)

for _name in ("Abs", "Neg", "Sigmoid", "Tanh", "Erf", "Floor", "Ceil", "Round", "Sign"):
    declare(_name, _name.lower())
for _name in ("Exp", "Softplus", "Softsign", "Mish"):
    declare(_name, _name.lower())
for _name in ("Sqrt", "Log", "Reciprocal"):
    declare(_name, _name.lower(), low=0.125)
relu = declare("Relu", "relu")
declare("LeakyRelu", "leaky_relu", lambda m: (m.alpha, 0, 0), samples={"alpha": 0.3}, alpha=0.01)
declare("Elu", "elu", lambda m: (m.alpha, 1, 1), samples={"alpha": 2.0}, alpha=1.0)
declare(
    "Selu",
    "elu",
    lambda m: (m.alpha * m.gamma, m.gamma, 1),
    samples={"alpha": 2.0, "gamma": 3.0},
    alpha=1.67326319217681884765625,
    gamma=1.05070102214813232421875,
)
declare("Celu", "elu", lambda m: (m.alpha, 1, 1 / m.alpha), samples={"alpha": 2.0}, alpha=1.0)
declare(
    "HardSigmoid",
    "hard_sigmoid",
    lambda m: (m.alpha, m.beta, 0),
    samples={"alpha": 0.5, "beta": 0.6},
    alpha=0.2,
    beta=0.5,
)
declare("HardSwish", "hard_swish", lambda m: (1 / 6, 0.5, 0))
declare("Swish", "swish", lambda m: (m.alpha, 0, 0), samples={"alpha": 0.7}, alpha=1.0)
declare(
    "ThresholdedRelu",
    "thresholded_relu",
    lambda m: (m.alpha, 0, 0),
    samples={"alpha": 0.5},
    alpha=1.0,
)
declare(
    "Shrink",
    "shrink",
    lambda m: (m.lambd, m.bias, 0),
    samples={"lambd": 1.5, "bias": 0.5},
    bias=0.0,
    lambd=0.5,
)

gelu = op("Gelu", "x", approximate="none")
gelu.layouts(follow)


@gelu.check
def gelu_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"
    known = ("none", "tanh")
    yield m.approximate in known, f"approximate {m.approximate!r} (needs none or tanh)"


@gelu.lower
def gelu_to_kernel(c: LowerContext, m: Match) -> None:
    emit(c, m, "gelu_tanh" if m.approximate == "tanh" else "gelu")


@gelu.cases
def gelu_cases() -> Iterator[Case]:
    yield case(f32(2, 37, low=-5.0, high=5.0))
    yield case(f32(2, 37, low=-5.0, high=5.0), approximate="tanh")


clip = op("Clip", "x low? high?")
clip.layouts(follow)


def bound(value: Any, default: float) -> float:
    """The number in a constant bound, or `default` if it is absent."""
    return default if value is None else float(np.asarray(value.data).reshape(()))


@clip.check
def clip_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"
    for name, value in (("min", m.low), ("max", m.high)):
        yield value is None or value.is_const, f"{name} is computed at run time (needs a constant)"


@clip.lower
def clip_to_kernel(c: LowerContext, m: Match) -> None:
    emit(c, m, "clip", bound(m.low, -math.inf), bound(m.high, math.inf))


@clip.cases
def clip_cases() -> Iterator[Case]:
    zero, six = np.float32(0.0), np.float32(1.5)
    yield case(f32(3, 11), np.array(zero), np.array(six), const=(1, 2))
    yield case(f32(3, 11), None, np.array(six), const=(2,))
    yield case(SPECIAL, np.array(np.float32(-1)), const=(1,))


@relu.cases
def special_cases() -> Iterator[Case]:
    yield case(SPECIAL)
