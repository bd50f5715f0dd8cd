# SPDX-License-Identifier: Apache-2.0
"""Multipliers of requantising kernels: see runtime_c/kernels/aot_requant.h for the arithmetics."""

from __future__ import annotations

import math

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.graph_nodes import Array
from aot.vendor.recorder import Recorder

#: The arithmetic that turns sums into quantised values in float32, the usual one (constant RQ of
#: the kernels: 0).
FLOAT = 0
#: The arithmetic on integers that gives the bits of FLOAT, for cores without FPU (RQ 1).
INTEGER = 1
#: The arithmetic of TensorFlow Lite's fixed point, asked for by `--requant tflite` (RQ: 2).
TFLITE = 2
#: No arithmetic: kernels hand on the sums themselves, AOT_REQUANT_NONE (RQ 3).
SUMS = 3

#: Sums of RQ 2 must stay below this, and every kernel's sums below 2^31.
MAX_SUM = 2**30
#: A scale of this or more is no sensible requantisation, and RQ 1 cannot express it.
MAX_SCALE = 32.0


def rq_of(c: Recorder) -> int:
    """The arithmetic of requantisation for this compilation: TFLITE, INTEGER or FLOAT.

    TFLite's if the user asks for it; on integers where the core has no FPU.
    """
    if c.options.requant == "tflite":
        return TFLITE
    return INTEGER if c.target.fpu == "none" else FLOAT


def scales(sx: float, sw: Array, sy: float) -> Array:
    """float32 scale of every channel: float32(float32(sx * sw) / sy)."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        product = np.float32(sx) * np.asarray(sw, np.float32).reshape(-1)
        return np.asarray(product / np.float32(sy), np.float32)


def refusal(sx: float, sw: Array, sy: float) -> str:
    """The reason why sums of these scales cannot be requantised; "" if they can.

    `sx` and `sy` are scales of operand and result, `sw` those of the weights.
    """
    given = [np.float32(sx), np.float32(sy), *np.asarray(sw, np.float32).reshape(-1)]
    for value in given:
        if not (np.isfinite(value) and value > 0):
            return f"scale {value} (needs a positive number)"
    worst = float(scales(sx, sw, sy).max())
    if not worst < MAX_SCALE:
        return f"a sum of one becomes {worst:g} steps of the result (needs less than 32)"
    return ""


def multipliers(
    sx: float, sw: Array, sy: float, rq: int, of: str = "conv"
) -> tuple[Array, Array | None]:
    """The multipliers (int32) and shifts (int8; None for FLOAT) of sx * sw / sy, per element of sw.

    TensorFlow Lite computes the quotient in float64 (`of` "conv"), from a float32 product for fully
    connected layers ("fc"), in float32 for products of two tensors ("mul").
    Raises UnsupportedError where `refusal` gives a reason.
    """
    reason = refusal(sx, sw, sy)
    if reason:
        raise UnsupportedError(f"requantisation: {reason}")
    if rq == FLOAT:
        return scales(sx, sw, sy).view(np.int32).copy(), None
    if rq == INTEGER:
        pairs = [_significand(float(s)) for s in scales(sx, sw, sy)]
    else:
        real = _tflite_scales(sx, sw, sy, of)
        pairs = [fixed_point(float(r)) for r in real]
    mult, shift = zip(*pairs, strict=True)
    return np.array(mult, np.int32), np.array(shift, np.int8)


def _tflite_scales(sx: float, sw: Array, sy: float, of: str) -> Array:
    """sx * sw / sy in float64, rounded to float32 where TensorFlow Lite rounds."""
    if of == "mul":
        return scales(sx, sw, sy).astype(np.float64)
    weights = np.asarray(sw, np.float32).reshape(-1)
    if of == "fc":
        return (np.float32(sx) * weights).astype(np.float64) / float(np.float32(sy))
    quotient: Array = float(np.float32(sx)) * weights.astype(np.float64) / float(np.float32(sy))
    return quotient


def _significand(scale: float) -> tuple[int, int]:
    """(mult, shift) with scale = mult * 2^-(25 + shift), exactly, for RQ 1.

    A scale below 2^-33 makes every sum 0. The significand moves left by up to 7 bits: more bits of
    the product to look at, but at most 15 behind the binary point, so that its rounding errors
    stay below one unit.
    """
    if scale < 2.0**-33:
        return 0, 15
    fraction, exponent = math.frexp(scale)
    mult, right = int(fraction * 2**24), 24 - exponent
    left = max(0, min(7, 40 - right))
    return mult << left, right + left - 25


def fixed_point(real: float) -> tuple[int, int]:
    """(Q31 multiplier, power of two) of a positive real multiplier as TensorFlow Lite has them."""
    fraction, exponent = math.frexp(real)
    fixed = math.floor(fraction * 2**31 + 0.5)
    if fixed == 2**31:
        fixed, exponent = fixed // 2, exponent + 1
    return (fixed, exponent) if exponent >= -31 else (0, 0)
