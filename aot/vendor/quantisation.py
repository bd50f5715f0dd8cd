# SPDX-License-Identifier: Apache-2.0
"""Quantised values of a match: element type, scale and zero point, and the patterns around them.

Wildcards have fixed names: the quantised values `x` have the scale `sx` and the zero point `zx`;
the bounds of a Clip are `low` and `high`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import ParamSpec

import numpy as np

from aot.ir.dtypes import S8, S16, U8, U16, DType
from aot.ir.graph_nodes import Array
from aot.vendor.match import Match, ValueRef
from aot.vendor.pattern import OP, Either, OpPat, Pat, Var, either

P = ParamSpec("P")

#: The element types of quantised values, in the order of AOT_Q_* in
#: runtime_c/kernels/aot_quantised.h.
QUANTISED_TYPES: tuple[DType, ...] = (S8, U8, S16, U16)
RANGES = {S8: (-128, 127), U8: (0, 255), S16: (-32768, 32767), U16: (0, 65535)}


@dataclass(frozen=True, slots=True)
class Quantisation:
    """value = (q - zero) * scale; one of each, or one per channel."""

    dtype: DType
    scale: Array
    zero: Array

    @property
    def s(self) -> np.float32:
        """The scale, as float32, of a tensor that has one scale for all elements."""
        return np.float32(self.scale.reshape(-1)[0])

    @property
    def z(self) -> int:
        """The zero point of a tensor that has one for all elements."""
        return int(self.zero.reshape(-1)[0])

    @property
    def range(self) -> tuple[int, int]:
        """The lowest and the highest quantised value."""
        return RANGES[self.dtype]

    def signed(self) -> Quantisation:
        """The same parameters for int8 quantised values that are 128 less, if these are uint8."""
        if self.dtype is not U8:
            return self
        return replace(self, dtype=S8, zero=self.zero.astype(np.int64) - 128)

    def as_signed(self, limits: tuple[int, int]) -> tuple[int, int]:
        """The range `limits` (lowest, highest) of these quantised values, as the `signed` ones have
        it.
        """
        low, high = limits
        moved = self.z - self.signed().z
        return low - moved, high - moved

    def encode(self, value: float) -> int:
        """The quantised value of one number, rounded to even and saturated as
        QuantizeLinear does.
        """
        scaled = np.clip(np.rint(np.float32(value) / self.s), -(2.0**24), 2.0**24)
        return int(np.clip(int(scaled) + self.z, *self.range))

    def decode(self) -> Array:
        """The float32 values of all quantised values of an 8-bit type, lowest first."""
        low, high = self.range
        return (np.arange(low, high + 1) - self.z).astype(np.float32) * self.s


def dequantised(name: str, inner: Pat | None = None) -> OpPat:
    """The pattern of a DequantizeLinear of quantised values `name`, or of the pattern `inner`.

    Its scale and zero point are wildcards called s and z before the name; the node is <name>_dq.
    """
    quantised = inner or Var(name)
    return OP.DequantizeLinear(
        quantised, Var(f"s{name}"), Var(f"z{name}"), _optional=1, _outputs=[f"{name}_dq"]
    )


def activated(value: Pat, mark: str = "") -> Either:
    """The pattern `value`, with a Relu or a Clip behind it or without.

    `mark` ends the names act, low and high, so that a pattern may have two of them.
    """
    bounds_of = Var(f"low{mark}"), Var(f"high{mark}")
    return either(
        OP.Relu(value, _outputs=[f"act{mark}"]),
        OP.Clip(value, *bounds_of, _optional=2, _outputs=[f"act{mark}"]),
        value,
    )


def quantised(value: Pat) -> OpPat:
    """The pattern of a QuantizeLinear of `value`; scale and zero point are called sy and zy."""
    return OP.QuantizeLinear(value, Var("sy"), Var("zy"), _optional=1)


def value_of(m: Match, name: str) -> ValueRef:
    """The value `name` of the match, or the result of the node of this name."""
    value = m.values.get(name) or m.values[f"{name}_out"]
    assert value is not None
    return value


def quantisation(m: Match, name: str) -> Quantisation:
    """Type, scale and zero point of the quantised values `name`, which must have constant
    parameters.

    Those of a result are the QuantizeLinear's; an absent zero point is 0.
    """
    dtype = value_of(m, name).dtype
    scale, zero = m.values[f"s{name}"], m.values.get(f"z{name}")
    assert scale is not None and scale.data is not None
    if zero is None or zero.data is None:
        return Quantisation(dtype, np.asarray(scale.data), np.zeros(scale.shape, np.int64))
    return Quantisation(dtype, np.asarray(scale.data), np.asarray(zero.data).astype(np.int64))


def known(
    m: Match, *names: str, types: Sequence[DType] = QUANTISED_TYPES
) -> Iterator[tuple[bool, str]]:
    """Checks that these quantised values have one constant scale and zero point each."""
    for name in names:
        value, scale, zero = value_of(m, name), m.values[f"s{name}"], m.values.get(f"z{name}")
        assert scale is not None
        yield value.dtype in types, f"{name} is of {value.dtype} (needs {listing(types)})"
        constant = scale.is_const and (zero is None or zero.is_const)
        yield constant, f"the scale or zero point of {name} is computed at run time"
        yield math.prod(scale.shape) == 1, f"{name} has {math.prod(scale.shape)} scales (needs 1)"


def all_hold(checks: Iterable[tuple[bool, str]]) -> Generator[tuple[bool, str], None, bool]:
    """Pass `checks` on and return whether all hold: `if not (yield from all_hold(…)): return`."""
    every = True
    for holds, reason in checks:
        every = every and bool(holds)
        yield holds, reason
    return every


def told(
    checks: Callable[P, Iterable[tuple[bool, str]]],
) -> Callable[P, Generator[tuple[bool, str], None, bool]]:
    """Decorator of a generator of checks: it returns whether all hold, as `all_hold` does."""

    @wraps(checks)
    def every(*args: P.args, **kwargs: P.kwargs) -> Generator[tuple[bool, str], None, bool]:
        """The checks, for `if (yield from every(m)):`."""
        return all_hold(checks(*args, **kwargs))

    return every


def listing(types: Sequence[DType]) -> str:
    """The names of the types in words, like `int8 or uint8`."""
    return " or ".join(str(t) for t in types)


def constant_bounds(m: Match, mark: str = "") -> Iterator[tuple[bool, str]]:
    """Checks that the bounds of a Clip, if there are any, are constants.

    `mark` ends their names, as in `activated`.
    """
    for name in (f"low{mark}", f"high{mark}"):
        value = m.values.get(name)
        yield value is None or value.is_const, f"Clip's {name} bound is not constant"


def bounds(m: Match, y: Quantisation, mark: str = "") -> tuple[int, int]:
    """(lowest, highest) quantised value of the result: the type's, narrowed by its Relu or Clip.

    A Clip with bounds in the wrong order gives its upper bound only, as ONNX has it.
    """
    low, high = y.range
    act = getattr(m, f"act{mark}", None)
    if act is None:
        return low, high
    if act.op_type == "Relu":
        return max(low, y.encode(0.0)), high
    for name in ("low", "high"):
        value = m.values.get(f"{name}{mark}")
        if value is not None and value.data is not None:
            code = y.encode(float(np.asarray(value.data).reshape(())))
            low, high = (max(low, code), high) if name == "low" else (low, min(high, code))
    return min(low, high), high
