# SPDX-License-Identifier: Apache-2.0
"""A matched product of quantised values with constant weights: its operands as one record.

The product is a Conv, ConvTranspose, MatMul or Gemm between DequantizeLinear and QuantizeLinear,
with a bias and a Relu or Clip or without. Its sums are integers of scale x.s * w.scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, U8, DType
from aot.ir.graph_nodes import Array
from aot.vendor.cases import Case
from aot.vendor.fixed_point import multiply
from aot.vendor.match import PRODUCTS, Match, NodeRef
from aot.vendor.pattern import OP, Pat, Var, either
from aot.vendor.quantisation import (
    QUANTISED_TYPES,
    Quantisation,
    all_hold,
    bounds,
    constant_bounds,
    dequantised,
    known,
    quantisation,
)
from aot.vendor.quantised_cases import conv_cases, fc_cases, product
from aot.vendor.requant import FLOAT, MAX_SUM, TFLITE, fixed_point, multipliers, refusal
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
        """Whether int8 holds them."""
        return bool(self.data.size == 0 or (self.data.min() >= -128 and self.data.max() <= 127))

    @property
    def stored(self) -> Array:
        """In the narrowest type."""
        return self.data.astype(np.int8 if self.symmetric else np.int16)


def weights_of(m: Match, axis: int) -> Weights:
    """Operand `w` with the output channels, `axis`, in front."""
    w = quantisation(m, "w")
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
        own = quantisation(m, "b")
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
class QuantisedProduct:
    """A product of quantised values `x` with constant weights, as the match says it; made once by
    `of`.

    `x` and `y` are element type, scale and zero point of what is read and of the result, `limits`
    the lowest and highest quantised value of the result (its Relu or Clip included), `added` the
    quantised values `r` of a sum in the same match (None: there are none). `w` has the output
    channels first and no zero points. `bias` is int64 in units of the sums, one per output channel,
    without what the zero point of `x` adds (`folded` has that). `window` is None for a matrix
    product. `why` says why no kernel can hold the sums ("" = they fit); `bias` is empty then.
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

    @classmethod
    def of(cls, m: Match, rq: int = FLOAT, result: str = "y", mark: str = "") -> QuantisedProduct:
        """The product of `m` whose quantised values are called `result`, in the arithmetic `rq`.

        `mark` ends the names of its activation, as in `activated`. Parameters of quantised values,
        weights and bias must be constants: `checks` yields that first.
        """
        node = product_node(m)
        x, y, w = quantisation(m, "x"), quantisation(m, result), weights_of(m, out_axis(node))
        reason = refusal(float(x.s), w.scale, float(y.s))
        bias, why = (None, reason) if reason else bias_of(m, x.s, w, y.s)
        if bias is None:
            bias = np.zeros(0, np.int64)
        else:
            w, bias = without_constants(w, bias, x, y, rq)
            largest = int(largest_sums(w, bias, x.signed()).max(initial=0))
            why = "" if largest < MAX_SUM else f"sums up to {largest} (needs less than {MAX_SUM})"
        convolves = node.op_type in CONVOLUTIONS
        window = WindowShape.of(node, m.w.shape[2:]) if convolves else None
        groups = int(node.attr("group", 1)) if convolves else 1
        scale = m.values.get("sr")
        added = quantisation(m, "r") if scale is not None and scale.is_const else None
        return cls(node, x, y, bounds(m, y, mark), w, bias, window, groups, added, why)

    @property
    def depthwise(self) -> bool:
        """Whether every channel has a filter of its own."""
        return self.groups > 1 and self.w.data.shape[:2] == (self.groups, 1)

    def folded(self, zero: int) -> Array:
        """The bias with what the zero point `zero` of x adds to every sum (int64)."""
        total: Array = self.bias - zero * self.w.data.reshape(len(self.w.data), -1).sum(axis=1)
        return total

    @property
    def largest(self) -> Array:
        """Bounds of the sums of every output channel, whatever is done first (int64)."""
        return largest_sums(self.w, self.bias, self.x.signed())

    def multipliers(self, rq: int) -> tuple[Array, Array | None]:
        """What sums are multiplied by, as `requant.multipliers` has it: one, or one per channel.

        Channels that have one scale share the multiplier.
        """
        scale = self.w.scale.reshape(-1)
        of = "conv" if self.window is not None or scale.size > 1 else "fc"
        if np.all(scale == scale[0]):
            scale = scale[:1]
        return multipliers(float(self.x.s), scale, float(self.y.s), rq, of)

    @staticmethod
    def conv_pattern() -> Pat:
        """A Conv of quantised values `x` with quantised values `w`; a bias of quantised values `b`,
        of floats `f`, or none."""
        x, w = dequantised("x"), dequantised("w")
        return either(
            OP.Conv(x, w, dequantised("b"), _outputs=["conv"]),
            OP.Conv(x, w, Var("f"), _outputs=["conv"], _optional=1),
        )

    @staticmethod
    def dense_pattern(x: Pat | None = None) -> Pat:
        """A MatMul or Gemm of quantised values `x` (or of what `x` gives) with quantised values
        `w`, and a bias."""
        x, w = x or dequantised("x"), dequantised("w")
        dot = OP.MatMul(x, w, _outputs=["dot"])
        return either(
            OP.Add(dot, dequantised("b")),
            OP.Gemm(x, w, dequantised("b"), _outputs=["dot"]),
            OP.Add(dot, Var("f")),
            OP.Gemm(x, w, Var("f"), _outputs=["dot"], _optional=1),
            dot,
        )

    @staticmethod
    def checks(
        m: Match, types: Sequence[DType] = QUANTISED_TYPES, result: str = "y", mark: str = ""
    ) -> Iterator[tuple[bool, str]]:
        """Checks that integers can compute the product, which `of` may then read.

        `types` are the element types that x, the result and quantised values `r` of a sum may have.
        """
        if types is not QUANTISED_TYPES:
            yield from known(m, "x", result, types=types)
        if result == "y" and "r" in m.values:
            yield from known(m, "r", types=types)
        convolves = product_node(m).op_type in CONVOLUTIONS
        yield from conv_fits(m, result, mark) if convolves else dense_fits(m)

    @staticmethod
    def weights_symmetric(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that int8 holds the weights less their zero points, where these are constants."""
        ready = m.w.is_const and m.sw.is_const and (m.zw is None or m.zw.is_const)
        fits = ready and weights_of(m, out_axis(product_node(m))).symmetric
        yield fits or not ready, "weights less their zero points do not fit int8"

    @staticmethod
    def example(x: Array, w: Array, axis: int, **more: Any) -> Case:
        """A test case of quantised values `x` and `w`, whose output channels are on `axis`.

        `more` are the zero points (keywords of `product`), `dtype` of the result, `bias` and
        `per_channel` (both true unless said otherwise), and attributes as in "conv.pads".
        """
        return product(x, w, axis, **more)

    @staticmethod
    def conv_cases() -> Iterator[Case]:
        """Test cases of `conv_pattern`."""
        yield from conv_cases()

    @staticmethod
    def dense_cases() -> Iterator[Case]:
        """Test cases of `dense_pattern`."""
        yield from fc_cases()


def product_node(m: Match) -> NodeRef:
    """The product in a match."""
    return next(n for n in m.nodes if n.op_type in PRODUCTS)


def out_axis(node: NodeRef) -> int:
    """The axis of the output channels in the weights of a product."""
    if node.op_type == "Conv":
        return 0
    return 0 if node.op_type == "Gemm" and node.attr("transB", 0) else 1


def conv_fits(m: Match, result: str = "y", mark: str = "") -> Iterator[tuple[bool, str]]:
    """Checks of a convolution whose quantised values are `result`."""
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5: one to three spatial axes)"
    ready = yield from all_hold([*known(m, "x", result), *weights_known(m, (0,))])
    yield from constant_bounds(m, mark)
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    if m.w.is_const and ready:
        yield from product_fits(m, result)


def dense_fits(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of a matrix product with constant weights of rank 2."""
    axis, rows = out_axis(m.dot), m.x_dq.shape
    yield len(rows) >= 2, f"rank {len(rows)} (needs 2 or more)"
    yield m.w.rank == 2, f"weights of rank {m.w.rank} (needs 2)"
    yield from constant_bounds(m)
    plain = not m.dot.attr("transA", 0)
    yield plain, "transA 1 (needs 0)"
    one = all(float(m.dot.attr(k, 1.0)) == 1.0 for k in ("alpha", "beta"))
    yield one, "Gemm with alpha or beta other than 1"
    yield 0 not in rows + m.y.shape, f"an empty tensor {list(rows)}"
    conditions = list(known(m, "x", "y"))
    if m.w.rank == 2:
        conditions += weights_known(m, (axis,))
        yield m.y.shape == (*rows[:-1], m.w.shape[axis]), "a bias that adds axes"
    ready = yield from all_hold(conditions)
    bias = m.values.get("b") or m.values.get("f")
    if bias is not None and math.prod(bias.shape) > 1:
        yield bias.shape[-1] == math.prod(bias.shape), f"a bias of shape {list(bias.shape)}"
    if m.w.rank == 2 and ready:
        yield from product_fits(m)


def product_fits(m: Match, result: str = "y") -> Iterator[tuple[bool, str]]:
    """Checks that kernels can hold the product's sums in every arithmetic."""
    made = (QuantisedProduct.of(m, rq, result) for rq in (FLOAT, TFLITE))
    reasons = [found.why for found in made if found.why]
    yield not reasons, reasons[0] if reasons else ""


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
    """The quantised value, less its zero point, that a sum becomes; sums of int32 only."""
    low, high = (end - y.z for end in y.range)
    if rq == TFLITE:
        mult, shift = fixed_point(float(sx) * float(sw) / float(y.s))
        value = float(multiply(np.array(total), mult, shift))
    else:
        value = float(np.rint(np.float32(total) * np.float32(np.float32(sx * sw) / y.s)))
    return int(np.clip(value, low, high))


def largest_sums(w: Weights, bias: Array, x: Quantisation) -> Array:
    """Bounds of the sums that a kernel may form, one per output channel, with the zero point in the
    bias or taken off."""
    total = np.abs(w.data).reshape(len(w.data), -1).sum(axis=1)
    low, high = x.range
    furthest = max(abs(low - x.z), abs(high - x.z))
    folded = total * abs(x.z) + total * max(abs(low), high)
    return np.asarray(np.maximum(total * furthest, folded) + np.abs(bias))
