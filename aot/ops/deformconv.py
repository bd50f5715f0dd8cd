# SPDX-License-Identifier: Apache-2.0
"""DeformConv over two spatial axes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from aot.ir.deferred_import import ir
from aot.ir.operators import AtLeast, ShapeOf
from aot.ops.registry import op
from aot.shapes.operands import operand_shape, operands_fit, wrong
from aot.shapes.partial_values import PartialValues
from aot.vendor import F32, Case, Match, Recorder, WindowShape, case, f32

deform = op(
    "DeformConv",
    "x w offset b? mask?",
    types=(F32,),
    typed="x w offset b mask",
    group=AtLeast(1, 1),
    offset_group=AtLeast(1, 1),
    kernel_shape=ShapeOf("w"),
)


@deform.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of two spatial axes, and of groups, offsets and mask that fit the sizes."""
    yield m.x.rank == 4, f"rank {m.x.rank} (needs 4)"
    if m.x.rank != 4:
        return
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    groups, offsets = m.group, m.offset_group
    agree = m.x.shape[1] == groups * m.w.shape[1] and m.w.shape[0] % groups == 0
    yield agree, f"group {groups} does not fit {m.x.shape[1]} channels, weights {m.w.shape}"
    yield m.x.shape[1] % offsets == 0, f"offset_group {offsets}"
    taps = offsets * math.prod(m.w.shape[2:])
    want = (m.x.shape[0], 2 * taps, *m.y.shape[2:])
    yield m.offset.shape == want, f"offset {list(m.offset.shape)} (needs {list(want)})"
    if m.mask is not None:
        want = (m.x.shape[0], taps, *m.y.shape[2:])
        yield m.mask.shape == want, f"mask {list(m.mask.shape)} (needs {list(want)})"


@deform.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record one call of aot_deformconv_f32 with scratch for the window of all channels
    (floats).
    """
    window = WindowShape.of(m.root, m.w.shape[2:])
    (sh, sw), (dh, dw), (pt, pl) = window.strides, window.dilations, window.before
    n, ic, ih, iw = m.x.shape
    oc, _, kh, kw = m.w.shape
    params = c.params(
        **dict(n=n, ic=ic, ih=ih, iw=iw, oc=oc, oh=m.y.shape[2], ow=m.y.shape[3]),
        **dict(kh=kh, kw=kw, sh=sh, sw=sw, dh=dh, dw=dw, pt=pt, pl=pl),
        groups=m.group,
        offset_groups=m.offset_group,
    )
    scratch = c.scratch(4 * ic * kh * kw)
    macs = math.prod(m.y.shape) * math.prod(m.w.shape[1:])
    operands = (m.y, m.x, m.w, m.offset, m.b, m.mask, scratch)
    c.call("aot_deformconv_f32", *operands, params, macs=macs)


@deform.cases
def cases() -> Iterator[Case]:
    """DeformConv(X, W, offset, B, mask): groups of channels and of offsets."""
    x, w = f32(2, 4, 6, 5), f32(6, 2, 3, 2)
    offset, mask = f32(2, 24, 4, 4, seed=1), f32(2, 12, 4, 4, seed=2)
    yield case(x, w, offset, f32(6), mask, group=2, offset_group=2)
    yield case(x, f32(3, 4, 2, 2), f32(2, 8, 3, 3), strides=[2, 2], pads=[1, 1, 0, 0])
    yield case(f32(1, 1, 7, 7), f32(1, 1, 3, 3), f32(1, 18, 3, 3) * 9, dilations=[2, 2])


@operands_fit("DeformConv")
def deformed_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why the bias of a DeformConv does not fit its weights; "" if it does."""
    w = operand_shape(node, 1)
    return wrong("bias", operand_shape(node, 3), (w[0],)) if w else "weights without axes"
