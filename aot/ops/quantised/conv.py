# SPDX-License-Identifier: Apache-2.0
"""Conv between quantised values: QuantizeLinear([Relu | Clip](Conv(quantised values, constant
quantised values, [bias]))).

Symmetric int8 weights of one or two spatial axes go to the kernels of the target (conv_portable,
conv_dsp, conv_mve), with dot products (conv_dot) also other weights where groups = 1; everything
else goes to aot_qconv_ref. Channels are stored last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, S16, U8
from aot.ir.rows import Rowwise
from aot.ops.quantised import conv_dot, conv_dsp, conv_mve, conv_portable
from aot.ops.quantised.common import Requant, product_scales, quantised, signed_input, signed_result
from aot.ops.quantised.shapes import QCall, QConv
from aot.vendor.layouts import all_channels_last
from aot.vendor.match import Match, NodeRef
from aot.vendor.quantisation import (
    QUANTISED_TYPES,
    Quantisation,
    activated,
    bounds,
)
from aot.vendor.quantised_product import QuantisedProduct
from aot.vendor.recorder import Recorder
from aot.vendor.requant import rq_of
from aot.vendor.window_shape import WindowShape

conv = quantised("qconv", activated(QuantisedProduct.conv_pattern()))
conv.check(QuantisedProduct.checks)
conv.layouts(all_channels_last("x", "y"))
conv.cases(QuantisedProduct.conv_cases)


def kernels_of(simd: str) -> ModuleType:
    """The planner of the kernels for an integer vector unit ("" = portable C)."""

    return {"dsp": conv_dsp, "mve": conv_mve}.get(simd, conv_portable)


@conv.lower
def to_kernel(c: Recorder, m: Match) -> None:
    found = QuantisedProduct.of(m, rq_of(c))
    dense = found.groups == 1
    fits = (dense or found.depthwise) and found.w.symmetric
    fast = m.x.rank < 5 and (fits or (dense and any_weights(c)))
    if fast and all(v.dtype in (S8, U8) for v in (found.x, found.y)):
        _fast(c, m, found)
    else:
        assert found.window is not None
        record_general(c, m, found, found.window)


def conv_shape(
    m: Match, node: NodeRef, x: Quantisation, y: Quantisation, rq: int, mark: str = ""
) -> dict[str, int]:
    """Fields of QConv; a 1-D convolution has height 1."""
    window = WindowShape.of(node, m.w.shape[2:]).widened(2)
    lead = (1,) * (4 - m.x.rank)
    ih, iw = lead + tuple(m.x.shape[2:])
    oh, ow = lead + tuple(m.y.shape[2:])
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.strides, window.dilations
    pt, pl = window.before
    low, high = bounds(m, y, mark)
    sizes = {"n": m.x.shape[0], "ic": m.x.shape[1], "ih": ih, "iw": iw, "oc": m.y.shape[1]}
    fields = {"kh": kh, "kw": kw, "sh": sh, "sw": sw, "dh": dh, "dw": dw, "pt": pt, "pl": pl}
    limits = {"x_zero": x.z, "y_zero": y.z, "lo": low, "hi": high, "rq": rq}
    return {**sizes, "oh": oh, "ow": ow, **fields, **limits}


def target_of(c: Recorder) -> dict[str, Any]:
    """What a plan may depend on."""
    t = c.target
    return {"arch": t.arch, "simd": t.simd, "cpu": t.cpu, "vlen": c.vlen}


def any_weights(c: Recorder) -> bool:
    """Whether the target's products take weights that int8 does not hold without zero points."""
    return conv_dot.suits(c.target.simd, c.vlen, c.objective)


@dataclass(frozen=True, slots=True)
class Planned:
    """A kernel of the target for int8 quantised values, with what it needs."""

    call: QCall
    shape: QConv
    scales: Requant

    def rowwise(self, *others: int, last: bool = True) -> Rowwise | None:
        """As QConv.rowwise; None where the kernel cannot read rows that lie apart."""
        return self.shape.rowwise(*others, last=last) if self.call.rows_apart else None


