# SPDX-License-Identifier: Apache-2.0
"""A matched Softmax between quantised values: its operands and its tables as one record.

The table of 8-bit ones holds exp(-d * scale) for every difference d to the largest quantised value.
In TensorFlow Lite's arithmetic it has its table and reciprocal, bit for bit; otherwise results are
within one quantised value of float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, S16, U8
from aot.ir.graph_nodes import Array
from aot.vendor.cases import Case
from aot.vendor.fixed_point import exp_negative, multiply
from aot.vendor.match import Match
from aot.vendor.pattern import OP, OpPat
from aot.vendor.quantisation import Quantisation, all_hold, dequantised, known, quantisation, told
from aot.vendor.quantised_cases import kind, quantised_case, quantised_values
from aot.vendor.requant import FLOAT, TFLITE, fixed_point

#: The longest axis: its sum of powers, each less than 2^-30 off, decides less than half a quantised
#: value.
LONGEST = 2**14
#: The scales of x between which there are tables, and the smallest one of y.
SCALES, RESULT = (0.0, 2.0**20), 2.0**-12
#: Fraction bits of the table for rows of up to 2^7 elements; longer rows have fewer.
TABLE_BITS = 24
#: Integer bits of TFLite's scaled differences.
DIFF_BITS = 5
#: Intervals of TFLite's 16-bit tables, and the range of the differences they take.
INTERVALS, WIDE_RANGE = 512, 10.0
#: The scale of TFLite's 16-bit results.
WIDE_RESULT = 2.0**-15


@dataclass(frozen=True, slots=True)
class QuantisedSoftmax:
    """A Softmax along `axis` (counted from 0) of quantised values `x`, made once by `of`.

    `y` are the quantised values of the result as int8. `table` has 256 int32 numbers with `bits`
    fraction bits: the powers of e of the differences 0 to 255. With `tflite` they are Q0.31, as
    TensorFlow Lite has them, which is so only where results are quantised values of 1/256 from -128
    on.
    """

    axis: int
    x: Quantisation
    y: Quantisation
    bits: int
    table: Array
    tflite: bool

    @classmethod
    def of(cls, m: Match, rq: int = FLOAT) -> QuantisedSoftmax:
        """The record of a match of `pattern` in the arithmetic `rq`, once `checks` hold."""
        x, y = quantisation(m, "x"), quantisation(m, "y").signed()
        axis = softmax_axis(m)
        extent, step = m.x.shape[axis], float(x.s)
        tflite = rq == TFLITE and y.z == -128 and float(y.s) == 1 / 256
        table = tflite_table(step) if tflite else rounded_table(step, extent)
        return cls(axis, x, y, table_bits(extent), table, tflite)

    @property
    def last(self) -> int:
        """The largest difference to the maximum whose power of e is not 0 in the table."""
        return int(np.flatnonzero(self.table)[-1])

    @property
    def fixed_point(self) -> dict[str, int]:
        """TensorFlow Lite's fixed point: fields `mult` (Q31), `shift` to the left, and `least`, the
        smallest difference that has a power."""
        return tflite_scale(float(self.x.s))

    @property
    def unit(self) -> int:
        """Quantised values per 1.0 of the result, with 16 fraction bits; 0 in TensorFlow Lite's
        arithmetic."""
        return 0 if self.tflite else round(2**16 / float(self.y.s))

    @staticmethod
    def pattern() -> OpPat:
        """Softmax of quantised values `x`; the node is called `soft`."""
        return OP.Softmax(dequantised("x"), _outputs=["soft"])

    @staticmethod
    @told
    def checks(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that integers can compute the Softmax, after which `of` may make the record.

        Returned is whether all hold.
        """
        if (yield from all_hold(known(m, "x", "y", types=(S8, U8)))):
            yield from softmax_fits(m, SCALES, RESULT)

    @staticmethod
    def wide(m: Match) -> WideSoftmax:
        """The record of a match of int16 quantised values, once `wide_checks` hold."""
        return WideSoftmax.of(m)

    @staticmethod
    def wide_checks(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that TensorFlow Lite's tables compute the Softmax of int16 quantised values."""
        yield from WideSoftmax.checks(m)

    @staticmethod
    def cases() -> Iterator[Case]:
        """Test cases of `pattern`."""
        for shape, step, axis in (((2, 10), 0.13, -1), ((3, 7, 5), 0.021, 1), ((1, 300), 0.6, 1)):
            attrs: dict[str, Any] = {"soft.axis": axis}
            yield quantised_case(
                quantised_values(*shape), *kind(step, 4), *kind(1 / 256, -128), **attrs
            )
        rows: dict[str, Any] = {"soft.axis": 1}
        from_unsigned, to = kind(0.04, 99, "uint8"), kind(0.00391, 0, "uint8")
        yield quantised_case(quantised_values(4, 12, dtype="uint8"), *from_unsigned, *to, **rows)


@dataclass(frozen=True, slots=True)
class WideSoftmax:
    """A Softmax along `axis` (counted from 0) of 16-bit quantised values `x`, made once by `of`."""

    axis: int
    x: Quantisation
    y: Quantisation

    @classmethod
    def of(cls, m: Match) -> WideSoftmax:
        """The record of a match of QuantisedSoftmax.pattern with known parameters."""
        return cls(softmax_axis(m), quantisation(m, "x"), quantisation(m, "y"))

    @property
    def tflite(self) -> bool:
        """Whether the parameters are those TensorFlow Lite asks for: int16, zero points 0, and y's
        scale 1 / 32768."""
        x, y = self.x, self.y
        return x.dtype is y.dtype is S16 and x.z == y.z == 0 and float(y.s) == WIDE_RESULT

    @property
    def tables(self) -> tuple[Array, Array]:
        """TensorFlow Lite's tables of exp and of 1 / (1 + v), int16 [513] each."""
        over = tflite_pieces(lambda v: 1 / (1 + v), 0, 1)
        return tflite_pieces(np.exp, -WIDE_RANGE, 0), over

    @property
    def fixed_point(self) -> dict[str, int]:
        """Fields `mult` (Q31) and `shift`: a difference of x as steps of the table's range."""
        mult, shift = fixed_point(float(self.x.s) / (WIDE_RANGE / 65535))
        return {"mult": mult, "shift": shift}

    @staticmethod
    def checks(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that TensorFlow Lite's tables compute the Softmax of int16 quantised values."""
        if (yield from all_hold(known(m, "x", "y", types=(S16,)))):
            yield from softmax_fits(m, SCALES, WIDE_RESULT)
            zeros = quantisation(m, "x").z, quantisation(m, "y").z
            exact = WideSoftmax.of(m).tflite
            step = float(quantisation(m, "y").s)
            yield exact, f"zero points {zeros}, scale {step:g} (needs 0, 0 and 1/32768)"


def tflite_pieces(function: Callable[[Array], Array], low: float, high: float) -> Array:
    """TFLite's table of a function of [low, high] with values of [-1, 1]: int16 [513].

    An entry is the value, less half of what the line to the next one is above the middle's.
    """
    step = (high - low) / INTERVALS
    start = low + np.arange(INTERVALS) * step
    following = low + np.arange(1, INTERVALS + 1) * step

    def near(v: Array) -> Array:
        """The numbers rounded to nearest, halves away from zero."""
        return np.asarray(np.trunc(v + np.copysign(0.5, v)))

    first = near(function(start) * 32768)
    middle = near((function(following) * 32768 + first) / 2)
    bias = near((middle - near(function(start + step / 2) * 32768)) / 2)
    last = near(function(np.array([high])) * 32768)
    both = np.concatenate([first - bias, last])
    return np.asarray(np.clip(both, -32768, 32767).astype(np.int16))


def softmax_axis(m: Match) -> int:
    """The axis of the node `soft`, counted from the front."""
    axis: int = int(m.soft.attr("axis", -1)) % m.x.rank
    return axis


def softmax_fits(
    m: Match, scales: tuple[float, float], result: float
) -> Iterator[tuple[bool, str]]:
    """Checks of shape and scales: x has one within `scales` (exclusive), y one from
    `result` to 16.
    """
    yield m.x.rank > 0 and 0 not in m.x.shape, f"shape {list(m.x.shape)}"
    if m.x.rank > 0:
        extent = m.x.shape[softmax_axis(m)]
        yield extent <= LONGEST, f"{extent} elements along the axis (needs at most {LONGEST})"
        x, y = float(quantisation(m, "x").s), float(quantisation(m, "y").s)
        yield scales[0] < x < scales[1], f"scale {x:g}"
        yield result <= y <= 16, f"scale {y:g} of the result"


def table_bits(extent: int) -> int:
    """Fraction bits with which a sum of `extent` entries stays below 2^31."""
    longest = math.ceil(math.log2(max(1, extent)))
    return TABLE_BITS - max(0, longest - (31 - TABLE_BITS - 1))


def rounded_table(step: float, extent: int) -> Array:
    """exp(-d * step) for d = 0..255 as int32 with `table_bits(extent)` fraction bits."""
    powers = np.exp(-np.arange(256, dtype=np.float64) * step)
    return np.rint(powers * 2.0 ** table_bits(extent)).astype(np.int32)


def tflite_scale(step: float) -> dict[str, int]:
    """Fields `mult`, `shift` and `least` of quantised values whose scale is `step`."""
    real = min(float(np.float32(step)) * 2.0 ** (31 - DIFF_BITS), 2.0**31 - 1)
    mult, shift = fixed_point(real)
    radius = math.floor(((1 << DIFF_BITS) - 1) * 2.0 ** (31 - DIFF_BITS) / 2.0**shift)
    return {"mult": mult, "shift": shift, "least": -radius}


def tflite_table(step: float) -> Array:
    """TFLite's exp(-d * step) for d = 0..255 as int32 Q0.31; 0 where its fixed point cannot
    hold d.
    """
    scale = tflite_scale(step)
    differences = -np.arange(256, dtype=np.int64)
    within = np.maximum(differences, scale["least"])
    scaled = multiply(within, scale["mult"], scale["shift"])
    powers = exp_negative(scaled, DIFF_BITS)
    return np.where(differences < scale["least"], 0, powers).astype(np.int32)
