# SPDX-License-Identifier: Apache-2.0
"""MatMul of two computed operands between quantised values: QuantizeLinear([Relu | Clip](MatMul)).

Sums of 16-bit quantised values have 64 bits and are scaled in fixed point and rounded once,
whatever `--requant` is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from aot.ir.dtypes import S8, S16, U16
from aot.ir.graph_nodes import Array
from aot.ops.broadcast import collapses
from aot.ops.quantised import conv_dot
from aot.ops.quantised.common import batched, quantised, quantised_fields, type_constants
from aot.ops.quantised.shapes import QConv, round_up
from aot.vendor.cases import Case, case
from aot.vendor.fixed_point import ratio
from aot.vendor.match import Match
from aot.vendor.pattern import OP
from aot.vendor.quantisation import (
    Quantisation,
    activated,
    all_hold,
    constant_bounds,
    dequantised,
    known,
    quantisation,
)
from aot.vendor.quantised_cases import quantised_values, scale, zero
from aot.vendor.recorder import Recorder
from aot.vendor.requant import MAX_SUM, multipliers, refusal, rq_of

#: AOT_QMATMUL_WIDE of aot_qmatmul_ref.h, and what its sums stay below.
WIDE, MAX_WIDE_SUM = 4, 2**62
#: What one unit of a wide sum may be in quantised values of the result.
WIDE_SCALES = 2.0**-62, 1.0


product = quantised(
    "qmatmul",
    activated(OP.MatMul(dequantised("a"), dequantised("b"), _outputs=["dot"])),
    priority=-1,
)


def _wide_scale(left: Quantisation, right: Quantisation, y: Quantisation) -> float:
    """How many steps of y one unit of the sum of products is."""
    return float(left.s) * float(right.s) / float(y.s)


def _is_wide(*operands: Quantisation) -> bool:
    """Whether one of them has 16 bits."""
    return any(k.dtype in (S16, U16) for k in operands)


@product.check
def product_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the sums of products fit their accumulator, and the batch axes the loops."""
    yield m.a.rank >= 2 and m.b.rank >= 2, f"ranks {m.a.rank}, {m.b.rank} (needs 2 or more)"
    yield from constant_bounds(m)
    yield 0 not in m.a.shape + m.b.shape, "an empty tensor"
    if (yield from all_hold(known(m, "a", "b", "y"))):
        a, b, y = (quantisation(m, k) for k in "aby")
        reason = refusal(float(a.s), b.scale, float(y.s))
        yield not reason, reason
        # b may be known at run time only, so the bound holds for any data.
        furthest = [max(abs(v - k.z) for v in k.range) for k in (a, b)]
        largest = furthest[0] * furthest[1] * m.a.shape[-1]
        most = MAX_WIDE_SUM if _is_wide(a, b, y) else MAX_SUM
        yield largest < most, f"sums up to {largest} (needs less than {most})"
        if _is_wide(a, b, y) and not reason:
            steps = _wide_scale(a, b, y)
            usual = WIDE_SCALES[0] < steps < WIDE_SCALES[1]
            yield usual, f"a sum of one becomes {steps:g} steps of a 16-bit result (less than 1)"
    yield from collapses(m.y.shape[:-2], [m.a.shape[:-2], m.b.shape[:-2]])


def multipliers_of(
    left: Quantisation, right: Quantisation, y: Quantisation, rq: int
) -> tuple[Array, Array | None]:
    """(multiplier, shift or None) of all sums in the arithmetic `rq`; WIDE has sums of 64 bits."""
    if rq != WIDE:
        return multipliers(float(left.s), right.scale.reshape(-1), float(y.s), rq, "fc")
    found = ratio(_wide_scale(left, right, y), 0)
    return np.array([found["mult"]], np.int32), np.array([found["shift"] - 31], np.int8)


@product.lower
def product_to_kernel(c: Recorder, m: Match) -> None:
    """Record the product by dot products if all is int8, else by scalar loops."""
    a, b, y = (quantisation(m, k) for k in "aby")
    rq = WIDE if _is_wide(a, b, y) else rq_of(c)
    mult, shift = multipliers_of(a, b, y, rq)
    params = c.params(**batched(m), **quantised_fields(m, "ab", signed=False))
    kernel, instance, scratch = "aot_qmatmul_ref", type_constants(m, "aby"), []
    dots = conv_dot.suits(c.target.simd, c.vlen, c.objective)
    if dots and {a.dtype, b.dtype, y.dtype} == {S8}:
        (rows, depth), columns = m.a.shape[-2:], m.b.shape[-1]
        shape = QConv.matrices(c.target, c.vlen, rows, depth, columns)
        # The kernel packs b itself, behind what a tile needs and two words for each column.
        instance, size = conv_dot.tiles(shape, b.z != 0)
        wide = round_up(columns, c.vlen)
        size += round_up(8 * wide, 64) + round_up(wide * round_up(depth, 4), 64)
        kernel, scratch = "aot_qmatmul_s8__dot", [c.scratch(size)]
    c.call(
        kernel,
        m.y,
        m.a,
        m.b,
        c.const(mult, "mult"),
        None if shift is None else c.const(shift, "shift"),
        *scratch,
        params,
        instance={"RQ": rq, **instance},
        macs=math.prod(m.y.shape) * m.a.shape[-1],
    )


@product.cases
def product_cases() -> Iterator[Case]:
    """A product of two tensors of quantised values."""
    for left, right, dtype in (
        ((3, 5), (5, 7), "int8"),
        ((2, 3, 4, 6), (3, 6, 5), "int8"),
        ((2, 3, 6), (2, 6, 4), "uint8"),
        ((2, 17, 21), (21, 37), "int8"),
        ((2, 3, 4, 6), (3, 6, 5), "int16"),
        ((4, 9), (3, 9, 7), "uint16"),
    ):
        a, b = quantised_values(*left, dtype=dtype), quantised_values(*right, dtype=dtype, seed=1)
        middle = 1 << 15 if dtype == "uint16" else 0
        low, other = zero(middle + 3, dtype), zero(middle + 9, dtype)
        # Results of 16 bits stay small enough for the reference's float32.
        sy = scale(0.09 if a.itemsize == 1 else 150.0)
        operands = [a, scale(0.02), low, b, scale(0.013), other, sy, low]
        yield case(*operands, const=(1, 2, 4, 5, 6, 7))
