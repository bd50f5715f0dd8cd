# SPDX-License-Identifier: Apache-2.0
"""What vendors share whose library computes quantised layers as TensorFlow Lite does.

Channels are last, images have four extents, multipliers 32 bits and a power of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from aot.ir.dtypes import S8
from aot.vendor.arguments import Handle, Operand
from aot.vendor.cases import Case, case
from aot.vendor.match import Match, ValueRef
from aot.vendor.quantisation import all_hold, told
from aot.vendor.quantised_cases import quantised_values
from aot.vendor.quantised_pair import TFLITE_SHIFTS, QuantisedPair
from aot.vendor.quantised_pool import QuantisedPool
from aot.vendor.quantised_product import QuantisedProduct
from aot.vendor.quantised_softmax import QuantisedSoftmax
from aot.vendor.recorder import Recorder
from aot.vendor.requant import TFLITE
from aot.vendor.window_shape import WindowShape

Array = np.ndarray[Any, Any]
Checks = Iterator[tuple[bool, str]]
Extents = tuple[int, ...]

#: Extents and pads that such libraries hold in 16 bits somewhere are below this.
MOST_EXTENT = 2**15
#: A larger shift to the right makes every sum 0, which a multiplier of 0 says too.
MOST_RIGHT = 30
#: What the parameters of a window are told of an image of few rows.
BY_ROWS = {"x[1]": "rows", "y[1]": "one", "pad[0]": "above"}
#: Longer rows could have sums whose reciprocal a Softmax shifts by more than 31 bits.
LONGEST_ROW = 511
#: Scales of a Softmax's x whose power of two is a shift to the left by 0 to 30 bits.
SCALES = (2.0**-26, 2.0**4)


def priced(m: Match, ratio: float, macs: int = 0) -> float:
    """Nanoseconds of a match that takes `ratio` times what portable C is estimated to take on a
    core without float vectors: 3 multiplications or 0.6 bytes in a nanosecond."""
    ends = [*(v for _, v in m.inputs()), *m.outputs()]
    moved = sum((math.prod(v.shape) * v.dtype.bits + 7) // 8 for v in ends)
    return ratio * (100.0 + macs / 3.0 + moved / 0.6)


def extents(value: ValueRef) -> Extents:
    """[batch, height, width, channels] of a value of rank 2 (one position), 3 or 4."""
    batch, channels, *space = value.shape
    return (batch, *(1,) * (2 - len(space)), *space, channels)


def images(m: Match) -> Checks:
    """Checks of rank and extents of x and y."""
    yield m.x.rank in (3, 4), f"rank {m.x.rank} (needs 3 or 4)"
    longest = max(m.x.shape + m.y.shape)
    yield longest < MOST_EXTENT, f"an extent of {longest} (needs less than {MOST_EXTENT})"


def signed(value: ValueRef, name: str) -> Checks:
    """Checks that a value is int8."""
    yield value.dtype is S8, f"{name} is of {value.dtype} (needs int8)"


def scales(found: QuantisedProduct) -> tuple[Array, Array]:
    """Multipliers and powers of two (int32), one each or one per output channel."""
    mult, shift = found.multipliers(TFLITE)
    assert shift is not None
    nothing = shift < -MOST_RIGHT
    return np.where(nothing, 0, mult).astype(np.int32), np.where(nothing, 0, shift).astype(np.int32)


def ends(found: QuantisedProduct) -> dict[str, int]:
    """Offsets of x and y, the smallest and the largest result, by names of parameters' fields."""
    low, high = found.limits
    return {"x_offset": -found.x.z, "y_offset": found.y.z, "low": low, "high": high}


