# SPDX-License-Identifier: Apache-2.0
"""A matched product of quantised values with constant weights: its operands as one record.

The product is a Conv, ConvTranspose, MatMul or Gemm between DequantizeLinear and QuantizeLinear,
with a bias and a Relu or Clip or without. Its sums are integers of scale x.s * w.scale. Quantised
values `r` may be added to the sums, or to the product's own quantised values, which are called `c`
then and its Relu or Clip `act1`; those of the whole match are always called `y`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, U8, DType
from aot.ir.graph_nodes import Array, attribute
from aot.vendor.cases import Case
from aot.vendor.fixed_point import multiply
from aot.vendor.match import PRODUCTS, Match, NodeRef, product_shape, same_shapes
from aot.vendor.pattern import OP, Pat, Var, either
from aot.vendor.quantisation import (
    QUANTISED_TYPES,
    Quantisation,
    activated,
    all_hold,
    bounds,
    constant_bounds,
    dequantised,
    known,
    quantisation,
    told,
)
from aot.vendor.quantised_cases import (
    conv_add_cases,
    conv_cases,
    fc_cases,
    product,
    transposed_cases,
)
from aot.vendor.quantised_pair import QuantisedPair
from aot.vendor.requant import FLOAT, MAX_SUM, SUMS, TFLITE, fixed_point, multipliers, refusal
from aot.vendor.window_shape import WindowShape

#: A float bias is rounded to whole units of the sum where that moves no result by more than this.
BIAS_ERROR = 2.0**-7
CONVOLUTIONS = ("Conv", "ConvTranspose")


@dataclass(frozen=True, slots=True)
class Weights:
    """Constant weights, output channels first: their quantised values without zero points, and
    scales."""

    data: Array  # int64
    scale: Array  # float32, one or one per channel

    @property
    def symmetric(self) -> bool:
        """Whether int8 holds all weights less their zero points."""
        return bool(self.data.size == 0 or (self.data.min() >= -128 and self.data.max() <= 127))

    @property
    def stored(self) -> Array:
        """The weights less their zero points as int8, or as int16 where int8 is too narrow."""
        return self.data.astype(np.int8 if self.symmetric else np.int16)


def weights_of(m: Match) -> Weights:
    """The constant weights `w` of a match with their output channels as first axis, zero points
    removed.

    A ConvTranspose has the channels of all groups there.
    """
    w, node = quantisation(m, "w"), product_node(m)
    data = np.moveaxis(np.asarray(m.w.data).astype(np.int64), out_axis(node), 0)
    data = data - w.zero.reshape((-1, *[1] * (data.ndim - 1)))
    scale = w.scale.reshape(-1).astype(np.float32)
    # The weights of a ConvTranspose have the output channels of one group only.
    groups = int(node.attr("group", 1)) if node.op_type == "ConvTranspose" else 1
    if groups > 1:
        parts = data.reshape(len(data), groups, -1, *data.shape[2:]).swapaxes(0, 1)
        data = np.ascontiguousarray(parts).reshape(-1, *parts.shape[2:])
    return Weights(data, np.tile(scale, groups) if scale.size > 1 else scale)


def weights_known(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that `w` is constant, of 8 bits, and has one scale or one per output channel."""
    constant = m.w.is_const and m.sw.is_const and (m.zw is None or m.zw.is_const)
    yield constant, "weights that are computed at run time (needs constants)"
    yield m.w.dtype in (S8, U8), f"weights of {m.w.dtype} (needs int8 or uint8)"
    count, axis = math.prod(m.sw.shape), int(m.w_dq.attr("axis", 1)) % m.w.rank
    along = len(m.sw.shape) == 1 and axis == out_axis(product_node(m)) % m.w.rank
    fits = count == 1 or (along and count == m.w.shape[axis])
    yield fits, f"{count} scales of weights along axis {axis}"


