# SPDX-License-Identifier: Apache-2.0
"""Conv between codes: QuantizeLinear([Relu | Clip](Conv(codes, constant codes, [bias]))).

Symmetric int8 weights of one or two spatial axes go to the kernels of the target (conv_portable,
conv_dsp, conv_mve), everything else to aot_qconv_ref. Channels are stored last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, S16, U8
from aot.ir.layout import Layout
from aot.ops.conv import spatial
from aot.ops.layouts import channels_last
from aot.ops.quantised import conv_dsp, conv_mve, conv_portable
from aot.ops.quantised.cases import conv_cases
from aot.ops.quantised.common import (
    CODE_TYPES,
    OP,
    Array,
    Codes,
    Requant,
    activated,
    bounds,
    codes,
    constant_bounds,
    dequantised,
    finish,
    known,
    quantised,
    requant,
    signed_input,
    signed_output,
)
from aot.ops.quantised.fixed import multiply
from aot.ops.quantised.requant import FLOAT, MAX_SUM, TFLITE, refusal, rq_of
from aot.ops.quantised.requant import quantised as fixed_point
from aot.ops.quantised.shapes import QCall, QConv
from aot.vendor.cases import Case
from aot.vendor.match import Match, NodeRef
from aot.vendor.pattern import Var, either
from aot.vendor.recorder import Recorder

#: A float bias is rounded to whole units of the sum where that moves no result by more than this.
BIAS_ERROR = 2.0**-7

_x, _w = dequantised("x"), dequantised("w")
conv = quantised(
    "qconv",
    activated(
        either(
            OP.Conv(_x, _w, dequantised("b"), _outputs=["conv"]),
            OP.Conv(_x, _w, Var("f"), _outputs=["conv"], _optional=1),
        )
    ),
)


def kernels_of(simd: str) -> ModuleType:
    """The planner of the kernels for an integer vector unit ("" = portable C)."""

    return {"dsp": conv_dsp, "mve": conv_mve}.get(simd, conv_portable)


@dataclass(frozen=True, slots=True)
class Weights:
    """Constant weights, output channels first: their codes without zero points, and scales."""

    data: Array  # int64
    scale: Array  # float32, one or one per channel

    @property
    def symmetric(self) -> bool:
        """Whether int8 holds them."""
        return bool(self.data.size == 0 or (self.data.min() >= -128 and self.data.max() <= 127))

    @property
    def stored(self) -> Array:
        """In the narrowest type."""
        return self.data.astype(np.int8 if self.symmetric else np.int16)


def weights_of(m: Match, axis: int) -> Weights:
    """Operand `w` with the output channels, `axis`, in front."""
    w = codes(m, "w")
    assert m.w.data is not None
    data = np.moveaxis(np.asarray(m.w.data).astype(np.int64), axis, 0)
    data = data - w.zero.reshape((-1, *[1] * (data.ndim - 1)))
    scale, groups = w.scale.reshape(-1).astype(np.float32), groups_of_transposed(m)
    if groups == 1:
        return Weights(data, scale)
    parts = data.reshape(len(data), groups, -1, *data.shape[2:]).swapaxes(0, 1)
    whole = np.ascontiguousarray(parts).reshape(-1, *parts.shape[2:])
    return Weights(whole, np.tile(scale, groups) if scale.size > 1 else scale)


def groups_of_transposed(m: Match) -> int:
    """Groups of a ConvTranspose, whose weights have the output channels of one only; else 1."""
    nodes = (n for n in m.nodes if n.op_type == "ConvTranspose")
    return next((int(n.attr("group", 1)) for n in nodes), 1)


def weights_known(m: Match, axes: tuple[int, ...]) -> Iterator[tuple[bool, str]]:
    """Checks of the constant operand `w` whose output channels are one of `axes`."""
    zero = m.zw
    constant = m.w.is_const and m.sw.is_const and (zero is None or zero.is_const)
    yield constant, "weights that are computed at run time (needs constants)"
    yield m.w.dtype in (S8, U8), f"weights of {m.w.dtype} (needs int8 or uint8)"
    count = math.prod(m.sw.shape)
    rank = m.w.rank
    axis = int(m.w_dq.attr("axis", 1)) % rank
    wanted = {a % rank for a in axes}
    per_channel = len(m.sw.shape) == 1 and axis in wanted and count == m.w.shape[axis]
    yield count == 1 or per_channel, f"{count} scales of weights along axis {axis}"


def bias_of(m: Match, sx: np.float32, w: Weights, sy: np.float32) -> tuple[Array | None, str]:
    """The bias in units of the sums (int64), or None and why there is none."""
    unit = np.asarray(sx, np.float32) * w.scale
    count = len(w.data)
    b, f = m.values.get("b"), m.values.get("f")
    if b is None and f is None:
        return np.zeros(count, np.int64), ""
    given = b if b is not None else f
    assert given is not None
    if not given.is_const or (b is not None and not m.sb.is_const):
        return None, "a bias that is computed at run time (needs a constant)"
    if math.prod(given.shape) not in (1, count):
        return None, f"a bias of shape {list(given.shape)} for {count} channels"
    if b is None:
        exact = np.asarray(given.data, np.float64).reshape(-1) / unit.astype(np.float64)
    else:
        own = codes(m, "b")
        ratio = own.scale.reshape(-1).astype(np.float64) / unit.astype(np.float64)
        whole = (np.asarray(b.data).astype(np.int64).reshape(-1) - own.zero.reshape(-1)).astype(
            np.float64
        )
        exact = whole * ratio
    exact = np.broadcast_to(exact, (count,))
    if not np.all(np.isfinite(exact)) or np.any(np.abs(exact) >= 2.0**31):
        return None, "a bias that the sums cannot hold"
    rounded = np.rint(exact)
    moved = float(np.max(np.abs(exact - rounded) * unit / sy, initial=0.0))
    if moved > BIAS_ERROR:
        return None, f"a bias that is no multiple of the sums' scale (moves results by {moved:.3g})"
    return rounded.astype(np.int64), ""


@dataclass(frozen=True, slots=True)
class Product:
    """Weights and bias of a product whose sums fit the kernels; `why` says why there is none."""

    w: Weights
    bias: Array
    why: str = ""


def product_of(m: Match, axis: int, rq: int, result: str = "y") -> Product:
    """The product of codes `x` with constant `w`, whose output channels are its axis `axis`."""
    x, y, w = codes(m, "x"), codes(m, result), weights_of(m, axis)
    reason = refusal(float(x.s), w.scale, float(y.s))
    bias, why = (None, reason) if reason else bias_of(m, x.s, w, y.s)
    if bias is None:
        return Product(w, np.zeros(0, np.int64), why)
    w, bias = without_constants(w, bias, x, y, rq)
    largest = largest_sum(w, bias, x.signed())
    why = "" if largest < MAX_SUM else f"sums up to {largest} (needs less than {MAX_SUM})"
    return Product(w, bias, why)


def product_fits(m: Match, axis: int, result: str = "y") -> Iterator[tuple[bool, str]]:
    """Checks that kernels can hold the product's sums in every arithmetic."""
    reasons = [why for rq in (FLOAT, TFLITE) if (why := product_of(m, axis, rq, result).why)]
    yield not reasons, reasons[0] if reasons else ""


