# SPDX-License-Identifier: Apache-2.0
"""Add, Sub and Mul of two 8-bit codes, with Relu or Clip, broadcast or not.

A sum is q = (a * ma + b * mb + offset) >> shift. At compile time all 65536 pairs of codes are
computed so and in float32 as the nodes say; a sum that differs by more than one code is refused.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, U8, DType
from aot.ops.binary import instances, reusable, space_fields
from aot.ops.broadcast import Operand, collapse, collapses, operand, pack, stored
from aot.ops.quantised.common import code_fields, quantised, signed_input, signed_result
from aot.vendor.backend import Pattern
from aot.vendor.cases import Case
from aot.vendor.codes import (
    Array,
    Codes,
    activated,
    all_hold,
    codes,
    constant_bounds,
    dequantised,
    known,
)
from aot.vendor.layouts import follow
from aot.vendor.match import Match, ValueRef
from aot.vendor.pattern import OP
from aot.vendor.quantised_cases import code_case, codes_of, kind
from aot.vendor.recorder import Recorder
from aot.vendor.requant import TFLITE, fixed_point, multipliers, refusal, rq_of

EIGHT = (S8, U8)
HEADER = "aot_qbinary.h"
#: Bits by which TFLite's sums move left before they are scaled.
TFLITE_SHIFT = 20
#: A larger share of pairs that round differently asks for halves to even.
ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Linear:
    """q = (a * ma + b * mb + offset) >> shift; `even`: halves go to even codes."""

    ma: int
    mb: int
    offset: int
    shift: int
    even: bool

    def codes(self, low: int, high: int) -> Array:
        """The result of every pair of int8 codes."""
        a = np.arange(-128, 128, dtype=np.int64)
        total = a[:, None] * self.ma + a[None, :] * self.mb + self.offset
        if self.even:
            total = total + ((total >> self.shift) & 1)
        found: Array = np.clip(total >> self.shift, low, high)
        return found


def exact(a: Codes, b: Codes, y: Codes, sign: int) -> Array:
    """What the nodes compute in float32 for every pair of int8 codes."""
    left, right = a.decode(), b.decode()
    total = left[:, None] + np.float32(sign) * right[None, :]
    whole = np.rint(np.clip(total / y.s, np.float32(-(2.0**20)), np.float32(2.0**20)))
    found: Array = np.clip(whole.astype(np.int64) + y.z, *y.range)
    return found


def linear(a: Codes, b: Codes, y: Codes, sign: int) -> tuple[Linear, int, float]:
    """Constants of the sum of int8 codes, the largest difference and the share of differing pairs.

    `shift` is as large as int32 allows.
    """
    ra, rb = float(a.s) / float(y.s), sign * float(b.s) / float(y.s)
    fixed = y.z - a.z * ra - b.z * rb
    reach = 129 * (abs(ra) + abs(rb)) + abs(fixed) + 2
    shift = int(np.floor(np.log2((2**31 - 2**12) / reach)))
    shift = max(1, min(shift, 30))
    want, best = exact(a, b, y, sign), None
    for even in (False, True):
        half = (1 << (shift - 1)) - even
        unit = 1 << shift
        found = Linear(round(ra * unit), round(rb * unit), round(fixed * unit) + half, shift, even)
        wrong = np.abs(found.codes(*y.range) - want)
        share = float(np.mean(wrong > 0))
        if best is None or share < best[2]:
            best = found, int(wrong.max()), share
        if share <= ROUNDING:
            break
    assert best is not None
    return best


def sign(m: Match) -> int:
    """What the second operand of a sum is multiplied with."""
    return -1 if m.op.op_type == "Sub" else 1


def declare(name: str, *op_types: str) -> Pattern:
    """The pattern of operators of two codes, elementwise."""
    pair = (dequantised("a"), dequantised("b"))
    made = quantised(name, activated(OP.any_of(*op_types)(*pair, _outputs=["op"])))
    made.layouts(follow)
    return made


total = declare("qadd", "Add", "Sub")
product = declare("qmul", "Mul")


def shapes_fit(m: Match, types: Sequence[DType] = EIGHT) -> Generator[tuple[bool, str], None, bool]:
    """Checks of every operator of two codes; returns whether their parameters are known."""
    ready = yield from all_hold(known(m, "a", "b", "y", types=types))
    yield from constant_bounds(m)
    yield not (m.a.is_const and m.b.is_const), "two constants"
    yield 0 not in m.y.shape, f"an empty tensor {list(m.y.shape)}"
    yield from collapses(m.y.shape, [m.a.shape, m.b.shape])
    return ready


def sums_fit(a: Codes, b: Codes, y: Codes, sign: int) -> Iterator[tuple[bool, str]]:
    """Checks that a sum of codes can be computed on integers."""
    a, b, y = a.signed(), b.signed(), y.signed()
    reasons = [refusal(float(k.s), np.ones(1), float(y.s)) for k in (a, b)]
    reason = reasons[0] or reasons[1]
    yield not reason, reason
    if not reason:
        worst = linear(a, b, y, sign)[1]
        yield worst <= 1, f"integers would be {worst} codes off"


@total.check
def total_supported(m: Match) -> Iterator[tuple[bool, str]]:
    if (yield from shapes_fit(m)):
        yield from sums_fit(codes(m, "a"), codes(m, "b"), codes(m, "y"), sign(m))


@product.check
def product_supported(m: Match) -> Iterator[tuple[bool, str]]:
    if (yield from shapes_fit(m)):
        a, b, y = (codes(m, k).signed() for k in "aby")
        reason = refusal(float(a.s), b.scale, float(y.s))
        yield not reason, reason


def code_operand(c: Recorder, value: ValueRef, y: ValueRef) -> Operand:
    """What to pass for an operand as int8 codes, and its stored shape."""
    if value.is_const:
        data = np.asarray(value.data)
        if value.dtype is U8:
            data = (data.astype(np.int16) - 128).astype(np.int8)
        return pack(c, data, y)
    what, shape = operand(c, value, y)
    if value.dtype is not U8:
        return what, shape
    assert isinstance(what, ValueRef)
    return signed_input(c, what), shape


def record(
    c: Recorder, m: Match, kernel: str, header: str, numbers: dict[str, Any], kind: dict[str, int]
) -> None:
    """Record a kernel on the operands `a` and `b` as int8 codes.

    `numbers` are the parameters between the loops and the zero points, `kind` the instance
    constants beside those of broadcasting.
    """
    pair = [code_operand(c, m.a, m.y), code_operand(c, m.b, m.y)]
    space = collapse(stored(m.y), [s for _, s in pair])
    with signed_result(c, m.y) as made:
        c.call(
            kernel,
            made,
            *(what for what, _ in pair),
            c.params(**space_fields(space, "ab"), **numbers, **code_fields(m, "ab")),
            instance={**instances(space, "ab"), **kind},
            inplace=reusable(space, made, pair),
            header=header,
        )


def _record(c: Recorder, m: Match, kernel: str, kind: int, fields: dict[str, int]) -> None:
    """Record a kernel of aot_qbinary.h; the numbers that `fields` leaves out are 0."""
    names = ("a_mult", "b_mult", "y_mult", "a_shift", "b_shift", "y_shift", "offset")
    record(c, m, kernel, HEADER, {k: fields.get(k, 0) for k in names}, {"KIND": kind})


@total.lower
def total_to_kernel(c: Recorder, m: Match) -> None:
    three = codes(m, "a"), codes(m, "b"), codes(m, "y")
    kind, fields = sum_fields(*three, sign(m), rq_of(c))
    _record(c, m, "aot_qadd_s8", kind, fields)


def sum_fields(a: Codes, b: Codes, y: Codes, sign: int, rq: int) -> tuple[int, dict[str, int]]:
    """KIND of aot_qadd_s8 and the fields of its parameters that hold numbers."""
    a, b, y = a.signed(), b.signed(), y.signed()
    if rq == TFLITE:
        return 2, tflite_sum(a, b, y, sign)
    found = linear(a, b, y, sign)[0]
    fields = {"a_mult": found.ma, "b_mult": found.mb, "y_mult": 0, "a_shift": 0, "b_shift": 0}
    return int(found.even), {**fields, "y_shift": found.shift, "offset": found.offset}


def tflite_sum(a: Codes, b: Codes, y: Codes, sign: int, left: int = TFLITE_SHIFT) -> dict[str, int]:
    """TFLite's multipliers: operands to a common scale, then to that of the result."""
    twice = 2 * max(float(a.s), float(b.s))
    real = {"a": float(a.s) / twice, "b": float(b.s) / twice}
    real["y"] = twice / (2**left * float(y.s))
    fields = {}
    for name, value in real.items():
        fields[f"{name}_mult"], fields[f"{name}_shift"] = fixed_point(value)
    fields["offset"] = sign
    return fields


@product.lower
def product_to_kernel(c: Recorder, m: Match) -> None:
    a, b, y = (codes(m, k).signed() for k in "aby")
    rq = rq_of(c)
    mult, shift = multipliers(float(a.s), b.scale.reshape(-1), float(y.s), rq, "mul")
    fields = {"y_mult": int(mult[0]), "y_shift": 0 if shift is None else int(shift[0])}
    _record(c, m, "aot_qmul_s8", rq, fields)


@total.cases
@product.cases
def cases() -> Iterator[Case]:
    for left, right, dtype in (
        ((2, 5, 3, 4), (2, 5, 3, 4), "int8"),
        ((2, 5, 3, 4), (1, 5, 1, 1), "int8"),
        ((3, 70), (3, 1), "uint8"),
    ):
        a, b = codes_of(*left, dtype=dtype), codes_of(*right, dtype=dtype, seed=1)
        pair = (a, *kind(0.031, 3, dtype), b, *kind(0.0173, 17, dtype))
        for fed in ((0, 3), (0,)):
            yield code_case(*pair, *kind(0.047, 20, dtype), fed=fed)