def bias_of(m: Match, sx: np.float32, w: Weights, sy: np.float32) -> tuple[Array, str]:
    """The bias of a product in units of its sums, int64 [output channels], and why there is none.

    A unit is `sx` times the scale of the channel's weights. The bias is float32 or quantised values
    with a scale of its own, one per channel or one in all; without a bias it is zeros. The reason
    is "" where there is a bias. Refused are biases computed at run time, those beyond int32, and
    those whose rounding would move a result by more than BIAS_ERROR steps of `sy`.
    """
    unit = np.asarray(sx, np.float32) * w.scale
    count, nothing = len(w.data), np.zeros(0, np.int64)
    quantised_bias, given = m.values.get("b"), m.values.get("b") or m.values.get("f")
    if given is None:
        return np.zeros(count, np.int64), ""
    if not given.is_const or (quantised_bias is not None and not m.sb.is_const):
        return nothing, "a bias that is computed at run time (needs a constant)"
    if math.prod(given.shape) not in (1, count):
        return nothing, f"a bias of shape {list(given.shape)} for {count} channels"
    if quantised_bias is None:
        # In float32 the quotient of a large bias would be off by several units.
        exact = np.asarray(given.data, np.float64).reshape(-1) / unit.astype(np.float64)
    else:
        own = quantisation(m, "b")
        whole = np.asarray(given.data).astype(np.int64).reshape(-1) - own.zero.reshape(-1)
        exact = whole * (own.scale.reshape(-1).astype(np.float64) / unit.astype(np.float64))
    exact = np.broadcast_to(exact, (count,))
    if not np.all(np.isfinite(exact)) or np.any(np.abs(exact) >= 2.0**31):
        return nothing, "a bias that the sums cannot hold"
    rounded = np.rint(exact)
    moved = float(np.max(np.abs(exact - rounded) * unit / sy, initial=0.0))
    if moved > BIAS_ERROR:
        why = f"a bias that is no multiple of the sums' scale (moves results by {moved:.3g})"
        return nothing, why
    return rounded.astype(np.int64), ""