def planned(c: Recorder, m: Match, found: QuantisedProduct, mark: str = "") -> Planned:
    """The kernel for a convolution of 8-bit quantised values; `mark` ends the names of its
    activation."""
    x, y = found.x.signed(), found.y.signed()
    scales = product_scales(c, found)
    low, high = found.y.as_signed(found.limits)
    fields: dict[str, Any] = conv_shape(m, found.node, x, found.y, scales.instance["RQ"], mark)
    fields |= {"y_zero": y.z, "lo": low, "hi": high, **target_of(c)}
    shape = QConv(per_channel=bool(scales.instance["PC"]), **fields)
    data = found.w.stored.reshape(*found.w.data.shape[:2], shape.kh, shape.kw)
    plan = kernels_of(c.target.simd)
    make = plan.plan_depthwise if found.depthwise else plan.plan_conv
    call = make(shape, data, found.folded(x.z).astype(np.int32), c.objective)
    return Planned(call, shape, scales)


def _fast(c: Recorder, m: Match, found: QuantisedProduct) -> None:
    """Record a kernel of the target for int8 quantised values."""
    ready = planned(c, m, found)
    macs = ready.shape.macs // (ready.shape.ic if found.depthwise else 1)
    shape = ready.shape
    emit(c, m, ready.call, ready.scales, shape.fields(), macs, ready.rowwise())


def emit(
    c: Recorder,
    m: Match,
    call: QCall,
    scales: Requant,
    fields: dict[str, int],
    macs: int,
    rowwise: Rowwise | None = None,
) -> None:
    """Record the call of a planned kernel from quantised values `x` to quantised values `y`."""
    source = signed_input(c, m.x)
    with signed_result(c, m.y) as made:
        c.call(
            call.kernel,
            made,
            source,
            c.const(call.weights, "w"),
            c.const(call.bias, "b"),
            scales.mult,
            scales.shift,
            c.scratch(call.scratch),
            c.params(**fields),
            instance={**scales.instance, **call.instance},
            inplace=[(made, source)] if call.inplace else (),
            macs=macs,
            header=call.header or None,
            rowwise=rowwise,
        )


def record_general(
    c: Recorder,
    m: Match,
    found: QuantisedProduct,
    window: WindowShape,
    upsampling: Sequence[int] = (1, 1, 1),
) -> None:
    """Record aot_qconv_ref of a convolution: any rank, any groups, quantised values of any type.

    Between the positions of x lie `upsampling` - 1 zeros, of three axes the last ones.
    """
    w, rank = found.w, m.x.rank - 2
    scales = product_scales(c, found)
    low, high = found.limits
    lead = (1,) * (3 - rank)
    wide = window.widened(3)
    params = c.params(
        n=m.x.shape[0],
        ic=m.x.shape[1],
        oc=m.y.shape[1],
        groups=found.groups,
        **{"in": lead + tuple(m.x.shape[2:]), "out": lead + tuple(m.y.shape[2:])},
        up=lead + tuple(upsampling)[-rank:],
        k=wide.kernel,
        s=wide.strides,
        d=wide.dilations,
        pad=wide.before,
        x_zero=found.x.z,
        y_zero=found.y.z,
        lo=low,
        hi=high,
    )
    types = {"XT": found.x.dtype, "WT": S8 if w.symmetric else S16, "YT": found.y.dtype}
    c.call(
        "aot_qconv_ref",
        m.y,
        m.x,
        c.const(np.ascontiguousarray(np.moveaxis(w.stored, 1, -1)), "w"),
        c.const(found.bias.astype(np.int32), "b"),
        scales.mult,
        scales.shift,
        params,
        instance={**scales.instance, **{k: QUANTISED_TYPES.index(t) for k, t in types.items()}},
        macs=math.prod(m.y.shape) * math.prod(w.data.shape[1:]),
    )
