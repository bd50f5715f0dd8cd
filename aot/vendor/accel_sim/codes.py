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
from aot.ops.quantised.binary import sum_fields
from aot.vendor.accel_sim.images import Array, Images, refusal
from aot.vendor.accel_sim.kinds import Kind, Rq
from aot.vendor.accel_sim.network import AddCodes, Layer, Requant, Window
from aot.vendor.accel_sim.specs import Checks, Spec, quantised
from aot.vendor.cases import Case
from aot.vendor.codes import Codes, activated, bounds, codes, constant_bounds, dequantised, known
from aot.vendor.match import Match
from aot.vendor.pattern import OP, Pat, Var
from aot.vendor.quantised_product import QuantisedProduct, out_axis, product_fits, weights_known
from aot.vendor.requant import FLOAT, TFLITE

EIGHT = (S8, U8)
Multipliers = tuple[Array, Array | None]
#: Groups of a convolution that are computed one after the other.
MOST_GROUPS = 8


# -- numbers ----------------------------------------------------------------------------------


def arithmetic(rq: Rq) -> int:
    """The compiler's name (aot/vendor/requant.py) of an arithmetic."""
    return TFLITE if rq is Rq.TFLITE else FLOAT


def requant(rq: Rq, found: Multipliers, y: Codes, limits: tuple[int, int]) -> Requant:
    """Sums to the int8 codes `y`: one multiplier and shift, or one per channel."""
    mult, shift = found
    lo, hi = limits
    if shift is None:
        return Requant(Rq.FLOAT, mult.view(np.float32), zero=y.z, lo=lo, hi=hi)
    return Requant(rq, mult, shift, zero=y.z, lo=lo, hi=hi)


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


def per_channel(requant: Requant, count: int) -> Requant:
    """The same with one multiplier and shift for each channel."""
    mult = np.ascontiguousarray(np.broadcast_to(requant.mult, (count,)))
    shift = np.ascontiguousarray(np.broadcast_to(requant.shift, (count,)))
    return Requant(requant.rq, mult, shift, requant.zero, requant.lo, requant.hi)


def folded(found: QuantisedProduct) -> Array:
    """The bias with what the zero point of the input adds to every sum, modulo 2^32."""
    wrapped: Array = (found.folded(found.x.signed().z) & 0xFFFFFFFF).astype(np.uint32)
    return wrapped.view(np.int32)


# -- convolutions -----------------------------------------------------------------------------


def _symmetric(m: Match, result: str = "y", mark: str = "") -> Checks:
    fits = QuantisedProduct.of(m, result=result, mark=mark).w.symmetric
    yield fits, "weights less their zero points do not fit int8"


def _conv_geometry(m: Match) -> Checks:
    for name in "xy":
        why = refusal(m.values[name].shape)  # type: ignore[union-attr]
        yield not why, why
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    yield min(m.conv.attr("pads") or [0]) >= 0, f"pads {m.conv.attr('pads')} (must be >= 0)"
    groups = int(m.conv.attr("group", 1))
    depthwise = groups == m.x.shape[1] == m.w.shape[0]
    few = depthwise or groups <= MOST_GROUPS
    yield few, f"{groups} groups (needs 1 to {MOST_GROUPS}, or one for each channel)"


def conv_supported(m: Match, rq: Rq, result: str = "y", mark: str = "") -> Checks:
    """A convolution whose codes are `result`."""
    asked = list(QuantisedProduct.checks(m, EIGHT, result, mark))
    yield from asked
    yield from _conv_geometry(m)
    if all(ok for ok, _ in asked):
        yield from _symmetric(m, result, mark)


def conv_add_supported(m: Match, rq: Rq) -> Checks:
    """A convolution and the sum behind it."""
    yield from conv_supported(m, rq, "c", "1")
    yield from qconvadd.supported(m)


def _window(found: QuantisedProduct) -> Window:
    assert found.window is not None
    wide = found.window.widened(2)
    return Window(*wide.kernel, *wide.strides, *wide.dilations, *wide.before)


def _residual(b: Images, m: Match, result: str) -> tuple[tuple[int, ...], AddCodes | None]:
    """(tensor, constants) of the codes that are added to those of the product."""
    if result == "y":
        return (), None
    c, r, y = codes(m, result), codes(m, "r"), codes(m, "y")
    add = sum_of(c, r, y, 1, b.rq, limits(m))
    return (b.read(m.r, r.signed().z),), add


def build_conv(b: Images, m: Match, result: str = "y", mark: str = "") -> None:
    """One layer, or for each group one on a part of the channels."""
    found = QuantisedProduct.of(m, arithmetic(b.rq), result, mark)
    made, window = found.y.signed(), _window(found)
    count = len(found.w.data)
    stored = found.w.stored.reshape(count, -1, window.kh, window.kw)
    weights = np.ascontiguousarray(stored.transpose(0, 2, 3, 1))
    within = found.y.as_signed(found.limits)
    rq = requant(b.rq, found.multipliers(arithmetic(b.rq)), made, within)
    rq = per_channel(rq, count)
    bias = folded(found)
    source = b.read(m.x, found.x.signed().z)
    extra, add = _residual(b, m, result)
    target = b.write(m.y, codes(m, "y").signed().z)
    name = m.conv.name
    if found.groups == 1 or found.depthwise:
        kind: Any = "dw" if found.groups > 1 else "conv"
        inputs = (source, *extra)
        b.layer(Layer(kind, name, inputs, target, window, weights, bias, rq, add))
        return
    whole = Layer("conv", name, (source,), target, window, weights, bias, rq)
    _grouped(b, name, found.groups, whole)


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
    asked = list(QuantisedProduct.checks(m))
    yield from asked
    rows = math.prod(m.x.shape[:-1])
    yield m.x.rank == 2 or rows == 1, f"rank {m.x.rank} with {rows} rows (needs 2)"
    if m.w.rank == 2 and all(ok for ok, _ in asked):
        yield from _symmetric(m)


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
    axis = out_axis(m.dot)
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
        yield from product_fits(m)
        yield from _symmetric(m)


def build_dense(b: Images, m: Match) -> None:
    """A convolution of 1 x 1; behind a Flatten one whose window is the whole image."""
    found = QuantisedProduct.of(m, arithmetic(b.rq))
    x, y = found.x.signed(), found.y.signed()
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
    within = found.y.as_signed(found.limits)
    rq = requant(b.rq, found.multipliers(arithmetic(b.rq)), y, within)
    bias, rq = folded(found), per_channel(rq, count)
    target = b.write(m.y, y.z)
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


_dense = activated(QuantisedProduct.dense_pattern())
_behind = activated(QuantisedProduct.dense_pattern(_flat()))
SPECS = (
    Spec(
        "qconv_add",
        quantised(activated(OP.Add(qconvadd._conv(), dequantised("r"), _outputs=["op"]))),
        conv_add_supported,
        build_conv_add,
        cases=_sum_cases,
    ),
    Spec(
        "qconv",
        quantised(activated(QuantisedProduct.conv_pattern())),
        conv_supported,
        build_conv,
        cases=QuantisedProduct.conv_cases,
    ),
    Spec("qflat", quantised(_behind), flat_supported, build_dense),
    Spec(
        "qdense",
        quantised(_dense),
        dense_supported,
        build_dense,
        cases=QuantisedProduct.dense_cases,
    ),
)
