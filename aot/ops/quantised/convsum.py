# SPDX-License-Identifier: Apache-2.0
"""A convolution, or a product with constant weights, and a sum between codes, without codes between
them: QuantizeLinear([Relu | Clip](Conv(codes, weights, [bias]) + codes r)), as exporters for
TensorRT write it.

The exact int32 sums are scaled, the other operand is added in the same fixed point, and the total
is rounded once; the same for all values of `--requant`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, U8
from aot.ir.layout import PLAIN, Layout
from aot.ops.quantised import conv_portable
from aot.ops.quantised.common import finish, quantised, signed_input, signed_output
from aot.ops.quantised.conv import conv_shape, target_of
from aot.ops.quantised.convadd import stage_pixels
from aot.ops.quantised.shapes import QCall, QConv
from aot.vendor.cases import Case, case
from aot.vendor.codes import (
    Array,
    Codes,
    activated,
    bounds,
    codes,
    constant_bounds,
    dequantised,
    known,
)
from aot.vendor.layouts import channels_last
from aot.vendor.match import Match, same_shapes
from aot.vendor.pattern import OP, Pat, Var, either
from aot.vendor.quantised_cases import codes_of, scale, zero
from aot.vendor.quantised_product import (
    Weights,
    bias_of,
    largest_sum,
    weights_known,
    weights_of,
)
from aot.vendor.recorder import Recorder
from aot.vendor.requant import MAX_SUM, refusal

#: AOT_QCONV_SUM_BITS and AOT_REQUANT_NONE of runtime_c/kernels.
BITS, NONE = 24, 3

_X, _W, _B = (dequantised(k) for k in "xwb")


def convolved() -> Pat:
    """A convolution of codes, with a bias or without."""
    return either(
        OP.Conv(_X, _W, _B, _outputs=["conv"]),
        OP.Conv(_X, _W, Var("f"), _outputs=["conv"], _optional=1),
    )


def multiplied() -> Pat:
    """A product of codes with constant ones, with a bias or without."""
    product = OP.MatMul(_X, _W, _outputs=["dot"])
    biased = (OP.Add(product, b, _outputs=["biased"]) for b in (_B, Var("f")))
    return either(*biased, product)


def _sum(of: Pat) -> Pat:
    return activated(OP.Add(of, dequantised("r"), _outputs=["op"]))


conv_sum = quantised("qconv_sum", _sum(convolved()))
dense_sum = quantised("qdense_sum", _sum(multiplied()))


@dataclass(frozen=True, slots=True)
class Sums:
    """Weights with the output channels first, the bias in units of the sums, why there is none."""

    w: Weights
    bias: Array
    why: str = ""


def sums_of(m: Match, axis: int) -> Sums:
    """The product of codes `x` with constant `w`, whose output channels are its axis `axis`."""
    x, y, w = codes(m, "x").signed(), codes(m, "y"), weights_of(m, axis)
    none = np.zeros(0, np.int64)
    reason = refusal(float(x.s), w.scale, float(y.s))
    if "r" in m.values:
        reason = reason or refusal(float(codes(m, "r").s), np.ones(1), float(y.s))
    if reason:
        return Sums(w, none, reason)
    bias, why = bias_of(m, x.s, w, y.s)
    if bias is None:
        return Sums(w, none, why)
    if not w.symmetric:
        return Sums(w, none, "weights with zero points that int8 cannot hold")
    largest = largest_sum(w, bias, x)
    why = "" if largest < MAX_SUM else f"sums up to {largest} (needs less than {MAX_SUM})"
    return Sums(w, bias, why)


def _fits(m: Match, axis: int) -> Iterator[tuple[bool, str]]:
    asked = [*known(m, "x", "r", "y", types=(S8, U8)), *weights_known(m, (axis,))]
    yield from asked
    yield from constant_bounds(m)
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    yield same_shapes(m, m.r)
    yield not m.r.is_const, "the sum with a constant"
    if m.w.is_const and all(ok for ok, _ in asked):
        why = sums_of(m, axis).why
        yield not why, why


@conv_sum.check
def conv_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    groups = int(m.conv.attr("group", 1))
    yield groups == 1, f"group {groups} (needs 1)"
    yield from _fits(m, 0)


@dense_sum.check
def dense_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.x.rank >= 2 and m.w.rank == 2, f"ranks {m.x.rank} and {m.w.rank} (needs weights of 2)"
    if m.w.rank != 2:
        return
    bias = m.values.get("b") or m.values.get("f")
    if bias is not None and math.prod(bias.shape) > 1:
        yield bias.shape[-1] == math.prod(bias.shape), f"a bias of shape {list(bias.shape)}"
    yield m.y.shape == (*m.x.shape[:-1], m.w.shape[1]), "a sum that adds axes"
    yield from _fits(m, 1)


@conv_sum.layouts
def last(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    return {"x": channels_last(m.x), "r": channels_last(m.r), "y": channels_last(m.y)}


@dense_sum.layouts
def plain(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    return {"x": PLAIN, "r": PLAIN, "y": PLAIN}


def multipliers(x: Codes, w: Weights, step: float, bits: int) -> tuple[Array, Array]:
    """mult of 31 bits and shift of every channel: sums in steps, with so many fraction bits."""
    wide = np.broadcast_to(w.scale.astype(np.float64), (len(w.data),))
    fraction, exponent = np.frexp(float(x.s) * wide / step)
    shift = 31 - bits - exponent
    drop = np.maximum(shift - 62, 0)
    mult = np.minimum(np.rint(fraction * 2.0 ** (31 - drop)), 2**31 - 1)
    return mult.astype(np.int32), (shift - drop).astype(np.int8)


@dataclass(frozen=True, slots=True)
class Staged:
    """A convolution whose sums are stored, and how many pixels at a time."""

    shape: QConv
    call: QCall
    pixels: int

    def fields(self) -> dict[str, Any]:
        """Of aot_qconv_sum_params, those that are the convolution's; the others are 0."""
        rows = ("y0", "y1", "x_row0", "y_row0")
        names = "a_mult b_mult y_mult a_shift b_shift y_shift offset a_zero b_zero sum_zero".split()
        own = {k: v for k, v in self.shape.fields().items() if k not in rows}
        return {**own, "pixels": self.pixels, **dict.fromkeys(names, 0)}


