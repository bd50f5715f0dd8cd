# SPDX-License-Identifier: Apache-2.0
"""What the patterns of integer networks share: codes with their parameters, bounds, signs.

Wildcards have fixed names: codes `x` have the scale `sx` and the zero point `zx`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, S16, U8, U16, DType
from aot.ops.broadcast import stored
from aot.ops.quantised.requant import multipliers, rq_of
from aot.ops.registry import portable
from aot.vendor.backend import Pattern
from aot.vendor.match import Match, ValueRef
from aot.vendor.pattern import Builder, Either, OpPat, Pat, Var, either
from aot.vendor.recorder import Handle, Recorder

Array = np.ndarray[Any, Any]
#: The element types of codes, in the order of AOT_CODE_* in runtime_c/kernels/aot_codes.h.
CODE_TYPES: tuple[DType, ...] = (S8, U8, S16, U16)
RANGES = {S8: (-128, 127), U8: (0, 255), S16: (-32768, 32767), U16: (0, 65535)}
OP = Builder()


@dataclass(frozen=True, slots=True)
class Codes:
    """value = (code - zero) * scale; one of each, or one per channel."""

    dtype: DType
    scale: Array
    zero: Array

    @property
    def s(self) -> np.float32:
        """The scale of a tensor that has one."""
        return np.float32(self.scale.reshape(-1)[0])

    @property
    def z(self) -> int:
        """The zero point of a tensor that has one."""
        return int(self.zero.reshape(-1)[0])

    @property
    def range(self) -> tuple[int, int]:
        """The lowest and the highest code."""
        return RANGES[self.dtype]

    def signed(self) -> Codes:
        """The same values as int8 codes where the codes are uint8."""
        if self.dtype is not U8:
            return self
        return replace(self, dtype=S8, zero=self.zero.astype(np.int64) - 128)

    def encode(self, value: float) -> int:
        """QuantizeLinear of one number."""
        scaled = np.clip(np.rint(np.float32(value) / self.s), -(2.0**24), 2.0**24)
        return int(np.clip(int(scaled) + self.z, *self.range))

    def decode(self) -> Array:
        """The float32 values of all codes of an 8-bit type, lowest first."""
        low, high = self.range
        return (np.arange(low, high + 1) - self.z).astype(np.float32) * self.s


def dequantised(name: str, inner: Pat | None = None) -> OpPat:
    """DequantizeLinear of codes `name` (or of what `inner` gives)."""
    codes = inner or Var(name)
    return OP.DequantizeLinear(
        codes, Var(f"s{name}"), Var(f"z{name}"), _optional=1, _outputs=[f"{name}_dq"]
    )


def activated(value: Pat, mark: str = "") -> Either:
    """`value` with a Relu or a Clip, or without; `mark` ends its names."""
    bounds_of = Var(f"low{mark}"), Var(f"high{mark}")
    return either(
        OP.Relu(value, _outputs=[f"act{mark}"]),
        OP.Clip(value, *bounds_of, _optional=2, _outputs=[f"act{mark}"]),
        value,
    )


def quantised(name: str, inner: Pat, priority: int = 0) -> Pattern:
    """Declare the pattern QuantizeLinear(inner); its result are the codes `y`."""
    graph = OP.QuantizeLinear(inner, Var("sy"), Var("zy"), _optional=1)
    made = Pattern(name, graph, "c", folder=Path(__file__).parent, priority=priority)
    portable.patterns.append(made)
    return made


def value_of(m: Match, name: str) -> ValueRef:
    """The value `name`, or that of the node of this name."""
    value = m.values.get(name) or m.values[f"{name}_out"]
    assert value is not None
    return value


def codes(m: Match, name: str) -> Codes:
    """The parameters of codes `name`; those of a result are read from its QuantizeLinear."""
    dtype = value_of(m, name).dtype
    scale, zero = m.values[f"s{name}"], m.values.get(f"z{name}")
    assert scale is not None and scale.data is not None
    if zero is None or zero.data is None:
        return Codes(dtype, np.asarray(scale.data), np.zeros(scale.shape, np.int64))
    return Codes(dtype, np.asarray(scale.data), np.asarray(zero.data).astype(np.int64))


def known(m: Match, *names: str, types: Sequence[DType] = CODE_TYPES) -> Iterator[tuple[bool, str]]:
    """Checks that these codes have one constant scale and zero point each."""
    for name in names:
        value, scale, zero = value_of(m, name), m.values[f"s{name}"], m.values.get(f"z{name}")
        assert scale is not None
        yield value.dtype in types, f"{name} is of {value.dtype} (needs {listing(types)})"
        constant = scale.is_const and (zero is None or zero.is_const)
        yield constant, f"the scale or zero point of {name} is computed at run time"
        yield math.prod(scale.shape) == 1, f"{name} has {math.prod(scale.shape)} scales (needs 1)"


def listing(types: Sequence[DType]) -> str:
    """`int8 or uint8`."""
    return " or ".join(str(t) for t in types)


def constant_bounds(m: Match, mark: str = "") -> Iterator[tuple[bool, str]]:
    """Checks that the bounds of a Clip are known."""
    for name in (f"low{mark}", f"high{mark}"):
        value = m.values.get(name)
        yield value is None or value.is_const, f"Clip's {name} bound is not constant"


def bounds(m: Match, y: Codes, mark: str = "") -> tuple[int, int]:
    """The range of the final codes: the type's, narrowed by the activation."""
    low, high = y.range
    act = getattr(m, f"act{mark}", None)
    if act is None:
        return low, high
    if act.op_type == "Relu":
        return max(low, y.encode(0.0)), high
    for name in ("low", "high"):
        value = m.values.get(f"{name}{mark}")
        if value is not None:
            code = y.encode(float(np.asarray(value.data).reshape(())))
            low, high = (max(low, code), high) if name == "low" else (low, min(high, code))
    return min(low, high), high


