# SPDX-License-Identifier: Apache-2.0
"""Div of two 8-bit quantised values; Add, Sub, Mul and Div of two 16-bit quantised values of one
type; their rescaling.

The bits that float32 gives, computed on integers (runtime_c/kernels/aot_qcalc.h). With `--requant
tflite` sums and products of int16 quantised values with zero points 0 are TFLite's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, S16, U8, U16
from aot.ops.binary import instances, space_fields
from aot.ops.broadcast import collapse, stored
from aot.ops.quantised.binary import declare, record
from aot.ops.quantised.common import quantised, quantised_fields
from aot.vendor import Case, Match, Recorder
from aot.vendor.fixed_point import significands
from aot.vendor.layouts import follow
from aot.vendor.quantisation import (
    activated,
    all_hold,
    constant_bounds,
    dequantised,
    known,
    quantisation,
)
from aot.vendor.quantised_cases import kind, quantised_case, quantised_values
from aot.vendor.quantised_pair import QuantisedPair
from aot.vendor.requant import TFLITE, fixed_point, rq_of

KINDS = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 2}  # OP of aot_qcalc.h
#: What is added to KINDS for the arithmetic of TFLite.
TFLITE_KINDS = 3
WIDE = (S16, U16)
HEADER = "aot_qcalc.h"
#: What one quantised value, product or quotient may become at most, in quantised values of the
#: result.
MOST_STEPS = 2.0**20
#: Fraction bits at most, and bits of the multipliers of sums and quotients, and of products.
MOST_BITS, MULT_BITS, PRODUCT_BITS = 62, 31, 30


def real(m: Match) -> tuple[float, float]:
    """(steps of y per step of a, per step of b); for a product or quotient the first is for
    both.
    """
    a, b, y = (float(quantisation(m, k).s) for k in "aby")
    kind = KINDS[m.op.op_type]
    return (a * b / y, 0.0) if kind == 1 else (a / b / y, 0.0) if kind == 2 else (a / y, b / y)


def _fits(m: Match, types: tuple[Any, ...]) -> Iterator[tuple[bool, str]]:
    """Checks that operands and result have one of `types` and scales that the fixed point can
    express.
    """
    if not (yield from QuantisedPair.operands_fit(m, types)):
        return
    kinds = [quantisation(m, k).dtype for k in "aby"]
    same = kinds[0] is kinds[1] is kinds[2] or set(kinds) <= {S8, U8}
    yield same, f"quantised values of {', '.join(str(k) for k in kinds)} (needs one type)"
    scales = [float(quantisation(m, k).s) for k in "aby"]
    usual = all(2.0**-40 < s < 2.0**40 for s in scales)
    yield usual, f"scales {scales}"
    large = usual and max(real(m)) >= MOST_STEPS
    yield not large, f"scales {scales}: a step of an operand is too large for the result"


quotient = declare("qdiv", "Div", partial(_fits, types=(S8, U8, *WIDE)))
total = declare("qadd16", "Add Sub", partial(_fits, types=WIDE))
product = declare("qmul16", "Mul", partial(_fits, types=WIDE))
rescaling = quantised("qrescale16", activated(dequantised("x")), priority=-1, layouts=follow)


def _scaled(
    scales: tuple[np.float32, ...], steps: tuple[float, float], width: int
) -> dict[str, Any]:
    """Multipliers in fixed point, as wide as `width` bits hold, and the scales themselves."""
    bits = min(MOST_BITS, width - 1 - math.floor(math.log2(max(steps))))
    mults = [min(round(r * 2.0**bits), 2**31 - 1) for r in steps]
    return {"a_mult": mults[0], "b_mult": mults[1], "bits": bits, **significands(*scales)}


def _exact_fields(m: Match) -> dict[str, Any]:
    """The fields that give the bits of float32: multipliers in fixed point, and the scales."""
    width = PRODUCT_BITS if KINDS[m.op.op_type] == 1 else MULT_BITS
    return _scaled(tuple(quantisation(m, k).s for k in "aby"), real(m), width)


def _tflite_fields(m: Match) -> dict[str, Any]:
    """The fields of TFLite's arithmetic (RQ 2): multipliers and shifts of a sum or of a product."""
    found = QuantisedPair.of(m)
    if KINDS[m.op.op_type] == 0:
        return {k: v for k, v in found.sum_fields(TFLITE)[1].items() if k != "offset"}
    pair = fixed_point(float(np.float32(found.a.s * found.b.s) / found.y.s))
    return dict(zip(("y_mult", "y_shift"), pair, strict=True))


def _like_tflite(c: Recorder, m: Match) -> bool:
    """Whether TFLite's arithmetic is used: asked for, a sum or product, int16 with zero
    points 0.
    """
    three = [quantisation(m, k) for k in "aby"]
    symmetric = all(k.dtype is S16 and k.z == 0 for k in three)
    return rq_of(c) == TFLITE and symmetric and KINDS[m.op.op_type] < 2


def _numbers(fields: dict[str, Any]) -> dict[str, Any]:
    """All fields of aot_qcalc_params that depend on the scales; those not in `fields` are
    neutral.
    """
    names = "a_mult b_mult y_mult a_shift b_shift y_shift".split()
    none = (0, 0, 0)
    return {k: 0 for k in names} | {"bits": 1, "sig": none, "exp": none} | fields