def staged(c: Recorder, m: Match, found: Sums, sizes: dict[str, int], w: Array) -> Staged:
    """The convolution of these sizes with weights [oc, ic, kh, kw]."""
    x = codes(m, "x").signed()
    fields: dict[str, Any] = {**sizes, "rq": NONE, "y_zero": 0, "lo": 0, "hi": 0}
    shape = QConv(**fields, **target_of(c))
    inner = w.astype(np.int64).reshape(len(w), -1).sum(axis=1)
    call = conv_portable.plan_conv(shape, w, (found.bias - x.z * inner).astype(np.int32), "")
    return Staged(shape, call, stage_pixels(c, 4 * shape.oc, shape.ow, call.scratch))


def _record(c: Recorder, m: Match, found: Sums, sizes: dict[str, int], w: Array) -> None:
    """Record the call for a convolution of these sizes with weights [oc, ic, kh, kw]."""
    x, y, r = (codes(m, k).signed() for k in "xyr")
    made_of = staged(c, m, found, sizes, w)
    shape, call, pixels = made_of.shape, made_of.call, made_of.pixels
    low, high = bounds(m, codes(m, "y"))
    offset = codes(m, "y").z - y.z
    mult, shift = multipliers(x, found.w, float(y.s), BITS)
    source, other, made = signed_input(c, m.x), signed_input(c, m.r), signed_output(c, m.y)
    params = c.params(
        **made_of.fields()
        | {"b_mult": round(float(r.s) / float(y.s) * 2.0**BITS), "b_zero": r.z, "sum_zero": y.z},
        sum_lo=low - offset,
        sum_hi=high - offset,
    )
    operands: list[Any] = [made, source, c.const(call.weights, "w"), c.const(call.bias, "b")]
    operands += [c.const(mult, "mult"), c.const(shift, "shift"), c.scratch(call.scratch)]
    c.call(
        call.kernel.replace("aot_qconv_s8", "aot_qconv_sum_s8"),
        *operands,
        other,
        c.scratch(4 * pixels * shape.oc, "stage"),
        params,
        instance={"RQ": NONE, "PC": 0, **call.instance},
        inplace=[(made, other)] if m.r.ir is not m.x.ir else (),
        macs=shape.macs,
    )
    finish(c, m.y, made)


