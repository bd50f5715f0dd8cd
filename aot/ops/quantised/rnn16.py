# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN of which x, Y or Y_h are 16-bit quantised values, with int8 weights, on
integers.

As qrnn.py, with states and sums wide enough that quantised values of 16 bits are those of float32
but for its own roundings (runtime_c/kernels/aot_qrnn_s16.h). The same for all values of
`--requant`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from aot.ir.dtypes import S16, U16
from aot.ir.graph_nodes import Array
from aot.ops.quantised.rnn import (
    Constants,
    biases_of,
    gates_fit,
    is_linear,
    layer_case,
    layer_fits,
    record,
    register,
    requant_fields,
    results_of,
    scales_of,
    states_and_last,
    tanh_table,
)
from aot.vendor import Case, Match, Recorder
from aot.vendor.quantisation import QUANTISED_TYPES, Quantisation, quantisation, value_of
from aot.vendor.quantised_cases import kind, quantised_values

#: AOT_QRNN_SUM_BITS: fraction bits of an argument while it is summed.
SUM_BITS = 32
#: How far the constants may move an argument.
ARGUMENT_ERROR = 2.0**-20


@dataclass(frozen=True, slots=True)
class Direction(Constants):
    """What the kernel of 16-bit quantised values reads."""

    x_shift: int
    h_shift: int
    h_bits: int
    argument: float  # the largest argument


def _multipliers(real: Array) -> tuple[Array, int]:
    """(scales of rows as integers of 31 bits, the fraction bits that these have)."""
    bits = math.floor(math.log2((2**31 - 1) / real.max()))
    return np.rint(real * 2.0**bits), bits


def direction(m: Match, index: int) -> Direction:
    """What the kernel of 16-bit quantised values reads for the direction `index`.

    Weights are int8, [gates * hidden, input] and [gates * hidden, hidden]; arguments of the gates
    have SUM_BITS fraction bits, the state as many bits as keep its sums in an int32. The bias takes
    off what the zero point of x adds.
    """
    x = quantisation(m, "x")
    w, r = np.asarray(m.w.data)[index], np.asarray(m.r.data)[index]
    wide = np.abs(w.astype(np.int64)).sum(1), np.abs(r.astype(np.int64)).sum(1)
    h_bits = 31 - max(1, math.ceil(math.log2(max(1, wide[1].max()))))
    scale_r = scales_of(m, "r")[index]
    real = float(x.s) * scales_of(m, "w")[index], scale_r * 2.0**-h_bits
    (mult_x, x_bits), (mult_h, all_h) = _multipliers(real[0]), _multipliers(real[1])
    own, recurrent = biases_of(m, index)
    hidden, both = m.r.shape[2], own + recurrent
    if is_linear(m):
        both = np.concatenate([both[:-hidden], own[-hidden:], recurrent[-hidden:]])
    reach = 1 + x.range[1] - x.range[0]  # x and x minus its zero point are below this
    x_shift, sums = x_bits - SUM_BITS, (wide[0] * reach, wide[1] * 2.0**h_bits)
    bias = np.rint(np.clip(both * 2.0**SUM_BITS, -(2.0**61), 2.0**61)).astype(np.int64)
    for i, inner in enumerate(w.astype(np.int64).sum(1)):
        centre = (int(inner) * x.z * int(mult_x[i])) >> max(0, x_shift)
        bias[i] -= max(-(2**61), min(centre, 2**61))
    most = 2 * sums[0] * real[0] + sums[1] * real[1] + np.abs(own) + np.abs(recurrent)
    rounded = 0.5 * (sums[0].max() * 2.0**-x_bits + sums[1].max() * 2.0**-all_h)
    return Direction(
        w,
        r,
        np.concatenate([mult_x, mult_h]).astype(np.int32),
        bias,
        float(rounded + scale_r.max() * 2.0**-h_bits + 4 * 2.0**-SUM_BITS),
        int(sums[0].max()),
        float((sums[1] * real[1] + np.abs(recurrent))[-hidden:].max()),
        x_shift,
        all_h - SUM_BITS,
        h_bits,
        float(most.max()),
    )


def _supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that a layer with 16-bit quantised values has no sum that may overflow."""
    if not (yield from layer_fits(m)):
        return
    wide = any(quantisation(m, k).dtype in (S16, U16) for k in ("x", *results_of(m)))
    yield wide, "quantised values of 8 bits (an LSTM, GRU, RNN of theirs)"
    for found in (direction(m, d) for d in range(m.r.shape[0])):
        shifts = found.x_shift, found.h_shift
        yield all(0 <= s <= 62 for s in shifts), f"multipliers beyond their sums by {shifts} bits"
        fits = found.product_sum < 2**31 and found.argument < 2.0**28 and found.h_bits >= 8
        yield fits, "sums of quantised values that may overflow"
        yield from gates_fit(m, found, ARGUMENT_ERROR)


def _made(prefix: str, to: Quantisation | None) -> dict[str, int]:
    """The fields that turn a state into quantised values `to`, with their limits; 0 for None."""
    low, high = (0, 0) if to is None else to.range
    return {**requant_fields(prefix, to), f"{prefix}_lo": low, f"{prefix}_hi": high}


def _to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qrnn_s16 per direction, with the types of x and of both results."""
    kinds = states_and_last(m, lambda name: quantisation(m, name))
    results = states_and_last(m, lambda name: value_of(m, name))
    types = [
        0 if k is None else QUANTISED_TYPES.index(k.dtype) for k in (quantisation(m, "x"), *kinds)
    ]
    fields = {**_made("y", kinds[0]), **_made("last", kinds[1])}
    found = [direction(m, d) for d in range(m.r.shape[0])]
    names = ("x_shift", "h_shift", "h_bits")
    each = [(one, {k: getattr(one, k) for k in names} | fields) for one in found]
    nbytes = [0 if y is None else y.dtype.nbytes for y in results]
    scratch = 8 * m.r.shape[2] + 4 * (m.r.shape[1] + 3 * m.r.shape[2])
    kinds_of = dict(zip(("XT", "YT", "LT"), types, strict=True))
    table = c.const(tanh_table(385), "tanh")
    record(c, m, "aot_qrnn_s16", results, nbytes, m.x, table, scratch, each, kinds_of)


def _cases(name: str, both: bool) -> Iterator[Case]:
    """Results of 12 bits, which the reference's float32 does not move; types in turn."""
    linear = {"linear_before_reset": 1} if name == "GRU" else {"direction": "reverse"}
    for sizes, dtype, attrs in (
        ((1, 5, 1, 4, 6), "int16", {}),
        ((2, 5, 3, 4, 6), "uint16", {"direction": "bidirectional"}),
        ((1, 5, 2, 4, 6), "int16", linear),
    ):
        middle = 1 << 15 if dtype == "uint16" else 0
        first = (quantised_values(*sizes[1:4], dtype=dtype), *kind(0.02 / 256, middle - 500, dtype))
        last = kind(1 / 1500, middle - 9, dtype) if both else ()
        yield layer_case(name, sizes, first, [*kind(1 / 2048, middle + 3, dtype), *last], attrs)


register("16", _supported, _to_kernel, _cases)
