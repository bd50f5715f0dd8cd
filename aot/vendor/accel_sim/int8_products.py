# SPDX-License-Identifier: Apache-2.0
"""Products of 8-bit quantised values: convolutions, with a sum behind them, and fully connected
layers.

The checks and numbers are those of the portable kernels (aot/ops/quantised/), so the quantised
values are too.
"""

from __future__ import annotations

import math

import numpy as np

from aot.vendor import (
    FLOAT,
    OP,
    S8,
    TFLITE,
    U8,
    Match,
    Pat,
    Quantisation,
    QuantisedPair,
    QuantisedProduct,
    WindowShape,
    activated,
    quantised,
    wildcard,
)
from aot.vendor.accel_sim.images import Images, refusal
from aot.vendor.accel_sim.kinds import Kind, Rq
from aot.vendor.accel_sim.network import Array, Layer, LayerKind, QuantisedAddition, Requant, Window
from aot.vendor.accel_sim.specs import Checks, Spec

EIGHT = (S8, U8)
Multipliers = tuple[Array, Array | None]
#: Groups of a convolution that are computed one after the other.
MOST_GROUPS = 8


# -- numbers ----------------------------------------------------------------------------------


def arithmetic(rq: Rq) -> int:
    """The compiler's name (aot/vendor/requant.py) of an arithmetic."""
    return TFLITE if rq is Rq.TFLITE else FLOAT


def requant(rq: Rq, found: Multipliers, y: Quantisation, limits: tuple[int, int]) -> Requant:
    """How sums become the int8 quantised values `y` within `limits` (lowest, highest int8 value).

    `found` is (multipliers, shifts); shifts of None mean float32 scales, whose bits are in the
    multipliers.
    """
    mult, shift = found
    lo, hi = limits
    if shift is None:
        return Requant(Rq.FLOAT, mult.view(np.float32), zero=y.z, lo=lo, hi=hi)
    return Requant(rq, mult, shift, zero=y.z, lo=lo, hi=hi)


def sum_of(pair: QuantisedPair, rq: Rq) -> QuantisedAddition:
    """The constants with which VSET1 and VSET2 add two quantised values, by the arithmetic of `rq`.

    Zero points and limits are those of int8 values. `my` is the multiplier of the result in
    TFLite's arithmetic, else the offset of the sum; TFLite's subtracts if `minus`.
    """
    kind, f = pair.sum_fields(arithmetic(rq))
    # The sign of `b` is in its multiplier, but TFLite's arithmetic has positive multipliers only.
    tflite = kind == Kind.TFLITE
    lo, hi = pair.y.as_signed(pair.limits)
    return QuantisedAddition(
        Kind(kind),
        ma=f["a_mult"],
        mb=f["b_mult"],
        my=f["y_mult"] if tflite else f["offset"],
        sa=f["a_shift"],
        sb=f["b_shift"],
        sy=f["y_shift"],
        za=pair.a.signed().z,
        zb=pair.b.signed().z,
        zy=pair.y.signed().z,
        lo=lo,
        hi=hi,
        minus=tflite and pair.sign < 0,
    )


def per_channel(requant: Requant, count: int) -> Requant:
    """The same requantisation with one multiplier and shift for each of `count` channels."""
    mult = np.ascontiguousarray(np.broadcast_to(requant.mult, (count,)))
    shift = np.ascontiguousarray(np.broadcast_to(requant.shift, (count,)))
    return Requant(requant.rq, mult, shift, requant.zero, requant.lo, requant.hi)


def folded(found: QuantisedProduct) -> Array:
    """The bias, as int32 [channels], with the share of the input's zero point in every sum
    subtracted.

    It wraps modulo 2^32, as the sums do.
    """
    wrapped: Array = (found.folded(found.x.signed().z) & 0xFFFFFFFF).astype(np.uint32)
    return wrapped.view(np.int32)


# -- convolutions -----------------------------------------------------------------------------


def _conv_geometry(m: Match) -> Checks:
    """Checks that x and y are images of batch 1, no pad is negative, and groups are few."""
    for name in "xy":
        why = refusal(m.values[name].shape)  # type: ignore[union-attr]
        yield not why, why
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    yield min(m.conv.attr("pads") or [0]) >= 0, f"pads {m.conv.attr('pads')} (must be >= 0)"
    groups = int(m.conv.attr("group", 1))
    depthwise = groups == m.x.shape[1] == m.w.shape[0]
    few = depthwise or groups <= MOST_GROUPS
    yield few, f"{groups} groups (needs 1 to {MOST_GROUPS}, or one for each channel)"