def signed_input(c: Recorder, x: ValueRef) -> ValueRef | Handle:
    """`x` as int8 codes: itself, or a copy of uint8 codes with the top bit turned."""
    if x.dtype is not U8:
        return x
    copy = c.temp(x.shape, S8, x.layout, "signed")
    flip(c, c.write(copy), c.read(x), x)
    return copy


def signed_output(c: Recorder, y: ValueRef) -> ValueRef | Handle:
    """Where a kernel that makes int8 codes writes `y`; `finish` turns the top bits."""
    return y if y.dtype is not U8 else c.temp(y.shape, S8, y.layout, "signed")


def finish(c: Recorder, y: ValueRef, made: ValueRef | Handle) -> None:
    """Store in `y` what a kernel left in `signed_output`."""
    if isinstance(made, Handle):
        flip(c, y, made, y)


def flip(c: Recorder, y: Any, x: Any, like: ValueRef) -> None:
    """Record y = x with the top bit of every code turned: int8 to uint8 or back."""
    params = c.params(n=math.prod(stored(like)))
    c.call("aot_qflip", y, x, params, inplace=[(y, x)])


@dataclass(frozen=True, slots=True)
class Requant:
    """Operands and instance constants of a requantising kernel."""

    mult: Handle
    shift: Handle | None
    instance: dict[str, int]


def requant(c: Recorder, sx: np.float32, sw: Array, sy: np.float32, of: str = "conv") -> Requant:
    """Multipliers for sums of scale sx * sw, results of scale sy; one if all are equal.

    `of` is the operator to TensorFlow Lite; per channel it treats all alike.
    """
    rq = rq_of(c)
    sw = np.asarray(sw, np.float32).reshape(-1)
    per_channel = sw.size > 1
    if np.all(sw == sw[0]):
        sw = sw[:1]
    mult, shift = multipliers(float(sx), sw, float(sy), rq, "conv" if per_channel else of)
    return Requant(
        c.const(mult, "mult"),
        None if shift is None else c.const(shift, "shift"),
        {"RQ": rq, "PC": int(len(sw) > 1)},
    )
