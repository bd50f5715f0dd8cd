# SPDX-License-Identifier: Apache-2.0
"""A convolution between quantised values and the sum that follows, in one call: its quantised
values are never stored.

QuantizeLinear([Relu | Clip](quantised values of a Conv + quantised values r)): a few pixels of the
convolution at a time go to scratch and are added from there, so that the sum may take the place of
r and no third tensor lives beside the input and r.
"""

from __future__ import annotations

from typing import Any

from aot.ops.quantised.common import quantised
from aot.ops.quantised.conv import planned
from aot.vendor.layouts import all_channels_last
from aot.vendor.match import Match
from aot.vendor.quantisation import (
    activated,
)
from aot.vendor.quantised_conv_add import QuantisedConvAdd
from aot.vendor.recorder import Recorder
from aot.vendor.requant import rq_of

#: Bytes of convolution quantised values made at a time: on boards what the convolution's own
#: scratch leaves of the first, but at least the second, and elsewhere the third.
BOARD_SCRATCH, BOARD_STAGE, HOST_STAGE = 480, 96, 4096


conv_add = quantised("qconv_add", activated(QuantisedConvAdd.pattern()))
conv_add.check(QuantisedConvAdd.checks)
conv_add.cases(QuantisedConvAdd.cases)
conv_add.layouts(all_channels_last("x", "r", "y"))


def stage_pixels(c: Recorder, channels: int, columns: int, scratch: int) -> int:
    """Pixels of the convolution made at a time: an even number, or a whole row."""
    room = max(BOARD_STAGE, BOARD_SCRATCH - scratch) if c.target.board else HOST_STAGE
    return min(columns, max(2, room // channels & ~1))


@conv_add.lower
def to_kernel(c: Recorder, m: Match) -> None:
    rq = rq_of(c)
    found = QuantisedConvAdd.of(m, rq)
    ready, total = planned(c, m, found.product, "1"), found.total
    call, shape = ready.call, ready.shape
    kind, fields = total.sum_fields(rq)
    pixels = stage_pixels(c, shape.oc, shape.ow, call.scratch)
    low, high = total.limits
    kernel = call.kernel.replace("aot_qconv_s8", "aot_qconv_add_s8")
    zeros = {"a_zero": total.a.z, "b_zero": total.b.z, "sum_zero": total.y.z}
    operands: list[Any] = [m.y, m.x, c.const(call.weights, "w"), c.const(call.bias, "b")]
    operands += [ready.scales.mult, ready.scales.shift, c.scratch(call.scratch)]
    params = c.params(
        **shape.sizes(),
        pixels=pixels,
        **fields,
        **zeros,
        sum_lo=low,
        sum_hi=high,
    )
    c.call(
        kernel,
        *operands,
        m.r,
        c.scratch(pixels * shape.oc if call.staged else 0, "stage"),
        params,
        instance={"ADD": kind, **ready.scales.instance, **call.instance},
        inplace=[(m.y, m.r)] if m.r.ir is not m.x.ir else (),
        macs=shape.macs,
        rowwise=ready.rowwise(7, last=False),
    )