@dataclass(frozen=True, slots=True)
class QuantisedProduct:
    """A product of quantised values `x` with constant weights, as the match says it; made once by
    `of`.

    `x` and `y` are element type, scale and zero point of what is read and of the product's result,
    `limits` the lowest and highest quantised value of the result (its Relu or Clip included),
    `added` the quantised values `r` of a sum in the same match (None: there are none). `w` has the
    output channels first and no zero points. `bias` is int64 in units of the sums, one per output
    channel, without what the zero point of `x` adds (`folded` has that). `window` is None for a
    matrix product. `why` says why no kernel can hold the sums ("" = they fit); `bias` is empty
    where it is the reason. `total` is the sum of the product's own quantised values (its `a`) and
    of `r` (its `b`), None where the match has no quantised values between.
    """

    node: NodeRef
    x: Quantisation
    y: Quantisation
    limits: tuple[int, int]
    w: Weights
    bias: Array
    window: WindowShape | None
    groups: int = 1
    added: Quantisation | None = None
    why: str = ""
    total: QuantisedPair | None = None

    @classmethod
    def of(cls, m: Match, rq: int = FLOAT) -> QuantisedProduct:
        """The product of `m` in the arithmetic `rq`; SUMS leaves every channel as it is.

        Parameters of quantised values, weights and bias must be constants: `checks` yields that
        first.
        """
        node, inner = product_node(m), stored_between(m)
        x, y, w = quantisation(m, "x"), quantisation(m, "c" if inner else "y"), weights_of(m)
        bias, why = np.zeros(0, np.int64), refusal(float(x.s), w.scale, float(y.s))
        # With scales that are refused there may be no units to divide by.
        if not why:
            bias, why = bias_of(m, x.s, w, y.s)
        if not why and rq != SUMS:
            w, bias = without_constants(w, bias, x, y, rq)
        convolves = node.op_type in CONVOLUTIONS
        window = WindowShape.of(node, m.w.shape[2:]) if convolves else None
        groups = int(node.attr("group", 1)) if convolves else 1
        scale = m.values.get("sr")
        added = quantisation(m, "r") if scale is not None and scale.is_const else None
        limits, total = bounds(m, y, "1" if inner else ""), None
        if inner and added is not None:
            last = quantisation(m, "y")
            total = QuantisedPair("Add", y, added, last, bounds(m, last))
        made = cls(node, x, y, limits, w, bias, window, groups, added, why, total)
        largest = 0 if why else int(made.largest.max(initial=0))
        sums = f"sums up to {largest} (needs less than {MAX_SUM})"
        return made if largest < MAX_SUM else replace(made, why=sums, bias=bias[:0])

    @property
    def depthwise(self) -> bool:
        """Whether every channel has a filter of its own: as many groups as channels, one input
        each.
        """
        return self.groups > 1 and self.w.data.shape[:2] == (self.groups, 1)

    def folded(self, zero: int) -> Array:
        """The bias less `zero` times the sum of each channel's weights, int64 [output channels].

        With it, kernels multiply the quantised values of x as they are.
        """
        total: Array = self.bias - zero * self.w.data.reshape(len(self.w.data), -1).sum(axis=1)
        return total

    @property
    def largest(self) -> Array:
        """Bounds of the sums of every output channel (int64), with the zero point in the bias or
        taken off."""
        total, x = np.abs(self.w.data).reshape(len(self.w.data), -1).sum(axis=1), self.x.signed()
        low, high = x.range
        furthest = max(abs(low - x.z), abs(high - x.z))
        folded = total * abs(x.z) + total * max(abs(low), high)
        return np.asarray(np.maximum(total * furthest, folded) + np.abs(self.bias))

    def multipliers(self, rq: int) -> tuple[Array, Array | None]:
        """The multipliers of sums with their shifts, one or one per channel, as
        `requant.multipliers` gives them.

        Channels share a multiplier where all have one scale.
        """
        scale = self.w.scale.reshape(-1)
        of = "conv" if self.window is not None or scale.size > 1 else "fc"
        if np.all(scale == scale[0]):
            scale = scale[:1]
        return multipliers(float(self.x.s), scale, float(self.y.s), rq, of)

    @staticmethod
    def conv_pattern(op_type: str = "Conv") -> Pat:
        """The pattern of a Conv or ConvTranspose of quantised `x` and `w`; the node is called
        `conv`.

        The bias is quantised values `b`, floats `f`, or absent.
        """
        x, w, made = dequantised("x"), dequantised("w"), getattr(OP, op_type)
        return either(
            made(x, w, dequantised("b"), _outputs=["conv"]),
            made(x, w, Var("f"), _outputs=["conv"], _optional=1),
        )

    @staticmethod
    def conv_add_pattern() -> Pat:
        """The sum of the quantised values `c` of a Conv, with its own Relu or Clip, and of
        quantised values `r`; the node is called `op`."""
        product = activated(QuantisedProduct.conv_pattern(), "1")
        c = OP.QuantizeLinear(product, Var("sc"), Var("zc"), _optional=1, _outputs=["c"])
        return OP.Add(
            OP.DequantizeLinear(c, Var("sd"), Var("zd"), _optional=1),
            dequantised("r"),
            _outputs=["op"],
        )

    @staticmethod
    def dense_pattern(x: Pat | None = None) -> Pat:
        """The pattern of a MatMul or Gemm of quantised `x` and `w`, with a bias or without.

        `x` may be another pattern; the node is called `dot`.
        """
        x, w = x or dequantised("x"), dequantised("w")
        dot = OP.MatMul(x, w, _outputs=["dot"])
        return either(
            OP.Add(dot, dequantised("b"), _outputs=["biased"]),
            OP.Gemm(x, w, dequantised("b"), _outputs=["dot"]),
            OP.Add(dot, Var("f"), _outputs=["biased"]),
            OP.Gemm(x, w, Var("f"), _outputs=["dot"], _optional=1),
            dot,
        )

    @staticmethod
    @told
    def checks(
        m: Match,
        types: Sequence[DType] = QUANTISED_TYPES,
        rqs: Sequence[int] = (FLOAT, TFLITE),
        symmetric: bool = False,
    ) -> Iterator[tuple[bool, str]]:
        """Checks that integers can compute the product and a sum behind it, which `of` may then
        read.

        `types` are the element types that all quantised values but the weights may have, `rqs`
        the arithmetics that `of` is asked for. With `symmetric` int8 must hold the weights less
        their zero points. Returned is whether all hold.
        """
        names = ["x", *["c"] * stored_between(m), *["r"] * ("r" in m.values), "y"]
        convolves = product_node(m).op_type in CONVOLUTIONS
        fits = yield from all_hold(window_fits(m) if convolves else dense_fits(m))
        full = 0 not in m.x.shape + m.y.shape
        yield full, f"an empty tensor {list(m.x.shape)}"
        yield m.y.shape == product_shape(m), "an operand that adds axes"
        if "r" in m.values:
            yield same_shapes(m, m.r)
            yield not m.r.is_const, "the sum with a constant"
        for mark in ("", "1"):
            yield from constant_bounds(m, mark)
        ready = yield from all_hold([*known(m, *names, types=types), *weights_known(m)])
        if symmetric:
            yield from QuantisedProduct.weights_symmetric(m)
        # `of` computes with the constants that were checked until here.
        if not (fits and ready and full):
            return
        reasons = [k.why for rq in rqs if (k := QuantisedProduct.of(m, rq)).why]
        yield not reasons, reasons[0] if reasons else ""
        if stored_between(m):
            yield from total_fits(m)

    @staticmethod
    def weights_symmetric(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that int8 holds the weights less their zero points, where these are constants."""
        ready = m.w.rank > 1 and m.w.is_const and m.sw.is_const and (m.zw is None or m.zw.is_const)
        fits = not ready or weights_of(m).symmetric
        yield fits, "weights less their zero points do not fit int8"

    @staticmethod
    def example(x: Array, w: Array, axis: int, **more: Any) -> Case:
        """A test case of quantised values `x` and `w`, whose output channels are on `axis`.

        `more` are the zero points (keywords of `product`), `dtype` of the result, `bias` and
        `per_channel` (both true unless said otherwise), and attributes as in "conv.pads".
        """
        return product(x, w, axis, **more)

    #: Test cases: of `conv_pattern` for a Conv and a ConvTranspose, and of the other two patterns.
    conv_cases, transposed_cases = staticmethod(conv_cases), staticmethod(transposed_cases)
    conv_add_cases, dense_cases = staticmethod(conv_add_cases), staticmethod(fc_cases)


def product_node(m: Match) -> NodeRef:
    """The node of the match that is a convolution or a matrix product; StopIteration if there is
    none.
    """
    return next(n for n in m.nodes if n.op_type in PRODUCTS)


def stored_between(m: Match) -> bool:
    """Whether the product has quantised values `c` of its own, to which others are added."""
    return "sc" in m.values


def out_axis(node: NodeRef) -> int:
    """The axis of the output channels in the weights of a product: 0, or 1 for matrices [k, n]."""
    if node.op_type == "Conv":
        return 0
    return 0 if node.op_type == "Gemm" and node.attr("transB", 0) else 1


def window_fits(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that a convolution has one to three spatial axes and explicit pads."""
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5: one to three spatial axes)"
    pad = m.conv.attr("auto_pad", "NOTSET")
    yield pad == "NOTSET", f"auto_pad {pad!r} (needs explicit pads)"


