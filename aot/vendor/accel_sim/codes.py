# SPDX-License-Identifier: Apache-2.0
"""Products of 8-bit codes: convolutions, with a sum behind them, and fully connected layers.

The checks and numbers are those of the portable kernels (aot/ops/quantised/), so the codes are too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, U8
from aot.ops.quantised import convadd as qconvadd
from aot.ops.quantised import matmul as qmatmul
from aot.ops.quantised.binary import sum_fields
from aot.ops.quantised.cases import conv_cases, fc_cases
from aot.ops.quantised.common import (
    OP,
    Codes,
    activated,
    bounds,
    codes,
    constant_bounds,
    dequantised,
    known,
)
from aot.ops.quantised.conv import (
    Product,
    conv_fits,
    conv_shape,
    is_depthwise,
    product_fits,
    product_of,
    weights_known,
)
from aot.ops.quantised.requant import FLOAT, TFLITE, multipliers, scales
from aot.vendor.accel_sim.images import Array, Images, refusal
from aot.vendor.accel_sim.kinds import Kind, Rq
from aot.vendor.accel_sim.network import AddCodes, Layer, Requant, Window
from aot.vendor.accel_sim.specs import Checks, Spec, quantised
from aot.vendor.cases import Case
from aot.vendor.match import Match
from aot.vendor.pattern import Pat, Var, either

EIGHT = (S8, U8)
#: Groups of a convolution that are computed one after the other.
MOST_GROUPS = 8


# -- numbers ----------------------------------------------------------------------------------


def arithmetic(rq: Rq) -> int:
    """The compiler's name (aot/ops/quantised/requant.py) of an arithmetic."""
    return TFLITE if rq is Rq.TFLITE else FLOAT


def requant(
    rq: Rq, sx: np.float32, sw: Array, y: Codes, limits: tuple[int, int], of: str = "conv"
) -> Requant:
    """Sums of scale sx * sw to codes of y, as `aot.ops.quantised.common.requant` has it."""
    sw = np.asarray(sw, np.float32).reshape(-1)
    lo, hi = limits
    if rq is not Rq.TFLITE:
        return Requant(Rq.FLOAT, scales(float(sx), sw, float(y.s)), zero=y.z, lo=lo, hi=hi)
    kind = "conv" if sw.size > 1 else of
    mult, shift = multipliers(float(sx), sw, float(y.s), TFLITE, kind)
    assert shift is not None
    return Requant(Rq.TFLITE, mult, shift, zero=y.z, lo=lo, hi=hi)


def limits(m: Match, name: str = "y", mark: str = "") -> tuple[int, int]:
    """The bounds of final codes, as int8."""
    low, high = bounds(m, codes(m, name), mark)
    offset = codes(m, name).z - codes(m, name).signed().z
    return low - offset, high - offset


def sum_of(a: Codes, b: Codes, y: Codes, sign: int, rq: Rq, within: tuple[int, int]) -> AddCodes:
    """The constants of the sum of two codes."""
    kind, f = sum_fields(a, b, y, sign, arithmetic(rq))
    a, b, y = a.signed(), b.signed(), y.signed()
    tflite = kind == Kind.TFLITE
    return AddCodes(
        Kind(kind),
        ma=f["a_mult"],
        mb=f["b_mult"],
        my=f["y_mult"] if tflite else f["offset"],
        sa=f["a_shift"],
        sb=f["b_shift"],
        sy=f["y_shift"],
        za=a.z,
        zb=b.z,
        zy=y.z,
        lo=within[0],
        hi=within[1],
        minus=tflite and sign < 0,
    )


def per_channel(r: Requant, count: int) -> Requant:
    """The same with one multiplier and shift for each channel."""
    mult = np.ascontiguousarray(np.broadcast_to(r.mult, (count,)))
    shift = np.ascontiguousarray(np.broadcast_to(r.shift, (count,)))
    return Requant(r.rq, mult, shift, r.zero, r.lo, r.hi)


