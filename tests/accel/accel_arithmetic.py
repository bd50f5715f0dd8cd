# SPDX-License-Identifier: Apache-2.0
"""Requantisation and sums of quantised values on whole arrays, from their definitions.

It shares no code with the compiler or the C of the simulator: tests compare the bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aot.vendor.accel_sim.frontend import VSet
from aot.vendor.accel_sim.kinds import Kind, Rq

Array = np.ndarray[Any, Any]
Numbers = Array | np.int64
LIMIT = 2**21


def floats(bits: Numbers | int) -> Array:
    """float32 of bit patterns."""
    return (np.asarray(bits, np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.float32)


def wrap(v: Array) -> Array:
    """int64 taken modulo 2^32 as int32."""
    found: Array = (v & 0xFFFFFFFF).astype(np.uint32).view(np.int32).astype(np.int64)
    return found


def scaled(acc: Array, mult: Numbers) -> Array:
    """RQ 0: round(float32(acc) * scale), halves to even; mult holds the scale's bits."""
    with np.errstate(all="ignore"):
        product = acc.astype(np.float32) * floats(mult)
        limited = np.where(product >= -LIMIT, product, np.float32(-LIMIT))
        limited = np.where(limited > LIMIT, np.float32(LIMIT), limited)
    return np.rint(limited).astype(np.int64)


def doubling_high(a: Array, mult: Numbers) -> Array:
    """a * mult * 2^-31, halves upwards."""
    product = np.asarray(a, np.int64) * np.asarray(mult, np.int64)
    return wrap((product + (1 << 30)) >> 31)


def fixed(acc: Array, mult: Numbers, shift: Numbers) -> Array:
    """RQ 2: TensorFlow Lite's fixed point; shift < 0 is to the right; limited to -31 ... 30."""
    acc, mult, shift = np.broadcast_arrays(acc, mult, shift)
    left = np.clip(acc.astype(np.int64) << np.clip(shift, 0, 30), -(2**30 - 1), 2**30 - 1)
    low = doubling_high(np.where(shift < 0, acc, left), mult)
    right = np.clip(-shift, 1, 31)
    rounded = wrap(low + (low >> 31) + (np.int64(1) << (right - 1))) >> right
    found: Array = np.where(shift < 0, rounded, low)
    return found


def requantise(acc: Array, mult: Numbers, shift: Numbers, rq: int) -> Array:
    """The rescaled sum, before the zero point."""
    return fixed(acc, mult, shift) if rq == Rq.TFLITE else scaled(acc, mult)


def clamp(v: Array, lo: Array | int, hi: Array | int) -> Array:
    """hi wins only where v is not below lo, as in C."""
    found: Array = np.where(v < lo, lo, np.where(v > hi, hi, v))
    return found


def add_quantised(a: Array, b: Array, s: VSet) -> Array:
    """The sum of two quantised values as VSET1 and VSET2 of `s` say."""
    ma, mb, my = (np.int64(s.get("add", n)) for n in ("ma", "mb", "my"))
    kind, shift = s.get("rest", "kind"), s.get("rest", "sy")
    down = shift & 31
    if kind == Kind.TFLITE:
        sides = []
        for v, mult, z, sh in ((a, ma, "za", "sa"), (b, mb, "zb", "sb")):
            raised = (v.astype(np.int64) - s.get("rest", z)) << 20
            sides.append(fixed(raised, mult, np.int64(s.get("rest", sh))))
        total = wrap(sides[0] - sides[1] if s.get("rest", "minus") else sides[0] + sides[1])
        found = wrap(fixed(total, my, np.int64(shift)) + s.get("rest", "zy"))
    else:
        total = wrap(a.astype(np.int64) * ma + b.astype(np.int64) * mb + my)
        if kind == Kind.EVEN:
            total = wrap(total + ((total >> down) & 1))
        found = total >> down
    return clamp(found, s.get("rest", "lo"), s.get("rest", "hi"))


def _mul(a: int, b: int) -> int:
    product = a * b
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    return nudged // 2**31 if nudged >= 0 else -(-nudged // 2**31)


def _reciprocal(fraction: int) -> int:
    """1 / (1 + fraction) in Q0.31 by three Newton steps in Q2.29."""
    half = (fraction + 2**31) // 2
    x = 1515870810 + _mul(half, -1010580540)
    for _ in range(3):
        step = 4 * _mul(x, 2**29 - _mul(half, x))
        x += max(-(2**31), min(2**31 - 1, step))
    return 2**31 - 1 if x > (2**31 - 1) // 2 else 2 * x


def softmax(row: Array, table: Array, s: VSet) -> Array:
    """Softmax of the quantised values of one pixel; `table` are the 256 words of the LUT memory."""
    unit, bits = s.get("first", "mult") & 0xFFFFFFFF, s.get("first", "shift") & 31
    zero, last = s.get("first", "zero"), s.get("first", "za") & 255
    far = int(row.max()) - row.astype(np.int64)
    entries = [int(table[min(int(d), last)]) for d in far]
    if s.get("first", "rq") == Rq.TFLITE:
        total = sum(_half(e, 12) for e in entries) & 0xFFFFFFFF or 1
        lead = 32 - total.bit_length()
        scale = _reciprocal(((total << lead) & 0xFFFFFFFF) - 2**31)
        shift = 12 - lead + 23
        quantised = [0 if shift > 31 else _half(_mul(scale, e), shift) for e in entries]
    else:
        scale = ((unit << bits) // (sum(entries) & 0xFFFFFFFF or 1)) & 0xFFFFFFFF
        shift = bits + 16
        quantised = [((e & 0xFFFFFFFF) * scale + (1 << (shift - 1))) >> shift for e in entries]
        quantised = [min(c, 1 << 20) for c in quantised]
    return np.clip(np.array(quantised, np.int64) + zero, -128, 127)


def _half(v: int, by: int) -> int:
    """v / 2^by to nearest, halves away from zero."""
    mask = (1 << by) - 1
    return (v >> by) + int((v & mask) > (mask >> 1) + (v < 0))
