# SPDX-License-Identifier: Apache-2.0
"""Averages of quantised values: AveragePool, GlobalAveragePool and ReduceMean over the positions;
of 16-bit quantised values also MaxPool and GlobalMaxPool.

Channels are stored last. With `--requant tflite` an average whose quantised values keep their
parameters is divided as TFLite's AVERAGE_POOL does; every other average is a requantised sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from aot.ir.dtypes import S16, U16
from aot.ir.rows import Rowwise, Window
from aot.normalise.quantised.wide import rescales
from aot.ops.quantised.common import (
    quantised,
    quantised_fields,
    signed_input,
    signed_result,
    type_constants,
)
from aot.vendor import (
    OP,
    PLAIN,
    Case,
    Layout,
    Match,
    Quantisation,
    activated,
    channels_last,
    dequantised,
)
from aot.vendor.arguments import Handle, ParamFields
from aot.vendor.quantised_cases import kind, quantised_case, quantised_values
from aot.vendor.quantised_pool import MAXIMA, QuantisedPool
from aot.vendor.recorder import Recorder
from aot.vendor.requant import TFLITE, multipliers, rq_of


def last(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: channels last for x, and for y if it keeps x's axes."""
    y = channels_last(m.y) if 3 <= m.y.rank <= 5 and m.y.rank == m.x.rank else PLAIN
    return {"x": channels_last(m.x), "y": y}


_AVERAGE = activated(QuantisedPool.average_pattern())
_LARGEST = activated(OP.any_of(*MAXIMA)(dequantised("x"), _outputs=["pool"]))
_wide_fit = partial(QuantisedPool.checks, types=(S16, U16))
average = quantised(
    "qaverage", _AVERAGE, QuantisedPool.checks, layouts=last, cases=QuantisedPool.average_cases
)
wide = quantised("qaverage16", _AVERAGE, _wide_fit, layouts=last, priority=-1)
maximum = quantised("qmaxpool16", _LARGEST, _wide_fit, layouts=last)
rescales(" ".join(MAXIMA))(True)


def _geometry(c: Recorder, m: Match, found: QuantisedPool, signed: bool) -> ParamFields:
    """The kernel's parameters: sizes, window and limits; `signed`: zero points of int8 values."""
    lead = (1,) * (5 - m.x.rank)
    window = found.window
    return c.params(
        n=m.x.shape[0],
        c=m.x.shape[1],
        **{"in": lead + m.x.shape[2:]},
        out=lead + found.result,
        k=window.kernel,
        s=window.strides,
        d=window.dilations,
        before=window.before,
        after=window.after,
        **quantised_fields(m, signed=signed),
    )


def _scales(
    c: Recorder, found: QuantisedPool, x: Quantisation, y: Quantisation
) -> tuple[Handle | None, Handle | None, dict[str, int]]:
    """(multipliers, shifts, instance constants); both are None where a sum is only divided.

    There is a multiplier for every number of positions where windows at the border have fewer.
    """
    rq, vary, largest = rq_of(c), found.counts_vary, found.node.op_type in MAXIMA
    instance = {"RQ": rq, "VARY": int(vary), "PADDED": int(found.counts_padding)}
    if x.s == y.s and x.z == y.z and (rq == TFLITE or largest):
        return None, None, {**instance, "RQ": 3}
    count = math.prod(found.window.kernel)
    counts = [1] if largest else range(1, count + 1) if vary else [count]
    values = np.array([1.0 / k for k in counts], np.float32)
    mult, shift = multipliers(float(x.s), values, float(y.s), rq)
    return c.const(mult, "mult"), None if shift is None else c.const(shift, "shift"), instance


def _rowwise(m: Match, found: QuantisedPool) -> Rowwise | None:
    """How an average over all positions of one image takes its rows; None for any other pool."""
    image = (1,) * (5 - m.x.rank) + m.x.shape[2:]
    whole = found.result == (1,) * len(found.result) and found.window.kernel == image
    if m.x.shape[0] != 1 or not whole or any(found.window.before + found.window.after):
        return None
    window = Window(1, image[0] * image[1])
    return Rowwise(1, (0,), window, sums=4 * m.x.shape[1], kernel="aot_qavgpool_s8_row")


@average.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qavgpool_s8 for 8-bit quantised values."""
    found = QuantisedPool.of(m)
    mult, shift, instance = _scales(c, found, found.x.signed(), found.y.signed())
    with signed_result(c, m.y) as made:
        operands = (made, signed_input(c, m.x), mult, shift, _geometry(c, m, found, signed=True))
        c.call("aot_qavgpool_s8", *operands, instance=instance, rowwise=_rowwise(m, found))


@wide.lower
@maximum.lower
def wide_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qpool_ref for an average or maximum of 16-bit quantised values."""
    found = QuantisedPool.of(m)
    mult, shift, instance = _scales(c, found, found.x, found.y)
    instance |= {"MAX": int(found.node.op_type in MAXIMA), **type_constants(m)}
    params = _geometry(c, m, found, signed=False)
    c.call("aot_qpool_ref", m.y, m.x, mult, shift, params, instance=instance)


@wide.cases
def wide_cases() -> Iterator[Case]:
    """An average of quantised values of 16 bits."""
    for dtype, pads in (("int16", {}), ("uint16", {"pool.pads": [1, 0, 1, 0]})):
        square: dict[str, Any] = {"pool.kernel_shape": [2, 2], "pool.strides": [2, 2], **pads}
        steps = (*kind(3e-4, 9, dtype), *kind(5.3e-4, 30, dtype))
        yield quantised_case(quantised_values(2, 3, 8, 8, dtype=dtype), *steps, **square)


@maximum.cases
def maximum_cases() -> Iterator[Case]:
    """MaxPool of quantised values of 16 bits: y has x's scale, or another."""
    same = kind(3e-4, 9, "int16")
    for result in (same, kind(2.7e-4, 30, "int16")):
        square: dict[str, Any] = {"pool.kernel_shape": [3, 2], "pool.pads": [1, 1, 1, 0]}
        yield quantised_case(quantised_values(2, 3, 8, 8, dtype="int16"), *same, *result, **square)