@quotient.lower
@total.lower
@product.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qcalc for a sum, product or quotient in the arithmetic that applies."""
    tflite = _like_tflite(c, m)
    fields = _tflite_fields(m) if tflite else _exact_fields(m)
    kernel = f"aot_qcalc_{quantisation(m, 'y').signed().dtype.short}"
    kind = KINDS[m.op.op_type] + (TFLITE_KINDS if tflite else 0)
    record(
        c, m, kernel, HEADER, {**_numbers(fields), "sign": QuantisedPair.of(m).sign}, {"OP": kind}
    )


def _pair_case(
    shapes: tuple[tuple[int, ...], tuple[int, ...], str], scales: tuple[float, float, float]
) -> Case:
    """A case of two operands of `shapes` (left, right, type) with scales of a, b and y."""
    left, right, dtype = shapes
    zeros = [0, 0, 0] if dtype == "int16" else [3, 17, 20]
    kinds = [kind(s, z, dtype) for s, z in zip(scales, zeros, strict=True)]
    a, b = quantised_values(*left, dtype=dtype), quantised_values(*right, dtype=dtype, seed=1)
    return quantised_case(a, *kinds[0], b, *kinds[1], *kinds[2], fed=(0, 3))


@quotient.cases
def quotient_cases() -> Iterator[Case]:
    """Div of quantised values: alike, broadcast, every int8 by nearly every int8."""
    for left, right, dtype in (
        ((2, 5, 3, 4), (2, 5, 3, 4), "int8"),
        ((2, 5, 3, 4), (1, 5, 1, 1), "int8"),
        ((3, 70), (3, 1), "uint8"),
        ((7, 9), (7, 9), "int16"),
    ):
        yield _pair_case((left, right, dtype), (0.031, 0.0173, 0.11))
    every = np.arange(-128, 128, dtype=np.int8).reshape(-1, 1)
    others = every[every != 17].reshape(1, -1)  # what x / 0 becomes is not defined
    steps = kind(0.031, 3), kind(0.0173, 17), kind(0.031 / 0.0173, 20)
    yield quantised_case(every, *steps[0], others, *steps[1], *steps[2], fed=(0, 3))


# -- rescaling: the sum with a constant 0, for TFLite the product with 1 ----------


@rescaling.check
def rescaling_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that x and y are 16-bit quantised values of one type and shape, with usual scales."""
    ready = yield from all_hold(known(m, "x", "y", types=WIDE))
    yield from constant_bounds(m)
    yield (
        m.x.dtype is m.y.dtype,
        f"quantised values of {m.x.dtype} and {m.y.dtype} (needs one type)",
    )
    yield m.x.shape == m.y.shape and 0 not in m.x.shape, f"shape {list(m.x.shape)}"
    if ready:
        scales = [float(quantisation(m, k).s) for k in "xy"]
        usual = all(2.0**-40 < s < 2.0**40 for s in scales)
        yield usual and scales[0] / scales[1] < MOST_STEPS, f"scales {scales}"


@rescaling.lower
def rescale(c: Recorder, m: Match) -> None:
    """Record a requantisation, y = x * sx / sy, as aot_qcalc with a constant as second operand.

    With `--requant tflite` and int16 quantised values without zero points it is done in TFLite's
    fixed point; else to the bits of float32.
    """
    x, y = quantisation(m, "x"), quantisation(m, "y")
    tflite = rq_of(c) == TFLITE and x.dtype is S16 and x.z == y.z == 0
    if tflite:
        found = fixed_point(float(x.s) / float(y.s))
        fields = dict(zip(("y_mult", "y_shift"), found, strict=True))
    else:
        fields = _scaled((x.s, np.float32(1), y.s), (float(x.s) / float(y.s), 0.0), MULT_BITS)
    fields_y = quantised_fields(m, signed=False)
    space = collapse(stored(m.y), [stored(m.x), ()])
    params = c.params(
        **space_fields(space, "ab"),
        **_numbers(fields),
        sign=1,
        # Fields call the operand x; this kernel has two, a and b.
        a_zero=fields_y.pop("x_zero"),
        b_zero=0,
        **fields_y,
    )
    other = c.const(np.array(int(tflite), y.dtype.numpy), "other")
    c.call(
        f"aot_qcalc_{y.dtype.short}",
        m.y,
        m.x,
        other,
        params,
        instance={**instances(space, "ab"), "OP": 1 + TFLITE_KINDS if tflite else 0},
        inplace=[(m.y, m.x)],
        header=HEADER,
    )


@rescaling.cases
def rescaling_cases() -> Iterator[Case]:
    """Quantised values of 16 bits with another scale and zero point."""
    for dtype in ("int16", "uint16"):
        steps = (*kind(3e-4, 7, dtype), *kind(4.1e-4, 30000, dtype))
        yield quantised_case(quantised_values(3, 5, 40, dtype=dtype), *steps)


# -- cases ------------------------------------------------------------

WIDE_SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...], str], ...] = (
    ((2, 5, 30, 4), (2, 5, 30, 4), "int16"),
    ((2, 5, 30, 4), (1, 5, 1, 1), "uint16"),
    ((3, 70), (3, 1), "int16"),
)


@total.cases
def total_cases() -> Iterator[Case]:
    """Add and Sub of quantised values of 16 bits: alike, broadcast."""
    for shapes, scales in (
        (WIDE_SHAPES[0], (3e-4, 2e-4, 4e-4)),
        (WIDE_SHAPES[1], (3e-4, 2e-4, 4e-4)),
        (WIDE_SHAPES[2], (3e-4, 2e-9, 3e-4)),
        (WIDE_SHAPES[0], (0.5, 0.25, 1.0)),
    ):
        yield _pair_case(shapes, scales)


@product.cases
def product_cases() -> Iterator[Case]:
    """Mul of quantised values of 16 bits: alike, broadcast."""
    for shapes in WIDE_SHAPES:
        yield _pair_case(shapes, (3e-4, 2e-4, 1.7e-3))
