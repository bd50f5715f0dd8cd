# SPDX-License-Identifier: Apache-2.0
"""Softmax between 8-bit codes: powers of e from a table of integers, no float at run time.

The table holds exp(-d * scale) for every difference d to the largest code, up to the first 0.
`--requant tflite` has TFLite's table and reciprocal, bit for bit; otherwise results are within one
code of float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, U8
from aot.ops.moves import split_at
from aot.ops.quantised.common import finish, quantised, signed_input, signed_output
from aot.vendor.cases import Case, case
from aot.vendor.codes import Array, codes, dequantised, known
from aot.vendor.fixed_point import exp_negative, multiply
from aot.vendor.match import Match
from aot.vendor.pattern import OP
from aot.vendor.quantised_cases import codes_of, scale, zero
from aot.vendor.recorder import Recorder
from aot.vendor.requant import TFLITE, fixed_point, rq_of

softmax = quantised("qsoftmax", OP.Softmax(dequantised("x"), _outputs=["soft"]))

#: Fraction bits of the table for rows of up to 2^7 elements; longer rows have fewer.
TABLE_BITS = 24
#: Integer bits of TFLite's scaled differences.
DIFF_BITS = 5


def _axis(m: Match) -> int:
    axis: int = int(m.soft.attr("axis", -1))
    rank: int = m.x.rank
    return axis % rank


def table_bits(extent: int) -> int:
    """Fraction bits with which a sum of `extent` entries stays below 2^31."""
    longest = math.ceil(math.log2(max(1, extent)))
    return TABLE_BITS - max(0, longest - (31 - TABLE_BITS - 1))


@softmax.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    asked = list(known(m, "x", "y", types=(S8, U8)))
    yield from asked
    yield m.x.rank > 0 and 0 not in m.x.shape, f"shape {list(m.x.shape)}"
    if m.x.rank == 0 or not all(ok for ok, _ in asked):
        return
    extent = m.x.shape[_axis(m)]
    yield extent <= 2**14, f"{extent} elements along the axis (needs at most {2**14})"
    y = codes(m, "y")
    yield 2.0**-12 <= float(y.s) <= 16, f"scale {y.s} of the result"
    yield 0 < float(codes(m, "x").s) < 2.0**20, f"scale {codes(m, 'x').s}"


def rounded_table(step: float, extent: int) -> Array:
    """exp(-d * step) for d = 0..255 with `table_bits(extent)` fraction bits."""
    powers = np.exp(-np.arange(256, dtype=np.float64) * step)
    return np.rint(powers * 2.0 ** table_bits(extent)).astype(np.int32)


def tflite_table(step: float) -> Array:
    """TFLite's exp of every difference as Q0.31; 0 below what its fixed point can hold."""
    real = min(float(np.float32(step)) * 2.0 ** (31 - DIFF_BITS), 2.0**31 - 1)
    mult, shift = fixed_point(real)
    largest = math.floor(((1 << DIFF_BITS) - 1) * 2.0 ** (31 - DIFF_BITS) / 2.0**shift)
    differences = -np.arange(256, dtype=np.int64)
    within = np.maximum(differences, -largest)
    scaled = multiply(within, mult, shift)
    return np.where(differences < -largest, 0, exp_negative(scaled, DIFF_BITS)).astype(np.int32)


@softmax.lower
def to_kernel(c: Recorder, m: Match) -> None:
    outer, extent, inner = split_at(m.x.shape, _axis(m))
    x, y = codes(m, "x"), codes(m, "y").signed()
    tflite = rq_of(c) == TFLITE and y.z == -128 and float(y.s) == 1 / 256
    data = tflite_table(float(x.s)) if tflite else rounded_table(float(x.s), extent)
    data = data[: int(np.flatnonzero(data)[-1]) + 2]  # what follows is 0
    params = c.params(
        outer=outer,
        axis=extent,
        inner=inner,
        unit=0 if tflite else round(2**16 / float(y.s)),
        bits=table_bits(extent),
        last=len(data) - 1,
        y_zero=y.z,
    )
    source, made = signed_input(c, m.x), signed_output(c, m.y)
    table = c.const(data, "table")
    instance = {"TFLITE": int(tflite)}
    c.call(
        "aot_qsoftmax_s8", made, source, table, params, instance=instance, inplace=[(made, source)]
    )
    finish(c, m.y, made)


@softmax.cases
def cases() -> Iterator[Case]:
    unit = (scale(1 / 256), zero(-128))
    for shape, step, axis in (((2, 10), 0.13, -1), ((3, 7, 5), 0.021, 1), ((1, 300), 0.6, 1)):
        attrs: dict[str, Any] = {"soft.axis": axis}
        yield case(codes_of(*shape), scale(step), zero(4), *unit, const=(1, 2, 3, 4), **attrs)
    wide = codes_of(4, 12, dtype="uint8")
    rows: dict[str, Any] = {"soft.axis": 1}
    out = (scale(0.00391), zero(0, "uint8"))
    yield case(wide, scale(0.04), zero(99, "uint8"), *out, const=(1, 2, 3, 4), **rows)
