# SPDX-License-Identifier: Apache-2.0
"""Softmax from or to 16-bit codes, LogSoftmax between codes of any type: integers at run time.

The roundings of float32 are repeated but for those of exp and of the order of a sum, so that nearly
all codes are those of float32 and none is off by more than one. `--requant tflite` is TFLite's
16-bit kernel to the bit, where input and output have the parameters TFLite asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from aot.ir.dtypes import S16, U16
from aot.ops.moves import split_at
from aot.ops.quantised.common import quantised
from aot.vendor.cases import Case, case
from aot.vendor.codes import CODE_TYPES, Array, codes, dequantised, known
from aot.vendor.fixed_point import significands
from aot.vendor.match import Match
from aot.vendor.pattern import OP
from aot.vendor.quantised_cases import codes_of, scale, zero
from aot.vendor.recorder import Recorder
from aot.vendor.requant import TFLITE, fixed_point, rq_of

softmax = quantised("qsoftmax16", OP.Softmax(dequantised("x"), _outputs=["soft"]))
log_softmax = quantised("qlogsoftmax", OP.LogSoftmax(dequantised("x"), _outputs=["soft"]))

#: The longest axis: its sum of powers, each less than 2^-30 off, decides less than half a code.
LONGEST = 2**14
#: A larger exponent of the scale makes every difference of codes a power of 0.
TOP_EXPONENT = -17
#: Fraction bits of the arguments of powers, at most, and the bits of `rate`.
MOST_BITS, RATE_BITS = 62, 32
#: Intervals of TFLite's tables, and the range of the differences they take.
INTERVALS, TFLITE_RANGE = 512, 10.0


def power_table() -> Array:
    """2^(-i/64) in Q1.31, uint32 [64].

    With the cubic polynomial between (2^-35.7 off), truncated products and one rounding a power
    is less than 2^-30 off.
    """
    return np.asarray(np.rint(2.0 ** (31 - np.arange(64) / 64)), np.uint32)


def rate_of(exponent: int) -> tuple[int, int]:
    """(rate, bits): log2(e) * 2^(exponent + 16) = rate / 2^bits, rate below 2^32."""
    exponent = min(exponent, TOP_EXPONENT)
    bits = min(MOST_BITS, RATE_BITS - 1 - math.floor(math.log2(math.log2(math.e))) - exponent - 16)
    return round(math.log2(math.e) * 2.0 ** (exponent + 16 + bits)), bits


def tflite_table(function: Callable[[Array], Array], low: float, high: float) -> Array:
    """TFLite's table of a function of [low, high] with values of [-1, 1]: int16 [513].

    An entry is the value, less half of what the line to the next one is above the middle's.
    """
    step = (high - low) / INTERVALS
    start = low + np.arange(INTERVALS) * step
    following = low + np.arange(1, INTERVALS + 1) * step

    def near(v: Array) -> Array:
        return np.asarray(np.trunc(v + np.copysign(0.5, v)))

    first = near(function(start) * 32768)
    middle = near((function(following) * 32768 + first) / 2)
    bias = near((middle - near(function(start + step / 2) * 32768)) / 2)
    last = near(function(np.array([high])) * 32768)
    both = np.concatenate([first - bias, last])
    return np.asarray(np.clip(both, -32768, 32767).astype(np.int16))


def _axis(m: Match) -> int:
    axis: int = int(m.soft.attr("axis", -1))
    rank: int = m.x.rank
    return axis % rank


def _fits(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.x.rank > 0 and 0 not in m.x.shape, f"shape {list(m.x.shape)}"
    if m.x.rank == 0 or not all(ok for ok, _ in known(m, "x", "y")):
        return
    extent = m.x.shape[_axis(m)]
    yield extent <= LONGEST, f"{extent} elements along the axis (needs at most {LONGEST})"
    x, y = float(codes(m, "x").s), float(codes(m, "y").s)
    yield 2.0**-40 < x < 2.0**20, f"scale {x:g}"
    yield 2.0**-20 <= y <= 16, f"scale {y:g} of the result"


@softmax.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield from known(m, "x", "y")
    wide = m.x.dtype in (S16, U16) or m.y.dtype in (S16, U16)
    yield wide, f"codes of {m.x.dtype} and {m.y.dtype} (needs 16 bits)"
    yield from _fits(m)


@log_softmax.check
def log_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield from known(m, "x", "y")
    yield from _fits(m)


def _like_tflite(c: Recorder, m: Match) -> bool:
    x, y = codes(m, "x"), codes(m, "y")
    types = x.dtype is S16 and y.dtype is S16 and x.z == y.z == 0
    return rq_of(c) == TFLITE and types and float(y.s) == 1 / 32768


def _to_tflite(c: Recorder, m: Match) -> None:
    outer, extent, inner = split_at(m.x.shape, _axis(m))
    real = float(codes(m, "x").s) / (TFLITE_RANGE / 65535)
    mult, shift = fixed_point(real)
    c.call(
        "aot_qsoftmax_s16",
        m.y,
        m.x,
        c.const(tflite_table(np.exp, -TFLITE_RANGE, 0), "exps"),
        c.const(tflite_table(lambda v: 1 / (1 + v), 0, 1), "overs"),
        c.params(outer=outer, inner=inner, mult=mult, shift=shift),
        instance={"AXIS": extent},
        inplace=[(m.y, m.x)],
    )


def _to_kernel(c: Recorder, m: Match, log: int) -> None:
    outer, extent, inner = split_at(m.x.shape, _axis(m))
    x, y = codes(m, "x"), codes(m, "y")
    both = significands(x.s, y.s)
    rate, bits = rate_of(both["exp"][0])
    fraction, exponent = math.frexp(1 / float(y.s))
    unit = min(round(fraction * 2**31), 2**31 - 1)
    low, high = y.range
    params = c.params(
        outer=outer,
        axis=extent,
        inner=inner,
        **both,
        rate=rate,
        bits=bits,
        unit=unit,
        shift=31 - exponent,
        x_zero=x.z,
        y_zero=y.z,
        lo=low,
        hi=high,
    )
    c.call(
        "aot_qsoftmax16",
        m.y,
        m.x,
        c.const(power_table(), "powers"),
        c.scratch(4 if log else 4 * extent),
        params,
        instance={"XT": CODE_TYPES.index(x.dtype), "YT": CODE_TYPES.index(y.dtype), "LOG": log},
        inplace=[(m.y, m.x)] if x.dtype.nbytes == y.dtype.nbytes else (),
    )


@softmax.lower
def to_kernel(c: Recorder, m: Match) -> None:
    if _like_tflite(c, m):
        _to_tflite(c, m)
    else:
        _to_kernel(c, m, 0)


@log_softmax.lower
def to_log_kernel(c: Recorder, m: Match) -> None:
    _to_kernel(c, m, 1)


@softmax.cases
def cases() -> Iterator[Case]:
    x, const = codes_of(3, 40, 5, dtype="int16"), (1, 2, 3, 4)
    middle: dict[str, Any] = {"soft.axis": 1}
    unit = (scale(1 / 32768), zero(0, "int16"))
    yield case(x, scale(3e-4), zero(0, "int16"), *unit, const=const, **middle)
    wide = codes_of(4, 300, dtype="uint16")
    fine = (scale(1 / 65535), zero(0, "uint16"))
    yield case(wide, scale(1e-4), zero(30000, "uint16"), *fine, const=const)
    narrow = (scale(1 / 256), zero(-128))
    yield case(codes_of(4, 3, dtype="int16"), scale(0.5), zero(-7, "int16"), *narrow, const=const)
    yield case(codes_of(9, 2), scale(0.01), zero(4), *fine, const=const)


@log_softmax.cases
def log_cases() -> Iterator[Case]:
    const = (1, 2, 3, 4)
    for dtype, step in (("int8", 0.1), ("uint8", 0.1), ("int16", 4e-4), ("uint16", 4e-4)):
        x, operands = codes_of(4, 30, dtype=dtype), (scale(step), zero(3, dtype))
        yield case(x, *operands, scale(step), zero(100, dtype), const=const)
