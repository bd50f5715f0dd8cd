# SPDX-License-Identifier: Apache-2.0
"""MatMul and Gemm between codes: QuantizeLinear([Relu | Clip](MatMul(codes, weights) [+ bias])).

Constant symmetric int8 weights go to the target's fully-connected kernel, other constant ones to
aot_qconv_ref (a convolution of one position), two computed operands to aot_qmatmul_ref; there
16-bit codes have sums of 64 bits, scaled in fixed point and rounded once, whatever `--requant` is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.dtypes import S8, S16, U8, U16
from aot.ops.broadcast import collapse
from aot.ops.quantised.cases import codes_of, fc_cases, scale, zero
from aot.ops.quantised.common import (
    CODE_TYPES,
    OP,
    Array,
    Codes,
    Requant,
    activated,
    bounds,
    codes,
    constant_bounds,
    dequantised,
    finish,
    known,
    quantised,
    requant,
    signed_input,
    signed_output,
)
from aot.ops.quantised.conv import (
    Weights,
    emit,
    kernels_of,
    product_fits,
    product_of,
    target_of,
    weights_known,
)
from aot.ops.quantised.fixed import ratio
from aot.ops.quantised.requant import MAX_SUM, TFLITE, refusal, rq_of
from aot.ops.quantised.shapes import QFc
from aot.vendor.backend import Pattern
from aot.vendor.cases import Case, case
from aot.vendor.match import Match
from aot.vendor.pattern import Pat, Var, either
from aot.vendor.recorder import Recorder

#: AOT_QMATMUL_WIDE of aot_qmatmul_ref.h, and what its sums stay below.
WIDE, MAX_WIDE_SUM = 4, 2**62
#: What one unit of a wide sum may be in codes of the result.
WIDE_SCALES = 2.0**-62, 1.0


def _sums(x: Pat, w: Pat) -> Pat:
    product = OP.MatMul(x, w, _outputs=["dot"])
    return either(
        OP.Add(product, dequantised("b")),
        OP.Gemm(x, w, dequantised("b"), _outputs=["dot"]),
        OP.Add(product, Var("f")),
        OP.Gemm(x, w, Var("f"), _outputs=["dot"], _optional=1),
        product,
    )


dense = quantised("qdense", activated(_sums(dequantised("x"), dequantised("w"))))
product = quantised(
    "qmatmul",
    activated(OP.MatMul(dequantised("a"), dequantised("b"), _outputs=["dot"])),
    priority=-1,
)


# -- constant weights ---------------------------------------------------------------------------


def _axis(m: Match) -> int:
    """The axis of the output channels in w."""
    return 0 if m.dot.attr("transB", 0) else 1


@dense.check
def dense_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.x.rank >= 2, f"rank {m.x.rank} (needs 2 or more)"
    yield m.w.rank == 2, f"weights of rank {m.w.rank} (needs 2)"
    yield from constant_bounds(m)
    plain = not m.dot.attr("transA", 0)
    yield plain, "transA 1 (needs 0)"
    one = all(float(m.dot.attr(k, 1.0)) == 1.0 for k in ("alpha", "beta"))
    yield one, "Gemm with alpha or beta other than 1"
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    asked = list(known(m, "x", "y"))
    if m.w.rank == 2:
        asked += weights_known(m, (_axis(m),))
        yield m.y.shape == (*m.x.shape[:-1], m.w.shape[_axis(m)]), "a bias that adds axes"
    yield from asked
    bias = m.values.get("b") or m.values.get("f")
    if bias is not None and math.prod(bias.shape) > 1:
        yield bias.shape[-1] == math.prod(bias.shape), f"a bias of shape {list(bias.shape)}"
    if m.w.rank == 2 and all(ok for ok, _ in asked):
        yield from product_fits(m, _axis(m))


@dense.lower
def dense_to_kernel(c: Recorder, m: Match) -> None:
    found = product_of(m, _axis(m), rq_of(c))
    w = found.w
    fast = w.symmetric and all(codes(m, k).dtype in (S8, U8) for k in "xy")
    if fast:
        _fast(c, m, w, found.bias)
    else:
        _general(c, m, w, found.bias)


def _fast(c: Recorder, m: Match, w: Weights, bias: Array) -> None:
    x, y = codes(m, "x").signed(), codes(m, "y").signed()
    scales = _scales(c, x.s, w, y.s)
    low, high = bounds(m, codes(m, "y"))
    offset = codes(m, "y").z - y.z
    shape = QFc(
        m=math.prod(m.x.shape[:-1]),
        k=m.x.shape[-1],
        n=m.y.shape[-1],
        x_zero=x.z,
        y_zero=y.z,
        lo=low - offset,
        hi=high - offset,
        rq=scales.instance["RQ"],
        per_channel=bool(scales.instance["PC"]),
        **target_of(c),
    )
    folded = (bias - x.z * w.data.sum(axis=1)).astype(np.int32)
    call = kernels_of(c.target.simd).plan_fc(shape, w.stored, folded, c.objective)
    source, made = signed_input(c, m.x), signed_output(c, m.y)
    emit(c, call, made, source, scales, shape.fields(), shape.macs)
    finish(c, m.y, made)


def _scales(c: Recorder, sx: np.float32, w: Weights, sy: np.float32) -> Requant:
    """Multipliers; TFLite rounds the product of two scales per tensor to float32 first."""
    if rq_of(c) == TFLITE and len(w.scale) == 1:
        return requant(c, np.float32(sx * w.scale[0]), np.ones(1, np.float32), sy)
    return requant(c, sx, w.scale, sy, "fc")


def _general(c: Recorder, m: Match, w: Weights, bias: Array) -> None:
    """Record aot_qconv_ref on one position per row."""
    x, y = codes(m, "x"), codes(m, "y")
    scales = requant(c, x.s, w.scale, y.s, "fc")
    low, high = bounds(m, y)
    rows, ones, none = math.prod(m.x.shape[:-1]), (1, 1, 1), (0, 0, 0)
    params = c.params(
        n=rows,
        ic=m.x.shape[-1],
        oc=m.y.shape[-1],
        groups=1,
        **{"in": ones, "out": ones, "k": ones, "s": ones, "d": ones, "pad": none, "up": ones},
        x_zero=x.z,
        y_zero=y.z,
        lo=low,
        hi=high,
    )
    types = {"XT": CODE_TYPES.index(x.dtype), "WT": 0 if w.symmetric else 2}
    types |= {"YT": CODE_TYPES.index(y.dtype)}
    operands: list[Any] = [m.y, m.x, c.const(w.stored, "w"), c.const(bias.astype(np.int32), "b")]
    c.call(
        "aot_qconv_ref",
        *operands,
        scales.mult,
        scales.shift,
        params,
        instance={**scales.instance, **types},
        macs=rows * w.data.size,
    )


@dense.cases
def dense_cases() -> Iterator[Case]:
    yield from fc_cases()


# -- two computed operands ----------------------------------------------------------------------


def _wide_scale(a: Codes, b: Codes, y: Codes) -> float:
    """What one unit of the sum is in codes of the result."""
    return float(a.s) * float(b.s) / float(y.s)


def _is_wide(*operands: Codes) -> bool:
    return any(k.dtype in (S16, U16) for k in operands)


@product.check
def product_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.a.rank >= 2 and m.b.rank >= 2, f"ranks {m.a.rank}, {m.b.rank} (needs 2 or more)"
    yield from constant_bounds(m)
    yield 0 not in m.a.shape + m.b.shape, "an empty tensor"
    asked = list(known(m, "a", "b", "y"))
    yield from asked
    if all(ok for ok, _ in asked):
        a, b, y = (codes(m, k) for k in "aby")
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
    try:
        collapse(m.y.shape[:-2], [m.a.shape[:-2], m.b.shape[:-2]])
    except UnsupportedError as error:
        yield False, error.what


def _wide(c: Recorder, a: Codes, b: Codes, y: Codes) -> Requant:
    """The multiplier of sums of 64 bits."""
    found = ratio(_wide_scale(a, b, y), 0)
    mult, shift = np.array([found["mult"]], np.int32), np.array([found["shift"] - 31], np.int8)
    return Requant(c.const(mult, "mult"), c.const(shift, "shift"), {"RQ": WIDE})


@product.lower
def product_to_kernel(c: Recorder, m: Match) -> None:
    a, b, y = (codes(m, k) for k in "aby")
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
    types = {f"{k.upper()}T": CODE_TYPES.index(codes(m, k).dtype) for k in "aby"}
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
    for left, right, dtype in (
        ((3, 5), (5, 7), "int8"),
        ((2, 3, 4, 6), (3, 6, 5), "int8"),
        ((2, 3, 6), (2, 6, 4), "uint8"),
        ((2, 3, 4, 6), (3, 6, 5), "int16"),
        ((4, 9), (3, 9, 7), "uint16"),
    ):
        a, b = codes_of(*left, dtype=dtype), codes_of(*right, dtype=dtype, seed=1)
        middle = 1 << 15 if dtype == "uint16" else 0
        low, other = zero(middle + 3, dtype), zero(middle + 9, dtype)
        # Results of 16 bits stay small enough for the reference's float32.
        sy = scale(0.09 if a.itemsize == 1 else 150.0)
        operands = [a, scale(0.02), low, b, scale(0.013), other, sy, low]
        yield case(*operands, const=(1, 2, 4, 5, 6, 7))


PATTERNS: tuple[Pattern, ...] = (dense, product)
