# SPDX-License-Identifier: Apache-2.0
"""A convolution between codes and the sum that follows, in one call: its codes are never stored.

QuantizeLinear([Relu | Clip](codes of a Conv + codes r)): a few pixels of the convolution at a time
go to scratch and are added from there, so that the sum may take the place of r and no third tensor
lives beside the input and r.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.dtypes import S8
from aot.ops.quantised.binary import sum_fields, sums_fit
from aot.ops.quantised.common import quantised
from aot.ops.quantised.conv import planned
from aot.vendor.cases import Case
from aot.vendor.codes import (
    Array,
    activated,
    all_hold,
    bounds,
    codes,
    constant_bounds,
    dequantised,
    known,
)
from aot.vendor.layouts import all_channels_last
from aot.vendor.match import Match, same_shapes
from aot.vendor.matcher import attribute
from aot.vendor.pattern import OP, Pat, Var
from aot.vendor.quantised_cases import code_case, codes_of, kind
from aot.vendor.quantised_product import QuantisedProduct, conv_fits
from aot.vendor.recorder import Recorder
from aot.vendor.requant import FLOAT, rq_of

#: Bytes of convolution codes made at a time: on boards what the convolution's own scratch leaves of
#: the first, but at least the second, and elsewhere the third.
BOARD_SCRATCH, BOARD_STAGE, HOST_STAGE = 480, 96, 4096


def _conv() -> Pat:
    sums = QuantisedProduct.conv_pattern()
    made = OP.QuantizeLinear(
        activated(sums, "1"), Var("sc"), Var("zc"), _optional=1, _outputs=["c"]
    )
    return OP.DequantizeLinear(made, Var("sd"), Var("zd"), _optional=1)


conv_add = quantised("qconv_add", activated(OP.Add(_conv(), dequantised("r"), _outputs=["op"])))
conv_add.layouts(all_channels_last("x", "r", "y"))


def depth_of(m: Match) -> int:
    """Products per result of the convolution."""
    return math.prod(m.w.shape[1:])


def depth_beside(m: Match) -> int:
    """Products per result of the plain convolution that makes `r` for this sum alone, or 0."""
    node = m.r.ir.producer()
    if len(m.r.ir.uses()) != 1 or node is None or node.op_type != "QuantizeLinear":
        return 0
    while node is not None and node.op_type in ("QuantizeLinear", "Relu", "Clip"):
        made = node.inputs[0]
        node = made.producer() if made is not None and len(made.uses()) == 1 else None
    if node is None or node.op_type != "Conv" or attribute(node, "group", 1) != 1:
        return 0
    w = node.inputs[1]
    return math.prod(int(str(d)) for d in w.shape[1:]) if w is not None and w.shape else 0


@conv_add.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    ready = yield from all_hold(known(m, "x", "c", "r", "y", types=(S8,)))
    fits = yield from all_hold(conv_fits(m, "c", "1"))
    yield from constant_bounds(m)
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    groups = int(m.conv.attr("group", 1))
    yield groups == 1, f"group {groups} (needs 1)"
    # The one with the smaller windows (a shortcut) comes first, and with it goes what it reads.
    yield depth_beside(m) <= depth_of(m), "the other operand is the larger convolution"
    yield same_shapes(m, m.r)
    yield not m.r.is_const, "the sum with a constant"
    same = m.sd.is_const and np.array_equal(m.sd.data, m.sc.data)
    same = same and (m.zd is None) == (m.zc is None)
    same = same and (m.zd is None or (m.zd.is_const and np.array_equal(m.zd.data, m.zc.data)))
    yield same, "codes that are read with other parameters"
    if ready and fits:
        symmetric = QuantisedProduct.of(m, FLOAT, "c", "1").w.symmetric
        yield symmetric, "weights with zero points that int8 cannot hold"
        yield from sums_fit(codes(m, "c"), codes(m, "r"), codes(m, "y"), 1)


def stage_pixels(c: Recorder, channels: int, columns: int, scratch: int) -> int:
    """Pixels of the convolution made at a time: an even number, or a whole row."""
    room = max(BOARD_STAGE, BOARD_SCRATCH - scratch) if c.target.board else HOST_STAGE
    return min(columns, max(2, room // channels & ~1))


@conv_add.lower
def to_kernel(c: Recorder, m: Match) -> None:
    rq = rq_of(c)
    ready = planned(c, m, QuantisedProduct.of(m, rq, "c", "1"), "1")
    call, shape = ready.call, ready.shape
    kind, fields = sum_fields(codes(m, "c"), codes(m, "r"), codes(m, "y"), 1, rq)
    pixels = stage_pixels(c, shape.oc, shape.ow, call.scratch)
    low, high = bounds(m, codes(m, "y"))
    kernel = call.kernel.replace("aot_qconv_s8", "aot_qconv_add_s8")
    zeros = {"a_zero": codes(m, "c").z, "b_zero": codes(m, "r").z, "sum_zero": codes(m, "y").z}
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
        c.scratch(pixels * shape.oc, "stage"),
        params,
        instance={"ADD": kind, **ready.scales.instance, **call.instance},
        inplace=[(m.y, m.r)] if m.r.ir is not m.x.ir else (),
        macs=shape.macs,
    )


def product_operands(x: Array, w: Array, steps: Array) -> tuple[Array, ...]:
    """Codes x, codes w with a scale per channel, and a bias in units of the sums, for cases."""
    zeros, (sx, zx) = np.zeros(steps.size, np.int8), kind(0.031, -3)
    b = np.arange(steps.size, dtype=np.int32) * 300
    return x, sx, zx, w, steps, zeros, b, sx * steps, zeros.astype(np.int32)


@conv_add.cases
def cases() -> Iterator[Case]:
    for shape, kernel, pads in (
        ((1, 16, 6, 7), (16, 16, 3, 3), [1, 1, 1, 1]),
        ((2, 5, 9, 4), (6, 5, 1, 1), [0, 0, 0, 0]),
        ((1, 32, 5, 6), (8, 32, 1, 1), [0, 0, 0, 0]),
        ((1, 3, 7, 9), (4, 3, 3, 3), [1, 1, 1, 1]),
    ):
        w, r = codes_of(*kernel), codes_of(shape[0], kernel[0], *shape[2:], seed=7)
        steps = np.linspace(0.004, 0.011, kernel[0]).astype(np.float32)
        width = np.sqrt(w.size / kernel[0]) * 74 * 74 * 0.031 * 0.0075 / 40
        operands = (*product_operands(codes_of(*shape), w, steps), *kind(width, 4), *kind(width, 4))
        tail = (r, *kind(width * 0.73, -20), *kind(width * 1.13, -100))
        named: dict[str, Any] = {"conv.pads": pads, "w_dq.axis": 0, "b_dq.axis": 0}
        yield code_case(*operands, *tail, fed=(0, 13), **named)
