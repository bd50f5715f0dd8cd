# SPDX-License-Identifier: Apache-2.0
"""Softmax and LogSoftmax between quantised values: powers of e from tables of integers, no float at
run time.

Softmax of 8-bit quantised values has a table of exp(-d * scale) for every difference d to the
largest quantised value, up to the first 0; results are within one quantised value of float32. Where
quantised values have 16 bits, and for LogSoftmax, the roundings of float32 are repeated but for
those of exp and of the order of a sum, so that nearly all quantised values are those of float32 and
none is off by more than one. `--requant tflite` has TFLite's tables and reciprocal, bit for bit,
where input and output have the parameters TFLite asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ops.quantised.common import (
    quantised,
    quantised_fields,
    signed_input,
    signed_result,
    some_wide,
    type_constants,
)
from aot.vendor import OP, Case, Match, Recorder
from aot.vendor.fixed_point import significands
from aot.vendor.quantisation import all_hold, dequantised, known, quantisation
from aot.vendor.quantised_cases import kind, quantised_case, quantised_values
from aot.vendor.quantised_softmax import QuantisedSoftmax, WideSoftmax, softmax_axis, softmax_fits
from aot.vendor.requant import TFLITE, rq_of
from aot.vendor.strided_copy import split_at

narrow = quantised(
    "qsoftmax",
    QuantisedSoftmax.pattern(),
    QuantisedSoftmax.checks,
    cases=QuantisedSoftmax.cases,
)
wide = quantised("qsoftmax16", QuantisedSoftmax.pattern())
log_softmax = quantised("qlogsoftmax", OP.LogSoftmax(dequantised("x"), _outputs=["soft"]))

#: Scales of x between which there are tables, and the smallest one of y.
SCALES, RESULT = (2.0**-40, 2.0**20), 2.0**-20
#: A larger exponent of the scale makes every difference of 16-bit quantised values a power of 0.
TOP_EXPONENT = -17
#: Fraction bits of the arguments of powers, at most, and the bits of `rate`.
MOST_BITS, RATE_BITS = 62, 32


# -- 8-bit quantised values
# -------------------------------------------------------------------------


@narrow.lower
def narrow_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qsoftmax_s8 with its table of powers, cut behind the first 0."""
    found = QuantisedSoftmax.of(m, rq_of(c))
    outer, extent, inner = split_at(m.x.shape, found.axis)
    data = found.table[: found.last + 2]  # what follows is 0
    params = c.params(
        outer=outer,
        axis=extent,
        inner=inner,
        unit=found.unit,
        bits=found.bits,
        last=len(data) - 1,
        y_zero=found.y.z,
    )
    source = signed_input(c, m.x)
    with signed_result(c, m.y) as made:
        c.call(
            "aot_qsoftmax_s8",
            made,
            source,
            c.const(data, "table"),
            params,
            instance={"TFLITE": int(found.tflite)},
            inplace=[(made, source)],
        )


# -- quantised values of 16 bits, and LogSoftmax of any
# ----------------------------------------------


@wide.check
def wide_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of a Softmax of which x or y has 16 bits."""
    yield from some_wide(m)
    yield from log_supported(m)


@log_softmax.check
def log_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of parameters, and of shape and scales within the fixed point."""
    if (yield from all_hold(known(m, "x", "y"))):
        yield from softmax_fits(m, SCALES, RESULT)


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


def _to_tflite(c: Recorder, m: Match, found: WideSoftmax) -> None:
    """Record aot_qsoftmax_s16 with TFLite's tables of exp and of 1 / (1 + v)."""
    outer, extent, inner = split_at(m.x.shape, found.axis)
    tables = (c.const(t, n) for t, n in zip(found.tables, ("exps", "overs"), strict=True))
    params = c.params(outer=outer, inner=inner, **found.fixed_point)
    kernel, instance = "aot_qsoftmax_s16", {"AXIS": extent}
    c.call(kernel, m.y, m.x, *tables, params, instance=instance, inplace=[(m.y, m.x)])


@wide.lower
@log_softmax.lower
def wide_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qsoftmax16, for Softmax or LogSoftmax; scratch holds the powers of a row."""
    log = m.soft.op_type == "LogSoftmax"
    found = WideSoftmax.of(m)
    if rq_of(c) == TFLITE and found.tflite and not log:
        return _to_tflite(c, m, found)
    outer, extent, inner = split_at(m.x.shape, softmax_axis(m))
    x, y = quantisation(m, "x"), quantisation(m, "y")
    both = significands(x.s, y.s)
    rate, bits = rate_of(both["exp"][0])
    fraction, exponent = math.frexp(1 / float(y.s))
    params = c.params(
        outer=outer,
        axis=extent,
        inner=inner,
        **both,
        rate=rate,
        bits=bits,
        # A fraction close to 1 may round to 2**31, which is no int32.
        unit=min(round(fraction * 2**31), 2**31 - 1),
        shift=31 - exponent,
        **quantised_fields(m, signed=False),
    )
    c.call(
        "aot_qsoftmax16",
        m.y,
        m.x,
        c.const(power_table(), "powers"),
        # A LogSoftmax needs the sum of the powers, a Softmax each of them again.
        c.scratch(4 if log else 4 * extent),
        params,
        instance={**type_constants(m), "LOG": int(log)},
        inplace=[(m.y, m.x)] if x.dtype.nbytes == y.dtype.nbytes else (),
    )
    return None


# -- cases -------------------------------------------------------------------------------


@wide.cases
def wide_cases() -> Iterator[Case]:
    """Softmax of quantised values of which x or y have 16 bits."""
    middle: dict[str, Any] = {"soft.axis": 1}
    unit, fine = kind(1 / 32768, 0, "int16"), kind(1 / 65535, 0, "uint16")
    yield quantised_case(
        quantised_values(3, 40, 5, dtype="int16"), *kind(3e-4, 0, "int16"), *unit, **middle
    )
    yield quantised_case(
        quantised_values(4, 300, dtype="uint16"), *kind(1e-4, 30000, "uint16"), *fine
    )
    few = quantised_values(4, 3, dtype="int16")
    yield quantised_case(few, *kind(0.5, -7, "int16"), *kind(1 / 256, -128))
    yield quantised_case(quantised_values(9, 2), *kind(0.01, 4), *fine)


@log_softmax.cases
def log_cases() -> Iterator[Case]:
    """LogSoftmax of quantised values of 8 and of 16 bits."""
    for dtype, step in (("int8", 0.1), ("uint8", 0.1), ("int16", 4e-4), ("uint16", 4e-4)):
        x = quantised_values(4, 30, dtype=dtype)
        yield quantised_case(x, *kind(step, 3, dtype), *kind(step, 100, dtype))