def dense_fits(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that a matrix product has weights of rank 2, no alpha, beta or transA, and a row as
    bias.
    """
    rank = len(m.x_dq.shape)
    yield rank >= 2, f"rank {rank} (needs 2 or more)"
    yield m.w.rank == 2, f"weights of rank {m.w.rank} (needs 2)"
    yield not m.dot.attr("transA", 0), "transA 1 (needs 0)"
    one = all(float(m.dot.attr(k, 1.0)) == 1.0 for k in ("alpha", "beta"))
    yield one, "Gemm with alpha or beta other than 1"
    bias = m.values.get("b") or m.values.get("f")
    row = bias is None or math.prod(bias.shape) in (1, *bias.shape[-1:])
    yield row, f"a bias of shape {list(bias.shape) if bias else []}"


def total_fits(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that a convolution's quantised values and others can be added in the same pass."""
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    groups = int(m.conv.attr("group", 1))
    yield groups == 1, f"group {groups} (needs 1)"
    # The one with the smaller windows (a shortcut) comes first, and with it goes what it reads.
    smaller = depth_beside(m) <= math.prod(m.w.shape[1:])
    yield smaller, "the other operand is the larger convolution"
    same = m.sd.is_const and np.array_equal(m.sd.data, m.sc.data)
    same = same and (m.zd is None) == (m.zc is None)
    same = same and (m.zd is None or (m.zd.is_const and np.array_equal(m.zd.data, m.zc.data)))
    yield same, "quantised values that are read with other parameters"
    total = QuantisedProduct.of(m).total
    assert total is not None
    yield from total.sum_fits()


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


def without_constants(
    w: Weights, bias: Array, x: Quantisation, y: Quantisation, rq: int
) -> tuple[Weights, Array]:
    """Channels whose every sum becomes the same quantised value get zero weights and that code as
    their sum.

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


def requantised(total: int, sx: np.float32, sw: np.float32, y: Quantisation, rq: int) -> int:
    """The quantised value, less its zero point, that a sum (int32) becomes in the arithmetic `rq`.

    `sx` and `sw` are the scales of operand and weights.
    """
    low, high = (end - y.z for end in y.range)
    if rq == TFLITE:
        mult, shift = fixed_point(float(sx) * float(sw) / float(y.s))
        value = float(multiply(np.array(total), mult, shift))
    else:
        value = float(np.rint(np.float32(total) * np.float32(np.float32(sx * sw) / y.s)))
    return int(np.clip(value, low, high))
