# SPDX-License-Identifier: Apache-2.0
"""A matched Add, Sub or Mul of two quantised values, with Relu or Clip: its operands as one record.

A sum of 8-bit quantised values is q = (a * ma + b * mb + offset) >> shift. At compile time all
65536 pairs of quantised values are computed so and in float32 as the nodes say; a sum that differs
by more than one quantised value is refused.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from aot.ir.dtypes import S8, S16, U8, U16, DType
from aot.ir.graph_nodes import Array
from aot.ir.layout import Layout
from aot.vendor.cases import Case
from aot.vendor.match import Match
from aot.vendor.pattern import OP, OpPat
from aot.vendor.quantisation import (
    Quantisation,
    all_hold,
    bounds,
    constant_bounds,
    dequantised,
    known,
    quantisation,
    told,
)
from aot.vendor.quantised_cases import kind, quantised_case, quantised_values
from aot.vendor.requant import TFLITE, fixed_point, multipliers, refusal

EIGHT = (S8, U8)
#: Bits by which TFLite's sums move left before they are scaled.
TFLITE_SHIFTS = {S8: 20, U8: 20, S16: 15, U16: 15}
#: A larger share of pairs that round differently asks for halves to even.
ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Linear:
    """q = (a * ma + b * mb + offset) >> shift; `even`: halves go to even quantised values."""

    ma: int
    mb: int
    offset: int
    shift: int
    even: bool

    def results(self, low: int, high: int) -> Array:
        """The result, clipped to low .. high, of every pair of int8 quantised values, as [256,
        256].
        """
        a = np.arange(-128, 128, dtype=np.int64)
        total = a[:, None] * self.ma + a[None, :] * self.mb + self.offset
        if self.even:
            total = total + ((total >> self.shift) & 1)
        found: Array = np.clip(total >> self.shift, low, high)
        return found


def exact(one: Quantisation, other: Quantisation, y: Quantisation, sign: int) -> Array:
    """The result of the nodes in float32 for every pair of quantised values, as int64 [256, 256].

    `sign` is the factor of the second operand, 1 or -1.
    """
    left, right = one.decode(), other.decode()
    total = left[:, None] + np.float32(sign) * right[None, :]
    whole = np.rint(np.clip(total / y.s, np.float32(-(2.0**20)), np.float32(2.0**20)))
    found: Array = np.clip(whole.astype(np.int64) + y.z, *y.range)
    return found


def linear(
    one: Quantisation, other: Quantisation, y: Quantisation, sign: int
) -> tuple[Linear, int, float]:
    """(constants of the integer sum, largest difference, share of differing pairs) to the float32
    result.

    Differences are in quantised values, over all pairs of int8 ones. `shift` is as large as int32
    allows; halves go up, or to even quantised values if that fits the nodes better.
    """
    ra, rb = float(one.s) / float(y.s), sign * float(other.s) / float(y.s)
    fixed = y.z - one.z * ra - other.z * rb
    reach = 129 * (abs(ra) + abs(rb)) + abs(fixed) + 2
    shift = int(np.floor(np.log2((2**31 - 2**12) / reach)))
    shift = max(1, min(shift, 30))
    want, best = exact(one, other, y, sign), None
    for even in (False, True):
        half = (1 << (shift - 1)) - even
        unit = 1 << shift
        found = Linear(round(ra * unit), round(rb * unit), round(fixed * unit) + half, shift, even)
        wrong = np.abs(found.results(*y.range) - want)
        share = float(np.mean(wrong > 0))
        if best is None or share < best[2]:
            best = found, int(wrong.max()), share
        # Rounding halves up needs no extra instructions, so it is kept where it is close enough.
        if share <= ROUNDING:
            break
    assert best is not None
    return best


@dataclass(frozen=True, slots=True)
class QuantisedPair:
    """An operator of two operands `a` and `b` between quantised values, made once by `of`.

    `a`, `b` and `y` are element type, scale and zero point of the operands and of the result;
    `limits` the lowest and highest quantised value of the result, its Relu or Clip included.
    `op_type` is "Add", "Sub" or "Mul"; of "MatMul" the checks and multipliers are a product's.
    """

    op_type: str
    a: Quantisation
    b: Quantisation
    y: Quantisation
    limits: tuple[int, int]

    @classmethod
    def of(cls, m: Match) -> QuantisedPair:
        """The record of a match of `pattern`; parameters of quantised values must be constants."""
        y = quantisation(m, "y")
        return cls(m.op.op_type, quantisation(m, "a"), quantisation(m, "b"), y, bounds(m, y))

    @property
    def sign(self) -> int:
        """The factor of `b` in a sum: -1 for Sub, else 1."""
        return -1 if self.op_type == "Sub" else 1

    def sum_fields(self, rq: int) -> tuple[int, dict[str, int]]:
        """KIND of aot_qadd_s8 and the fields of its parameters that hold numbers, of int8 quantised
        values; those of int16 are summed as TensorFlow Lite does only.

        KIND 0 and 1 are `(a * a_mult + b * b_mult + offset) >> y_shift`, 1 with halves to even; 2
        is TensorFlow Lite's sum, `offset` then being the sign of `b`.
        """
        a, b, y = self.a.signed(), self.b.signed(), self.y.signed()
        if rq == TFLITE:
            return 2, tflite_sum(a, b, y, self.sign)
        found = linear(a, b, y, self.sign)[0]
        fields = {"a_mult": found.ma, "b_mult": found.mb, "y_mult": 0, "a_shift": 0, "b_shift": 0}
        return int(found.even), {**fields, "y_shift": found.shift, "offset": found.offset}

    def multipliers(self, rq: int) -> tuple[Array, Array | None]:
        """(multiplier, shift or None) of the product of two quantised values, one number each."""
        return multipliers(float(self.a.s), self.b.scale.reshape(-1), float(self.y.s), rq, "mul")

    @staticmethod
    def pattern(*op_types: str) -> OpPat:
        """The pattern of one of the operators on dequantised `a` and `b`; its node is
        called `op`.
        """
        return OP.any_of(*op_types)(dequantised("a"), dequantised("b"), _outputs=["op"])

    @staticmethod
    def operands_fit(
        m: Match, types: Sequence[DType] = EIGHT
    ) -> Generator[tuple[bool, str], None, bool]:
        """Checks of any operator on two quantised values; returns whether all parameters
        are known.
        """
        ready = yield from all_hold(known(m, "a", "b", "y", types=types))
        yield from constant_bounds(m)
        yield not (m.a.is_const and m.b.is_const), "two constants"
        yield 0 not in m.y.shape, f"an empty tensor {list(m.y.shape)}"
        return ready

    @staticmethod
    def layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
        """The layout rule: channels last for all three values as soon as one operand has them last.

        Then no stored lane is padding. {} (all plain) otherwise, and for ranks other than 3 to 5.
        """
        wanted = Layout(m.y.shape[1]) if 3 <= m.y.rank <= 5 else None
        if wanted is None or wanted not in (incoming["a"], incoming["b"]):
            return {}
        return {"a": wanted, "b": wanted, "y": wanted}

    @staticmethod
    @told
    def checks(m: Match, types: Sequence[DType] = EIGHT) -> Iterator[tuple[bool, str]]:
        """Checks that integers can compute the sum or product, which `of` may then read.

        Returned is whether all hold.
        """
        if not (yield from QuantisedPair.operands_fit(m, types)):
            return
        found = QuantisedPair.of(m)
        if found.op_type in ("Add", "Sub"):
            yield from found.sum_fits()
            return
        reason = refusal(float(found.a.s), found.b.scale, float(found.y.s))
        yield not reason, reason

    def sum_fits(self) -> Iterator[tuple[bool, str]]:
        """Checks that integers give the sum to within one quantised value of the float32 result.

        Those of 16 bits do where scales have multipliers: the sum is rounded three times.
        """
        a, b, y = self.a.signed(), self.b.signed(), self.y.signed()
        reasons = [refusal(float(k.s), np.ones(1), float(y.s)) for k in (a, b)]
        reason = reasons[0] or reasons[1]
        yield not reason, reason
        if not reason and y.dtype is S8:
            worst = linear(a, b, y, self.sign)[1]
            yield worst <= 1, f"integers would be {worst} quantised values off"

    @staticmethod
    def cases() -> Iterator[Case]:
        """Test cases: operands of one shape, broadcast ones, one constant operand."""
        for left, right, dtype in (
            ((2, 5, 3, 4), (2, 5, 3, 4), "int8"),
            ((2, 5, 3, 4), (1, 5, 1, 1), "int8"),
            ((3, 70), (3, 1), "uint8"),
        ):
            a, b = (
                quantised_values(*left, dtype=dtype),
                quantised_values(*right, dtype=dtype, seed=1),
            )
            pair = (a, *kind(0.031, 3, dtype), b, *kind(0.0173, 17, dtype))
            for fed in ((0, 3), (0,)):
                yield quantised_case(*pair, *kind(0.047, 20, dtype), fed=fed)


def tflite_sum(
    one: Quantisation, other: Quantisation, y: Quantisation, sign: int
) -> dict[str, int]:
    """The fields of TFLite's sum: both operands to a common scale, then to that of the result."""
    twice = 2 * max(float(one.s), float(other.s))
    real = {"a": float(one.s) / twice, "b": float(other.s) / twice}
    real["y"] = twice / (2 ** TFLITE_SHIFTS[y.dtype] * float(y.s))
    fields = {}
    for name, value in real.items():
        fields[f"{name}_mult"], fields[f"{name}_shift"] = fixed_point(value)
    fields["offset"] = sign
    return fields