def folded(found: Product, zero: int) -> Array:
    """The bias with what the zero point of the input adds to every sum."""
    w = found.w.data
    total = found.bias - zero * w.reshape(len(w), -1).sum(axis=1)
    wrapped: Array = (total & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return wrapped


# -- convolutions -----------------------------------------------------------------------------


def _conv() -> Pat:
    x, w = dequantised("x"), dequantised("w")
    return either(
        OP.Conv(x, w, dequantised("b"), _outputs=["conv"]),
        OP.Conv(x, w, Var("f"), _outputs=["conv"], _optional=1),
    )


def _symmetric(m: Match, axis: int, result: str = "y") -> Checks:
    fits = product_of(m, axis, FLOAT, result).w.symmetric
    yield fits, "weights less their zero points do not fit int8"


def _conv_geometry(m: Match) -> Checks:
    for name in "xy":
        why = refusal(m.values[name].shape)  # type: ignore[union-attr]
        yield not why, why
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    yield min(m.conv.attr("pads") or [0]) >= 0, f"pads {m.conv.attr('pads')} (must be >= 0)"
    groups = int(m.conv.attr("group", 1))
    few = is_depthwise(m) or groups <= MOST_GROUPS
    yield few, f"{groups} groups (needs 1 to {MOST_GROUPS}, or one for each channel)"


def conv_supported(m: Match, rq: Rq, result: str = "y", mark: str = "") -> Checks:
    """A convolution whose codes are `result`."""
    asked = [*known(m, "x", result, types=EIGHT), *conv_fits(m, result, mark)]
    yield from asked
    yield from _conv_geometry(m)
    if all(ok for ok, _ in asked):
        yield from _symmetric(m, 0, result)


def conv_add_supported(m: Match, rq: Rq) -> Checks:
    """A convolution and the sum behind it."""
    yield from conv_supported(m, rq, "c", "1")
    yield from qconvadd.supported(m)


def _window(m: Match, x: Codes, y: Codes, rq: Rq, mark: str) -> Window:
    s = conv_shape(m, m.conv, x, y, arithmetic(rq), mark)
    return Window(s["kh"], s["kw"], s["sh"], s["sw"], s["dh"], s["dw"], s["pt"], s["pl"])


def _residual(b: Images, m: Match, result: str) -> tuple[tuple[int, ...], AddCodes | None]:
    """(tensor, constants) of the codes that are added to those of the product."""
    if result == "y":
        return (), None
    c, r, y = codes(m, result), codes(m, "r"), codes(m, "y")
    add = sum_of(c, r, y, 1, b.rq, limits(m))
    return (b.read(m.r, r.signed().z),), add


def build_conv(b: Images, m: Match, result: str = "y", mark: str = "") -> None:
    """One layer, or for each group one on a part of the channels."""
    x, made = codes(m, "x").signed(), codes(m, result)
    found = product_of(m, 0, arithmetic(b.rq), result)
    window = _window(m, x, made, b.rq, mark)
    count = len(found.w.data)
    stored = found.w.stored.reshape(count, -1, window.kh, window.kw)
    weights = np.ascontiguousarray(stored.transpose(0, 2, 3, 1))
    rq = requant(b.rq, x.s, found.w.scale, made.signed(), limits(m, result, mark))
    rq = per_channel(rq, count)
    bias = folded(found, x.z)
    source = b.read(m.x, x.z)
    extra, add = _residual(b, m, result)
    target = b.write(m.y, codes(m, "y").signed().z)
    groups = int(m.conv.attr("group", 1))
    name = m.conv.name
    if groups == 1 or is_depthwise(m):
        kind: Any = "dw" if groups > 1 else "conv"
        inputs = (source, *extra)
        b.layer(Layer(kind, name, inputs, target, window, weights, bias, rq, add))
        return
    _grouped(b, name, groups, Layer("conv", name, (source,), target, window, weights, bias, rq))


def _grouped(b: Images, name: str, groups: int, whole: Layer) -> None:
    """A convolution for each group, between parts of the channels."""
    assert whole.weights is not None and whole.bias is not None and whole.requant is not None
    source, target = whole.inputs[0], whole.output
    (ih, iw, ic), (oh, ow, oc) = (b.tensors[t].shape for t in (source, target))
    step, made = ic // groups, oc // groups
    parts = []
    for g in range(groups):
        own = slice(g * made, (g + 1) * made)
        part = b.inner(source, (ih, iw, step), f"{name}_in{g}")
        b.layer(Layer("slice", name, (source,), part, start=(0, 0, g * step)))
        result = b.inner(target, (oh, ow, made), f"{name}_out{g}")
        r = whole.requant
        rq = Requant(r.rq, r.mult[own], r.shift[own], r.zero, r.lo, r.hi)
        args = (whole.window, whole.weights[own], whole.bias[own], rq)
        b.layer(Layer("conv", f"{name}_{g}", (part,), result, *args))
        parts.append(result)
    b.layer(Layer("concat", name, tuple(parts), target, axis="c"))


def build_conv_add(b: Images, m: Match) -> None:
    """The sum is made as the product drains."""
    build_conv(b, m, "c", "1")


# -- fully connected --------------------------------------------------------------------------


def _flat() -> Pat:
    flat = OP.Reshape(Var("x"), Var("shape"), _outputs=["flat"])
    return OP.DequantizeLinear(flat, Var("sx"), Var("zx"), _optional=1, _outputs=["x_dq"])


def _rows(m: Match) -> tuple[int, ...]:
    """The shape of what the product reads."""
    shape: tuple[int, ...] = m.x_dq_out.shape
    return shape


def dense_supported(m: Match, rq: Rq) -> Checks:
    """A product with constant weights, of values whose last axis are the channels."""
    yield from known(m, "x", "y", types=EIGHT)
    asked = list(qmatmul.dense_supported(m))
    yield from asked
    rows = math.prod(m.x.shape[:-1])
    yield m.x.rank == 2 or rows == 1, f"rank {m.x.rank} with {rows} rows (needs 2)"
    if m.w.rank == 2 and all(ok for ok, _ in asked):
        yield from _symmetric(m, qmatmul._axis(m))


def flat_supported(m: Match, rq: Rq) -> Checks:
    """A product of all elements of one image: its rows are the positions, then the channels."""
    yield from known(m, "x", "y", types=EIGHT)
    why = refusal(m.x.shape)
    yield not why, why
    maker = m.x.ir.producer()
    turned = maker is not None and maker.op_type == "Transpose"
    yield not turned, "behind a Transpose (which a Reshape undoes)"
    shape = _rows(m)
    yield len(shape) == 2 and shape[0] == 1, f"rows of shape {list(shape)} (needs 1)"
    ready = all(ok for ok, _ in known(m, "x", "y")) and m.w.rank == 2
    yield m.w.rank == 2, f"weights of rank {m.w.rank} (needs 2)"
    if ready:
        yield from _dense_product(m)


def _dense_product(m: Match) -> Checks:

    axis = qmatmul._axis(m)
    asked = list(weights_known(m, (axis,)))
    yield from asked
    yield from constant_bounds(m)
    plain = not m.dot.attr("transA", 0)
    plain = plain and all(float(m.dot.attr(k, 1.0)) == 1.0 for k in ("alpha", "beta"))
    yield plain, "Gemm with transA, alpha or beta"
    yield m.y.shape == (1, m.w.shape[axis]), "a bias that adds axes"
    bias = m.values.get("b") or m.values.get("f")
    if bias is not None and math.prod(bias.shape) > 1:
        yield bias.shape[-1] == math.prod(bias.shape), f"a bias of shape {list(bias.shape)}"
    if all(ok for ok, _ in asked):
        yield from product_fits(m, axis)
        yield from _symmetric(m, axis)


def _dense_requant(b: Images, m: Match, found: Product) -> Requant:
    """TFLite rounds the product of two scales per tensor to float32 first."""
    x, y, w = codes(m, "x").signed(), codes(m, "y").signed(), found.w
    if b.rq is Rq.TFLITE and len(w.scale) == 1:
        one = np.ones(1, np.float32)
        r = requant(b.rq, np.float32(x.s * w.scale[0]), one, y, limits(m))
    else:
        r = requant(b.rq, x.s, w.scale, y, limits(m), "fc")
    return per_channel(r, len(w.data))


def build_dense(b: Images, m: Match) -> None:
    """A convolution of 1 x 1; behind a Flatten one whose window is the whole image."""
    x = codes(m, "x").signed()
    found = product_of(m, qmatmul._axis(m), arithmetic(b.rq))
    count, depth = found.w.data.shape
    source = b.read(m.x, x.z)
    h, w, c = b.tensors[source].shape
    if "shape" not in m.values:  # the pixels are rows
        if c != depth:  # one row that lies along another axis
            source = _row(b, source, depth, m.dot.name)
        h = w = 1
        c = depth
        stored = found.w.stored.reshape(count, 1, 1, depth)
    elif m.x.rank > 2:
        stored = found.w.stored.reshape(count, c, h, w).transpose(0, 2, 3, 1)
    else:
        stored = found.w.stored.reshape(count, h, w, c)
    window, weights = Window(h, w), np.ascontiguousarray(stored)
    bias, rq = folded(found, x.z), _dense_requant(b, m, found)
    zero = codes(m, "y").signed().z
    target = b.write(m.y, zero)
    if b.tensors[target].shape[2] == count:
        b.layer(Layer("conv", m.dot.name, (source,), target, window, weights, bias, rq))
        return
    row = b.inner(target, (1, 1, count), f"{m.dot.name}_out")  # one row, along another axis
    b.layer(Layer("conv", m.dot.name, (source,), row, window, weights, bias, rq))
    b.layer(Layer("reshape", m.dot.name, (row,), target))


def _row(b: Images, source: int, depth: int, name: str) -> int:
    row = b.inner(source, (1, 1, depth), f"{name}_row")
    b.layer(Layer("reshape", name, (source,), row))
    return row


# -- cases ------------------------------------------------------------------------------------


def _sum_cases() -> Iterator[Case]:
    yield from qconvadd.cases()


_dense = activated(qmatmul._sums(dequantised("x"), dequantised("w")))
_behind = activated(qmatmul._sums(_flat(), dequantised("w")))
SPECS = (
    Spec(
        "qconv_add",
        quantised(activated(OP.Add(qconvadd._conv(), dequantised("r"), _outputs=["op"]))),
        conv_add_supported,
        build_conv_add,
        cases=_sum_cases,
    ),
    Spec("qconv", quantised(activated(_conv())), conv_supported, build_conv, cases=conv_cases),
    Spec("qflat", quantised(_behind), flat_supported, build_dense),
    Spec("qdense", quantised(_dense), dense_supported, build_dense, cases=fc_cases),
)
