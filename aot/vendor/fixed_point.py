# SPDX-License-Identifier: Apache-2.0
"""Fixed-point arithmetic of TensorFlow Lite's reference kernels on int64 arrays.

What a table at compile time must hold; kernels compute the same in runtime_c/kernels.
"""

from __future__ import annotations

import math

import numpy as np

from aot.ir.graph_nodes import Array

#: The largest number of Q0.31, which stands for 1 as in TensorFlow Lite.
ONE = 2**31 - 1


def high_product(values: Array, b: Array | int) -> Array:
    """`values` times `b`, divided by 2^31 and rounded to nearest (halves away from zero).

    This is the high half of the doubled product of two Q31 numbers.
    """
    product = np.asarray(values, np.int64) * np.asarray(b, np.int64)
    nudge = np.where(product >= 0, 2**30, 1 - 2**30)
    total = product + nudge
    return np.asarray(np.where(total >= 0, total >> 31, -((-total) >> 31)), np.int64)


def shifted_right(values: Array, by: int) -> Array:
    """values / 2^by, rounded to nearest, halves away from zero."""
    values = np.asarray(values, np.int64)
    mask = (1 << by) - 1
    threshold = (mask >> 1) + (values < 0)
    return np.asarray((values >> by) + ((values & mask) > threshold), np.int64)


def multiply(values: Array, mult: int, shift: int) -> Array:
    """`values` times a quantised multiplier: `mult` / 2^31 * 2^`shift`, rounded as TensorFlow Lite
    does.
    """
    left, right = max(shift, 0), max(-shift, 0)
    return shifted_right(high_product(np.asarray(values, np.int64) << left, mult), right)


def saturated_left(values: Array, by: int) -> Array:
    """`values` * 2^`by`, limited to the range of int32."""
    limited: Array = np.clip(np.asarray(values, np.int64) << by, -(2**31), ONE)
    return limited


def exp_negative(values: Array, integer_bits: int) -> Array:
    """exp of values <= 0 in fixed point with that many integer bits, as Q0.31.

    The fraction of a quarter by a polynomial, whole quarters by constants of powers of two.
    """
    values = np.asarray(values, np.int64)
    fraction = 31 - integer_bits
    quarter = 1 << (fraction - 2)
    mask = quarter - 1
    rest = (values & mask) - quarter
    result = _exp_small(saturated_left(rest, integer_bits))
    remainder = rest - values
    for exponent in range(-2, integer_bits):
        bit = 1 << (fraction + exponent)
        factor = round(math.exp(-(2.0**exponent)) * 2**31)
        result = np.where(remainder & bit, high_product(result, factor), result)
    if integer_bits > 5:
        result = np.where(values < -(1 << (36 - integer_bits)), 0, result)
    return np.asarray(np.where(values == 0, ONE, result), np.int64)


def _exp_small(values: Array) -> Array:
    """exp of [-1/4, 0) in Q0.31: a Taylor polynomial around -1/8."""
    centre = 1895147668
    third = 715827883
    x = values + (1 << 28)
    x2 = high_product(x, x)
    x3 = high_product(x2, x)
    x4 = high_product(x2, x2)
    quarter_x4 = shifted_right(x4, 2)
    cubic = shifted_right(high_product(quarter_x4 + x3, third) + x2, 1)
    return np.asarray(centre + high_product(np.full_like(values, centre), x + cubic), np.int64)


def ratio(value: float, bits: int) -> dict[str, int]:
    """Fields mult, of 31 bits, and shift, at most 62: mult / 2^shift = value / 2^bits."""
    fraction, exponent = math.frexp(value)
    mult, shift = round(fraction * 2**31), bits + 31 - exponent
    drop = max(int(mult == 2**31), shift - 62, 0)
    return {"mult": mult >> drop, "shift": shift - drop}


def significands(*values: np.float32) -> dict[str, tuple[int, ...]]:
    """Fields sig, of 24 bits, and exp: value = sig * 2^exp (runtime_c/kernels/aot_qexact.h)."""
    parts = [math.frexp(float(v)) for v in values]
    return {"sig": tuple(int(f * 2**24) for f, _ in parts), "exp": tuple(e - 24 for _, e in parts)}
