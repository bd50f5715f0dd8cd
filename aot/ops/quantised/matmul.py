# SPDX-License-Identifier: Apache-2.0
"""MatMul and Gemm between quantised values: QuantizeLinear([Relu | Clip](MatMul(quantised values,
weights) [+ bias])).

Constant symmetric int8 weights go to the target's fully-connected kernel, other constant ones to
aot_qconv_ref (a convolution of one position), two computed operands to aot_qmatmul_ref; there
16-bit quantised values have sums of 64 bits, scaled in fixed point and rounded once, whatever
`--requant` is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, S16, U8, U16
from aot.ops.broadcast import collapse, collapses
from aot.ops.quantised.common import (
    Requant,
    product_scales,
    quantised,
    requant,
)
from aot.ops.quantised.conv import any_weights, emit, kernels_of, target_of
from aot.ops.quantised.shapes import QFc
from aot.vendor.backend import Pattern
from aot.vendor.cases import Case, case
from aot.vendor.fixed_point import ratio
from aot.vendor.match import Match
from aot.vendor.pattern import OP
from aot.vendor.quantisation import (
    QUANTISED_TYPES,
    Quantisation,
    activated,
    all_hold,
    bounds,
    constant_bounds,
    dequantised,
    known,
    quantisation,
)
from aot.vendor.quantised_cases import quantised_values, scale, zero
from aot.vendor.quantised_product import QuantisedProduct
from aot.vendor.recorder import Recorder
from aot.vendor.requant import MAX_SUM, refusal, rq_of

#: AOT_QMATMUL_WIDE of aot_qmatmul_ref.h, and what its sums stay below.
WIDE, MAX_WIDE_SUM = 4, 2**62
#: What one unit of a wide sum may be in quantised values of the result.
WIDE_SCALES = 2.0**-62, 1.0


dense = quantised("qdense", activated(QuantisedProduct.dense_pattern()))
dense.check(QuantisedProduct.checks)
dense.cases(QuantisedProduct.dense_cases)
product = quantised(
    "qmatmul",
    activated(OP.MatMul(dequantised("a"), dequantised("b"), _outputs=["dot"])),
    priority=-1,
)


# -- constant weights ---------------------------------------------------------------------------


@dense.lower
def dense_to_kernel(c: Recorder, m: Match) -> None:
    found = QuantisedProduct.of(m, rq_of(c))
    eight = all(v.dtype in (S8, U8) for v in (found.x, found.y))
    if eight and (found.w.symmetric or any_weights(c)):
        _fast(c, m, found)
    else:
        _general(c, m, found)


def _fast(c: Recorder, m: Match, found: QuantisedProduct) -> None:
    x, y = found.x.signed(), found.y.signed()
    scales = product_scales(c, found)
    low, high = found.y.as_signed(found.limits)
    shape = QFc(
        m=math.prod(m.x.shape[:-1]),
        k=m.x.shape[-1],
        n=m.y.shape[-1],
        x_zero=x.z,
        y_zero=y.z,
        lo=low,
        hi=high,
        rq=scales.instance["RQ"],
        per_channel=bool(scales.instance["PC"]),
        **target_of(c),
    )
    folded = found.folded(x.z).astype(np.int32)
    call = kernels_of(c.target.simd).plan_fc(shape, found.w.stored, folded, c.objective)
    emit(c, m, call, scales, shape.fields(), shape.macs)


def _general(c: Recorder, m: Match, found: QuantisedProduct) -> None:
    """Record aot_qconv_ref on one position per row."""
    w, scales = found.w, product_scales(c, found)
    low, high = found.limits
    rows, ones, none = math.prod(m.x.shape[:-1]), (1, 1, 1), (0, 0, 0)
    params = c.params(
        n=rows,
        ic=m.x.shape[-1],
        oc=m.y.shape[-1],
        groups=1,
        **{"in": ones, "out": ones, "k": ones, "s": ones, "d": ones, "pad": none, "up": ones},
        x_zero=found.x.z,
        y_zero=found.y.z,
        lo=low,
        hi=high,
    )
    types = {"XT": QUANTISED_TYPES.index(found.x.dtype), "WT": 0 if w.symmetric else 2}
    types |= {"YT": QUANTISED_TYPES.index(found.y.dtype)}
    bias = c.const(found.bias.astype(np.int32), "b")
    operands: list[Any] = [m.y, m.x, c.const(w.stored, "w"), bias]
    c.call(
        "aot_qconv_ref",
        *operands,
        scales.mult,
        scales.shift,
        params,
        instance={**scales.instance, **types},
        macs=rows * w.data.size,
    )


# -- two computed operands ----------------------------------------------------------------------


def _wide_scale(left: Quantisation, right: Quantisation, y: Quantisation) -> float:
    """What one unit of the sum is in quantised values of the result."""
    return float(left.s) * float(right.s) / float(y.s)


def _is_wide(*operands: Quantisation) -> bool:
    return any(k.dtype in (S16, U16) for k in operands)


@product.check
def product_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.a.rank >= 2 and m.b.rank >= 2, f"ranks {m.a.rank}, {m.b.rank} (needs 2 or more)"
    yield from constant_bounds(m)
    yield 0 not in m.a.shape + m.b.shape, "an empty tensor"
    if (yield from all_hold(known(m, "a", "b", "y"))):
        a, b, y = (quantisation(m, k) for k in "aby")
        reason = refusal(float(a.s), b.scale, float(y.s))
        yield not reason, reason
        furthest = [max(abs(v - k.z) for v in k.range) for k in (a, b)]
        largest = furthest[0] * furthest[1] * m.a.shape[-1]
        most = MAX_WIDE_SUM if _is_wide(a, b, y) else MAX_SUM
        yield largest < most, f"sums up to {largest} (needs less than {most})"
        if _is_wide(a, b, y) and not reason:
            steps = _wide_scale(a, b, y)
            usual = WIDE_SCALES[0] < steps < WIDE_SCALES[1]
            yield usual, f"a sum of one becomes {steps:g} steps of a 16-bit result (less than 1)"
    yield from collapses(m.y.shape[:-2], [m.a.shape[:-2], m.b.shape[:-2]])


def _wide(c: Recorder, left: Quantisation, right: Quantisation, y: Quantisation) -> Requant:
    """The multiplier of sums of 64 bits."""
    found = ratio(_wide_scale(left, right, y), 0)
    mult, shift = np.array([found["mult"]], np.int32), np.array([found["shift"] - 31], np.int8)
    return Requant(c.const(mult, "mult"), c.const(shift, "shift"), {"RQ": WIDE})


@product.lower
def product_to_kernel(c: Recorder, m: Match) -> None:
    a, b, y = (quantisation(m, k) for k in "aby")
    scales = _wide(c, a, b, y) if _is_wide(a, b, y) else requant(c, a.s, b.scale, y.s, "fc")
    batch = collapse(m.y.shape[:-2], [m.a.shape[:-2], m.b.shape[:-2]])
    rows, depth = m.a.shape[-2:]
    columns = m.b.shape[-1]
    low, high = bounds(m, y)
    params = c.params(
        dims=batch.dims,
        a_stride=tuple(s * rows * depth for s in batch.strides[0]),
        b_stride=tuple(s * depth * columns for s in batch.strides[1]),
        m=rows,
        k=depth,
        n=columns,
        a_zero=a.z,
        b_zero=b.z,
        y_zero=y.z,
        lo=low,
        hi=high,
    )
    types = {f"{k.upper()}T": QUANTISED_TYPES.index(quantisation(m, k).dtype) for k in "aby"}
    c.call(
        "aot_qmatmul_ref",
        m.y,
        m.a,
        m.b,
        scales.mult,
        scales.shift,
        params,
        instance={"RQ": scales.instance["RQ"], **types},
        macs=math.prod(m.y.shape) * depth,
    )


@product.cases
def product_cases() -> Iterator[Case]:
    """A product of two tensors of quantised values."""
    for left, right, dtype in (
        ((3, 5), (5, 7), "int8"),
        ((2, 3, 4, 6), (3, 6, 5), "int8"),
        ((2, 3, 6), (2, 6, 4), "uint8"),
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


PATTERNS: tuple[Pattern, ...] = (dense, product)