def without_constants(
    w: Weights, bias: Array, x: Codes, y: Codes, rq: int
) -> tuple[Weights, Array]:
    """Channels whose every sum becomes the same code get zero weights and that code as their sum.

    Networks have dead channels with scales so small that only the bias, near 2^30, counts.
    """
    reach = np.abs(w.data).reshape(len(w.data), -1).sum(axis=1) * 2**x.dtype.bits
    large = np.flatnonzero(np.abs(bias) + reach >= MAX_SUM)
    scale = np.broadcast_to(w.scale, (len(w.data),)).copy()
    data, bias = w.data.copy(), bias.copy()
    for k in large:
        ends = [requantised(int(bias[k] + s * reach[k]), x.s, scale[k], y, rq) for s in (-1, 1)]
        if ends[0] == ends[1]:
            data[k], bias[k] = 0, ends[0]
            scale[k] = np.float32(y.s) / np.float32(x.s)
    return (Weights(data, scale), bias) if len(large) else (w, bias)


def requantised(total: int, sx: np.float32, sw: np.float32, y: Codes, rq: int) -> int:
    """The code, less its zero point, that a sum becomes; sums of int32 only."""
    low, high = (end - y.z for end in y.range)
    if rq == TFLITE:
        mult, shift = fixed_point(float(sx) * float(sw) / float(y.s))
        value = float(multiply(np.array(total), mult, shift))
    else:
        value = float(np.rint(np.float32(total) * np.float32(np.float32(sx * sw) / y.s)))
    return int(np.clip(value, low, high))


