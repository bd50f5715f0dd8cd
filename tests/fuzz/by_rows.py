# SPDX-License-Identifier: Apache-2.0
"""A small network over an image, of layers that can go row by row together."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.draft import Draft, Reject
from fuzz.families import family
from fuzz.layers import small, window

#: Elements of an intermediate value: expectations are computed by slow references.
MOST = 20_000
ACTIVATIONS = "Relu Sigmoid Tanh Neg Abs HardSwish LeakyRelu Elu Softplus"
Layer = Callable[[Draft, str], str]


@family(1)
def layers_by_rows(d: Draft) -> None:
    """Up to nine layers one behind the other, some beside a way around them."""
    x = d.feed(d.array([1, d.one(1, 2, 3, 4, 8, 16, 17), d.upto(6, 19), d.upto(3, 12)]))
    for _ in range(d.upto(2, 9)):
        x = d.one(*LAYERS)(d, x)
        if d.values[x].size > MOST:
            raise Reject


def convolved(d: Draft, x: str) -> str:
    """A convolution, of all channels, of groups or of each by itself."""
    channels = d.shape(x)[1]
    group = d.one(1, 1, channels)
    out = channels * d.one(1, 1, 2) if group > 1 else d.one(1, 3, 4, 8, 16, 17)
    attrs = window(d, 2)
    weights = d.const(small(d, [out, channels // group, *attrs.pop("kernel")]))
    bias = [d.operand([out], constant=1.0)] if d.chance(0.5) else []
    return d.add("Conv", [x, weights, *bias], group=group, **attrs)[0]


def by_constant(d: Draft, x: str) -> str:
    """Arithmetic with a constant: of one element, per channel, per column, per row or of all."""
    _, channels, height, width = d.shape(x)
    shape = d.one([1], [channels, 1, 1], [1, channels, 1, 1], [width], [height, 1], [height, width])
    both = [x, d.operand(shape, constant=1.0)]
    return d.add(d.word("Mul Add Sub Max"), both if d.chance(0.7) else both[::-1])[0]


def activated(d: Draft, x: str) -> str:
    """A function of each element."""
    return d.add(d.word(ACTIVATIONS), [x])[0]


def around(d: Draft, x: str) -> str:
    """A layer that keeps the shape, and its sum, product or concatenation with what it is given."""
    y = d.one(activated, by_constant, convolved, pooled)(d, x)
    if d.shape(y) == d.shape(x):
        return d.add(d.word("Add Mul Max"), [x, y] if d.chance(0.5) else [y, x])[0]
    if d.shape(y)[2:] == d.shape(x)[2:]:
        return d.add("Concat", [x, y], axis=1)[0]
    return y


def pooled(d: Draft, x: str) -> str:
    """The largest element or the average of windows."""
    kernel, stride = [d.one(1, 2, 3), d.one(1, 2, 3)], d.one(1, 1, 2)
    pads = [d.upto(0, k - 1) for k in kernel]
    attrs = {"kernel_shape": kernel, "strides": [stride, d.one(1, 2)], "pads": pads * 2}
    if d.chance(0.3):
        attrs["ceil_mode"] = 1
    if d.chance(0.5):
        return d.add("MaxPool", [x], **attrs)[0]
    return d.add("AveragePool", [x], count_include_pad=d.one(0, 1), **attrs)[0]


def padded(d: Draft, x: str) -> str:
    """A margin of zeros, of a number or of what lies at the edge."""
    sides = [0, 0, *(d.upto(0, 2) for _ in range(2)), 0, 0, *(d.upto(0, 2) for _ in range(2))]
    mode = d.word("constant edge reflect")
    number = [d.operand([], constant=1.0)] if mode == "constant" and d.chance(0.5) else []
    return d.add("Pad", [x, d.ints(*sides), *number], mode=mode)[0]


def cut(d: Draft, x: str) -> str:
    """Some of the channels, rows or columns."""
    axis = d.one(1, 2, 3)
    extent = d.shape(x)[axis]
    first = d.upto(0, extent - 1)
    last, step = d.upto(first + 1, extent), d.one(1, 1, 2)
    return d.add("Slice", [x, *(d.ints(n) for n in (first, last, axis, step))])[0]


def resized(d: Draft, x: str) -> str:
    """Rows and columns once or twice as many."""
    _, channels, height, width = d.shape(x)
    sizes = d.ints(1, channels, height * d.one(1, 2), width * d.one(1, 2))
    way = d.one({"mode": "nearest", "nearest_mode": "floor"}, {"mode": "linear"})
    attrs = {**way, "coordinate_transformation_mode": d.word("asymmetric half_pixel")}
    return d.add("Resize", [x, "", "", sizes], **attrs)[0]


LAYERS: tuple[Layer, ...] = (
    *[convolved] * 3,
    *[by_constant] * 2,
    *[activated] * 2,
    *[around] * 2,
    pooled,
    padded,
    cut,
    resized,
)