@conv_sum.lower
def conv_to_kernel(c: Recorder, m: Match) -> None:
    found = sums_of(m, 0)
    sizes = conv_shape(m, m.conv, codes(m, "x").signed(), codes(m, "y"), NONE)
    data = found.w.stored.reshape(*found.w.data.shape[:2], sizes["kh"], sizes["kw"])
    _record(c, m, found, sizes, data)


@dense_sum.lower
def dense_to_kernel(c: Recorder, m: Match) -> None:
    found = sums_of(m, 1)
    _record(c, m, found, dense_sizes(m), found.w.stored[:, :, None, None])


def dense_sizes(m: Match) -> dict[str, int]:
    """A product as a convolution of one row of pixels."""
    rows = math.prod(m.x.shape[:-1])
    sizes = {"n": 1, "ic": m.x.shape[-1], "ih": 1, "iw": rows, "oc": m.y.shape[-1]}
    ones, none = ("kh", "kw", "sh", "sw", "dh", "dw"), ("pt", "pl")
    sizes |= {"oh": 1, "ow": rows, **dict.fromkeys(ones, 1), **dict.fromkeys(none, 0)}
    return {**sizes, "x_zero": codes(m, "x").signed().z}


@conv_sum.cases
def conv_cases() -> Iterator[Case]:
    for shape, kernel, pads in (
        ((1, 16, 6, 7), (16, 16, 3, 3), [1, 1, 1, 1]),
        ((2, 5, 9, 4), (6, 5, 1, 1), [0, 0, 0, 0]),
        ((1, 3, 7, 9), (4, 3, 3, 3), [1, 1, 1, 1]),
        ((1, 4, 11), (7, 4, 3), [1, 1]),
    ):
        x, w = codes_of(*shape), codes_of(*kernel)
        r = codes_of(shape[0], kernel[0], *shape[2:], seed=7)
        named: dict[str, Any] = {"conv.pads": pads, "w_dq.axis": 0, "b_dq.axis": 0}
        steps = np.linspace(0.004, 0.011, kernel[0]).astype(np.float32)
        yield _case(x, w, steps, r, named)


@dense_sum.cases
def dense_cases() -> Iterator[Case]:
    for shape, out in (((3, 40), 10), ((2, 5, 17), 6)):
        x, w = codes_of(*shape), codes_of(shape[-1], out)
        r = codes_of(*shape[:-1], out, seed=7)
        steps = np.linspace(0.004, 0.011, out).astype(np.float32)
        yield _case(x, w, steps, r, {"w_dq.axis": 1, "b_dq.axis": 0})


def _case(x: Array, w: Array, steps: Array, r: Array, named: dict[str, Any]) -> Case:
    """x, w, bias in units of the sums, r; the result saturates at times."""
    zeros, sx = np.zeros(steps.size, np.int8), scale(0.031)
    width = np.sqrt(w.size / steps.size) * 74 * 74 * 0.031 * 0.0075 / 40
    b = np.arange(steps.size, dtype=np.int32) * 300
    operands = [x, sx, zero(-3), w, steps, zeros, b, sx * steps, zeros.astype(np.int32)]
    operands += [r, scale(width * 0.73), zero(-20), scale(width * 1.13), zero(-100)]
    const = tuple(i for i in range(len(operands)) if i not in (0, 9))
    return case(*operands, const=const, **named)