def largest_sum(w: Weights, bias: Array, x: Codes) -> int:
    """A bound of every sum a kernel may form, with the zero point in the bias or taken off."""
    total = np.abs(w.data).reshape(len(w.data), -1).sum(axis=1)
    low, high = x.range
    furthest = max(abs(low - x.z), abs(high - x.z))
    folded = total * abs(x.z) + total * max(abs(low), high)
    return int(np.max(np.maximum(total * furthest, folded) + np.abs(bias), initial=0))


def conv_fits(m: Match, result: str = "y", mark: str = "") -> Iterator[tuple[bool, str]]:
    """Checks of a convolution whose codes are `result`."""
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5: one to three spatial axes)"
    asked = [*known(m, "x", result), *weights_known(m, (0,))]
    yield from asked
    yield from constant_bounds(m, mark)
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    if m.w.is_const and all(ok for ok, _ in asked):
        yield from product_fits(m, 0, result)


conv.check(conv_fits)


@conv.layouts
def last(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    return {"x": channels_last(m.x), "y": channels_last(m.y)}


@conv.lower
def to_kernel(c: Recorder, m: Match) -> None:
    found = product_of(m, 0, rq_of(c))
    groups = int(m.conv.attr("group", 1))
    fast = m.x.rank < 5 and (groups == 1 or is_depthwise(m)) and found.w.symmetric
    if fast and all(codes(m, k).dtype in (S8, U8) for k in "xy"):
        _fast(c, m, found)
    else:
        _general(c, m, found.w, found.bias, groups)


def conv_shape(
    m: Match, node: NodeRef, x: Codes, y: Codes, rq: int, mark: str = ""
) -> dict[str, int]:
    """Fields of QConv; a 1-D convolution has height 1."""
    rank = m.x.rank - 2
    strides, dilations, pads = spatial(node, rank)
    lead = 2 - rank
    ones = (1,) * lead
    ih, iw = ones + tuple(m.x.shape[2:])
    oh, ow = ones + tuple(m.y.shape[2:])
    kh, kw = ones + tuple(m.w.shape[2:])
    sh, sw = (*[1] * lead, *strides)
    dh, dw = (*[1] * lead, *dilations)
    pt, pl = (*[0] * lead, *pads)
    low, high = bounds(m, y, mark)
    sizes = {"n": m.x.shape[0], "ic": m.x.shape[1], "ih": ih, "iw": iw, "oc": m.y.shape[1]}
    window = {"kh": kh, "kw": kw, "sh": sh, "sw": sw, "dh": dh, "dw": dw, "pt": pt, "pl": pl}
    codes_of = {"x_zero": x.z, "y_zero": y.z, "lo": low, "hi": high, "rq": rq}
    return {**sizes, "oh": oh, "ow": ow, **window, **codes_of}


def target_of(c: Recorder) -> dict[str, Any]:
    """What a plan may depend on."""
    t = c.target
    return {"arch": t.arch, "simd": t.simd, "cpu": t.cpu, "vlen": c.vlen}


@dataclass(frozen=True, slots=True)
class Planned:
    """A kernel of the target for int8 codes, with what it needs."""

    call: QCall
    shape: QConv
    scales: Requant


def planned(c: Recorder, m: Match, found: Product, result: str, mark: str = "") -> Planned:
    """The kernel for a convolution whose codes are `result`."""
    w = found.w
    x, y = codes(m, "x").signed(), codes(m, result).signed()
    scales = requant(c, x.s, w.scale, y.s)
    inner = w.data.reshape(len(w.data), -1).sum(axis=1)
    low, high = bounds(m, codes(m, result), mark)
    offset = codes(m, result).z - y.z
    rq = scales.instance["RQ"]
    fields: dict[str, Any] = conv_shape(m, m.conv, x, codes(m, result), rq, mark)
    fields |= {"y_zero": y.z, "lo": low - offset, "hi": high - offset, **target_of(c)}
    shape = QConv(per_channel=bool(scales.instance["PC"]), **fields)
    data = w.stored.reshape(*w.data.shape[:2], shape.kh, shape.kw)
    plan = kernels_of(c.target.simd)
    make = plan.plan_depthwise if is_depthwise(m) else plan.plan_conv
    call = make(shape, data, (found.bias - x.z * inner).astype(np.int32), c.objective)
    return Planned(call, shape, scales)


def is_depthwise(m: Match) -> bool:
    """Whether every channel has a filter of its own."""
    groups = int(m.conv.attr("group", 1))
    return bool(groups == m.x.shape[1] == m.w.shape[0] > 1)


def _fast(c: Recorder, m: Match, found: Product) -> None:
    """Record a kernel of the target for int8 codes."""
    ready = planned(c, m, found, "y")
    source, made = signed_input(c, m.x), signed_output(c, m.y)
    macs = ready.shape.macs // (ready.shape.ic if is_depthwise(m) else 1)
    emit(c, ready.call, made, source, ready.scales, ready.shape.fields(), macs)
    finish(c, m.y, made)


def emit(
    c: Recorder,
    call: QCall,
    y: Any,
    x: Any,
    scales: Any,
    fields: dict[str, int],
    macs: int,
) -> None:
    """Record the call of a planned kernel."""
    c.call(
        call.kernel,
        y,
        x,
        c.const(call.weights, "w"),
        c.const(call.bias, "b"),
        scales.mult,
        scales.shift,
        c.scratch(call.scratch),
        c.params(**fields),
        instance={**scales.instance, **call.instance},
        inplace=[(y, x)] if call.inplace else (),
        macs=macs,
        header=call.header or None,
    )


def _general(c: Recorder, m: Match, w: Weights, bias: Array, groups: int) -> None:
    """Record aot_qconv_ref of a convolution."""
    strides, dilations, pads = spatial(m.conv, m.x.rank - 2)
    sizes = {"k": m.w.shape[2:], "s": strides, "d": dilations, "pad": pads}
    record_general(c, m, w, bias, groups, sizes)


def record_general(
    c: Recorder,
    m: Match,
    w: Weights,
    bias: Array,
    groups: int,
    sizes: Mapping[str, Sequence[int]],
) -> None:
    """Record aot_qconv_ref; weights [oc, ic / groups, k...], `sizes` by spatial axis."""
    x, y = codes(m, "x"), codes(m, "y")
    scales = requant(c, x.s, w.scale, y.s)
    low, high = bounds(m, y)
    lead = (1,) * (5 - m.x.rank)
    named = {"in": m.x.shape[2:], "out": m.y.shape[2:], "up": (1,) * (m.x.rank - 2), **sizes}
    params = c.params(
        n=m.x.shape[0],
        ic=m.x.shape[1],
        oc=m.y.shape[1],
        groups=groups,
        **{k: ((0,) * len(lead) if k == "pad" else lead) + tuple(v) for k, v in named.items()},
        x_zero=x.z,
        y_zero=y.z,
        lo=low,
        hi=high,
    )
    types = {"XT": x.dtype, "WT": S8 if w.symmetric else S16, "YT": y.dtype}
    c.call(
        "aot_qconv_ref",
        m.y,
        m.x,
        c.const(np.ascontiguousarray(np.moveaxis(w.stored, 1, -1)), "w"),
        c.const(bias.astype(np.int32), "b"),
        scales.mult,
        scales.shift,
        params,
        instance={**scales.instance, **{k: CODE_TYPES.index(t) for k, t in types.items()}},
        macs=math.prod(m.y.shape) * math.prod(w.data.shape[1:]),
    )


@conv.cases
def cases() -> Iterator[Case]:
    yield from conv_cases()