def conv_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a quantised convolution, alone or with a sum with int8 quantised values `r` behind
    it.
    """
    yield from QuantisedProduct.checks(m, (S8,) if "r" in m.values else EIGHT, symmetric=True)
    yield from _conv_geometry(m)


def window_of(found: WindowShape) -> Window:
    """A window over two axes; an axis that it lacks has size 1."""
    wide = found.widened(2)
    return Window(*wide.kernel, *wide.strides, *wide.dilations, *wide.before)


def build_conv(b: Images, m: Match) -> None:
    """Add a quantised convolution to `b`: one layer, or one per group on its part of the channels.

    A sum behind the convolution is computed as the product drains.
    """
    found = QuantisedProduct.of(m, arithmetic(b.rq))
    whole = _conv_layer(b, m, found)
    if found.groups == 1 or found.depthwise:
        b.layer(whole)
    else:
        _grouped(b, whole.name, found.groups, whole)


def _conv_layer(b: Images, m: Match, found: QuantisedProduct) -> Layer:
    """The layer of a quantised convolution, not yet added to `b`; its weights are [co, kh, kw, ci].

    Where the match has a sum, `r` is its second input and the constants of the sum are in the
    layer.
    """
    assert found.window is not None
    made, window, total = found.y.signed(), window_of(found.window), found.total
    count = len(found.w.data)
    stored = found.w.stored.reshape(count, -1, window.kh, window.kw)
    weights = np.ascontiguousarray(stored.transpose(0, 2, 3, 1))
    within = found.y.as_signed(found.limits)
    rq = requant(b.rq, found.multipliers(arithmetic(b.rq)), made, within)
    inputs, add, zero = [b.read(m.x, found.x.signed().z)], None, made.z
    if total is not None:
        inputs.append(b.read(m.r, total.b.signed().z))
        add, zero = sum_of(total, b.rq), total.y.signed().z
    target = b.write(m.y, zero)
    kind: LayerKind = "dw" if found.depthwise else "conv"
    product = (window, weights, folded(found), per_channel(rq, count), add)
    return Layer(kind, m.conv.name, tuple(inputs), target, *product)


def _grouped(b: Images, name: str, groups: int, whole: Layer) -> None:
    """Add a convolution for each group of `whole`, between a slice of the input and a concat of
    results.
    """
    assert whole.weights is not None and whole.bias is not None and whole.requant is not None
    source, target = whole.inputs[0], whole.output
    (ih, iw, ic), (oh, ow, oc) = (b.tensors[t].shape for t in (source, target))
    step, made = ic // groups, oc // groups
    parts = []
    for g in range(groups):
        # Slices and the concat are addresses, not work: groups cost no copies.
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


# -- fully connected --------------------------------------------------------------------------


def _flat() -> Pat:
    """The graph of x dequantised behind a Reshape, as the first operand of a matrix product."""
    flat = OP.Reshape(wildcard("x"), wildcard("shape"), _outputs=["flat"])
    return OP.DequantizeLinear(flat, wildcard("sx"), wildcard("zx"), _optional=1, _outputs=["x_dq"])


def dense_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a quantised product with constant weights: x has rank 2, or only one row."""
    yield from QuantisedProduct.checks(m, EIGHT, symmetric=True)
    rows = math.prod(m.x.shape[:-1])
    yield m.x.rank == 2 or rows == 1, f"rank {m.x.rank} with {rows} rows (needs 2)"


def flat_supported(m: Match, rq: Rq) -> Checks:
    """Checks of a quantised product of all elements of one image, flattened by a Reshape to one
    row.

    Refused behind a Transpose: there the Reshape undoes the order that the image is stored in.
    """
    why = refusal(m.x.shape)
    yield not why, why
    maker = m.x.ir.producer()
    transposed = maker is not None and maker.op_type == "Transpose"
    yield not transposed, "behind a Transpose (which a Reshape undoes)"
    shape = m.x_dq.shape
    yield len(shape) == 2 and shape[0] == 1, f"rows of shape {list(shape)} (needs 1)"
    yield from QuantisedProduct.checks(m, EIGHT, symmetric=True)


def build_dense(b: Images, m: Match) -> None:
    """Add a matrix product of quantised values with constant weights as a convolution.

    Rows of x are pixels under a 1 x 1 window; behind a Flatten the window is the whole image, and
    weights [count, depth] are put in the image's order. Where the result is one row that lies along
    another axis, the convolution makes a row of channels and a reshape layer moves it.
    """
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
    """The number of a new tensor [1, 1, depth] with the elements of `source`, by a reshape
    layer.
    """
    row = b.inner(source, (1, 1, depth), f"{name}_row")
    b.layer(Layer("reshape", name, (source,), row))
    return row


# -- cases ------------------------------------------------------------------------------------


_dense = activated(QuantisedProduct.dense_pattern())
_behind = activated(QuantisedProduct.dense_pattern(_flat()))
SPECS = (
    Spec(
        "qconv_add",
        quantised(activated(QuantisedProduct.conv_add_pattern())),
        conv_supported,
        build_conv,
        cases=QuantisedProduct.conv_add_cases,
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