# -- products -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution as such a library is told it: extents [batch, height, width, channels] of x, of
    the weights ([outputs, height, width, inputs of one group]) and of y; pairs are height, width.
    """

    x: Extents
    w: Extents
    y: Extents
    stride: Extents
    pad: Extents
    dilation: Extents

    @classmethod
    def of(cls, m: Match, found: QuantisedProduct) -> Self:
        """The convolution of a match on one or two axes."""
        assert found.window is not None
        window = found.window.widened(2)
        w = (len(found.w.data), *window.kernel, found.w.data.shape[1])
        steps = window.strides, window.before, window.dilations
        return cls(extents(m.x), w, extents(m.y), *steps)

    @property
    def whole(self) -> bool:
        """Whether x and weights have the same channels: there is one group."""
        return self.w[3] == self.x[3]

    @property
    def depthwise(self) -> bool:
        """Whether every channel has filters of its own."""
        return self.w[3] == 1 and self.x[3] > 1

    def weights(self, found: QuantisedProduct, deep: bool) -> Array:
        """The weights (int8) as [outputs, height, width, inputs], or with one input of each group
        as [height, width, outputs]. An axis that a convolution of one axis lacks has size 1."""
        w = found.w.stored.reshape(self.w[0], self.w[3], *self.w[1:3]).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(w[..., 0].transpose(1, 2, 0) if deep else w)


@told
def product_fits(m: Match, types: tuple[Any, ...]) -> Checks:
    """Checks of every product: of these types, symmetric weights, sums that stay in 32 bits when
    shifted. Returned is whether all hold."""
    if (yield from QuantisedProduct.checks(m, types, symmetric=True)):
        found = QuantisedProduct.of(m, TFLITE)
        moved = found.largest << np.maximum(scales(found)[1], 0)
        yield moved.max() < 2**31, f"sums that become {moved.max()} (needs less than 2^31)"


@told
def conv_fits(m: Match, product: Callable[[Match], Checks]) -> Checks:
    """Checks of a convolution of rank 3 or 4 and of its `product`; its pads, in elements, are in
    [0, MOST_EXTENT). Returned is whether all hold."""
    yield from images(m)
    yield from product(m)
    pads = [int(p) for p in m.conv.attr("pads") or [0]]
    yield (
        0 <= min(pads) <= max(pads) < MOST_EXTENT,
        f"pads {pads} (need 0 or more, less than {MOST_EXTENT})",
    )


def constants(c: Recorder, found: QuantisedProduct, w: Array, bias: Any) -> list[Handle]:
    """Weights as they are stored, the bias as the type `bias`, and per output channel a multiplier
    and a power of two (int32), also where there is one for all."""
    each = (np.broadcast_to(s, (len(found.w.data),)) for s in scales(found))
    named = zip((w, found.bias.astype(bias), *each), ("w", "b", "mult", "shift"), strict=True)
    return [c.const(np.ascontiguousarray(data), name) for data, name in named]


# -- pooling ------------------------------------------------------------------------------------


def average_fits(m: Match, types: tuple[Any, ...]) -> Checks:
    """Checks of a pool whose result has the scale and zero point of x, of rank 3 or 4.

    Padding never counts; every window covers a position of the image.
    """
    yield from images(m)
    if (yield from QuantisedPool.checks(m, types)):
        found = QuantisedPool.of(m)
        same = (found.x.s, found.x.z) == (found.y.s, found.y.z)
        yield same, "scale or zero point of the result differ (need to be those of x)"
        padded = any(found.window.before + found.window.after)
        yield not (padded and found.counts_padding), "padding that counts"
        yield from window_fits(found.window)


def window_fits(window: WindowShape) -> Checks:
    """Checks that every window covers a position of the image."""
    pads = list(zip(window.before, window.after, window.kernel, strict=True))
    inside = all(min(b, a) >= 0 and max(b, a) < k for b, a, k in pads)
    yield inside, f"pads {list(window.before + window.after)} (need to be smaller than the window)"
    plain = max(window.dilations) == 1
    yield plain, f"dilations {list(window.dilations)} (need to be 1)"


def maximum_window(m: Match) -> WindowShape:
    """The window of a MaxPool on two axes."""
    return WindowShape.of(m.root, [int(k) for k in m.root.attr("kernel_shape")]).widened(2)


def maximum_fits(m: Match) -> Checks:
    """Checks of a MaxPool: int8, of rank 3 or 4, no indices, no dilations, explicit pads.

    Every window covers a position of the image.
    """
    yield from signed(m.x, "x")
    yield from images(m)
    yield m.root.first_alone
    pad = m.root.attr("auto_pad", "NOTSET")
    yield pad in ("NOTSET", "VALID"), f"auto_pad {pad!r} (needs explicit pads)"
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    if m.x.rank in (3, 4):
        yield from window_fits(maximum_window(m))


def pool_fields(m: Match, window: WindowShape, limits: tuple[int, int]) -> dict[str, Any]:
    """The parameters of a pool: extents of x and y, window, strides, pads and limits."""
    return {
        "x": extents(m.x),
        "y": extents(m.y),
        "window": window.kernel[-2:],
        "stride": window.strides[-2:],
        "pad": window.before[-2:],
        "low": limits[0],
        "high": limits[1],
    }


def record_pool(
    c: Recorder,
    m: Match,
    kernel: str,
    window: WindowShape,
    limits: tuple[int, int],
    scratch: Sequence[Operand] = (),
    **more: int,
) -> None:
    """Record the call of a pool by the `kernel`, which gets `scratch` and `more` fields, too."""
    fields = {**pool_fields(m, window, limits), **more}
    rowwise = c.by_windows(m.y, m.x, window, BY_ROWS)
    c.call(kernel, m.y, m.x, *scratch, c.params(**fields), status=True, rowwise=rowwise)


def average_examples(*types: str) -> Iterator[Case]:
    """Averages that keep scale and zero point, of as many positions as give no halves."""
    yield from QuantisedPool.average_cases()
    for shape, attrs in (
        ((1, 5, 8, 8), {"pool.kernel_shape": [3, 3], "pool.strides": [2, 2]}),
        ((2, 17, 7, 6), {"pool.kernel_shape": [3, 5]}),
        ((1, 3, 11), {"pool.kernel_shape": [5], "pool.strides": [3]}),
    ):
        for dtype in types:
            same = np.array(0.0311, np.float32), np.array(-7, dtype)
            named: dict[str, Any] = attrs
            x = quantised_values(*shape, dtype=dtype)
            yield case(x, *same, *same, const=(1, 2, 3, 4), **named)


def maximum_examples() -> Iterator[Case]:
    """Cases of a MaxPool of int8: one with padding in 2-D, one in 1-D."""
    yield case(
        quantised_values(1, 17, 8, 8), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    yield case(quantised_values(2, 4, 9), kernel_shape=[2], strides=[2])


# -- two operands -------------------------------------------------------------------------------


def equal_shapes(m: Match) -> Checks:
    """Checks that operands and result have one shape."""
    same = m.a.shape == m.b.shape == m.y.shape
    yield same, f"operands {list(m.a.shape)} and {list(m.b.shape)} (need equal shapes)"


def pair_fields(m: Match, found: QuantisedPair) -> dict[str, int]:
    """The parameters of a sum or a product of as many elements each.

    The offsets of operands are their zero points negated, as such libraries add them.
    """
    fields = {"a_offset": -found.a.z, "b_offset": -found.b.z, "y_offset": found.y.z}
    if found.op_type == "Add":
        own = found.sum_fields(TFLITE)[1]
        numbers = {k: v for k, v in own.items() if k != "offset"}
        fields |= {"left": TFLITE_SHIFTS[m.y.dtype], **numbers}
    else:
        mult, shift = found.multipliers(TFLITE)
        assert shift is not None
        fields |= {"mult": int(mult[0]), "shift": int(shift[0])}
    return {"n": math.prod(m.y.shape), **fields, "low": found.limits[0], "high": found.limits[1]}


def to_pair(c: Recorder, m: Match, kernel: str) -> None:
    """Record the call of a sum or a product by the `kernel`; y may be either operand."""
    fields = pair_fields(m, QuantisedPair.of(m))
    places = [(m.y, m.a), (m.y, m.b)] if m.a.ir is not m.b.ir else [(m.y, m.a)]
    same: dict[str, Any] = {"status": True, "macs": fields["n"], "inplace": places}
    rowwise = c.by_elements(m.y, (0, 1, 2), "n")
    c.call(kernel, m.y, m.a, m.b, c.params(**fields), rowwise=rowwise, **same)


# -- Softmax ------------------------------------------------------------------------------------


def softmax_fits(m: Match) -> Checks:
    """Checks of a softmax of int8 along the last axis, quantised as TensorFlow Lite does: y has
    scale 1/256 and zero point -128; LONGEST_ROW and SCALES keep sums and shifts in range.
    """
    conditions = (*signed(m.x, "x"), *signed(m.y, "y"), *QuantisedSoftmax.checks(m))
    if (yield from all_hold(conditions)):
        found = QuantisedSoftmax.of(m, TFLITE)
        step, row = float(found.x.s), m.x.shape[found.axis]
        yield found.tflite, f"scale {found.y.s:g}, zero point {found.y.z} (needs 1/256 and -128)"
        yield row <= LONGEST_ROW, f"rows of {row} (need at most {LONGEST_ROW})"
        yield SCALES[0] <= step < SCALES[1], f"scale {step:g} of x (needs 2^-26 to 16)"
        yield from last_axis(m)


def last_axis(m: Match) -> Checks:
    """Checks that a softmax is along the last axis with more than one element."""
    axis = int(m.soft.attr("axis", -1)) % max(m.x.rank, 1)
    along = math.prod(m.x.shape[axis + 1 :]) == 1
    yield along, f"axis {axis} of {list(m.x.shape)} (needs the last one)"
