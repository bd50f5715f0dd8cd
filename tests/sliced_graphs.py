# SPDX-License-Identifier: Apache-2.0
"""A small quantised network whose calls slices cut in every way."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from quant_graphs import Net

#: Multiplications per kernel of `parts`: a pixel of the first one has 128, a row 640.
POINT, DEEP, DENSE = 3200, 3600, 192


class Sliced(Net):
    """A network of quantised values of one type, scale and zero point, with random weights."""

    def __init__(self, kind: type, *shape: int) -> None:
        """An input `x` of `kind`, int8 or int16, and this shape."""
        super().__init__(x=(kind, shape))
        self.kind, self.rng = kind, np.random.default_rng(0)
        self.units = (0.05, kind(3)) if kind is np.int8 else (0.0002, kind(0))

    def weights(self, *shape: int, axis: int = 0) -> str:
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        zeros = np.zeros(shape[axis], np.int8)
        return self.dq(self.const(data), np.full(shape[axis], 0.01), zeros, axis=axis)

    def quantised(self, x: str) -> str:
        return self.dq(self.q(x, *self.units), *self.units)

    def conv(self, x: str, *shape: int, **how: Any) -> str:
        return self.quantised(self.add("Conv", x, self.weights(*shape), **how))


def parts(kind: type = np.int8) -> onnx.ModelProto:
    """[1, 8, 5, 5] of int8 or int16 to [1, 12]: Conv 1x1 (16), depthwise 3x3, average, MatMul."""
    net = Sliced(kind, 1, 8, 5, 5)
    point = net.conv(net.dq("x", *net.units), 16, 8, 1, 1)
    deep = net.conv(point, 16, 1, 3, 3, pads=[1] * 4, group=16)
    flat = net.add("Flatten", net.quantised(net.add("GlobalAveragePool", deep)), axis=1)
    dense = net.add("MatMul", net.quantised(flat), net.weights(16, 12, axis=1))
    return net.model(**{net.q(dense, *net.units): kind})


def columns(kind: type = np.int8) -> onnx.ModelProto:
    """[1, 8, 7, 11]: convolutions with larger windows, whose rows have more than a few pixels.

    They have three, wide and dilated columns, an Add behind, strides with uneven padding, filters
    per channel, a channel that is left over, and one axis. The last one has rows of two pixels, so
    that channels of a row are the shortest parts.
    """
    net = Sliced(kind, 1, 8, 7, 11)
    first = net.conv(net.dq("x", *net.units), 16, 8, 3, 3, pads=[1] * 4)
    wide = net.add("Conv", first, net.weights(16, 16, 3, 3), pads=[2] * 4, dilations=[2, 2])
    total = net.quantised(net.add("Add", net.quantised(wide), first))
    deep = net.conv(total, 16, 1, 3, 5, pads=[1, 0, 1, 4], strides=[2, 2], group=16)
    odd = net.conv(deep, 5, 16, 2, 2, pads=[0, 1, 1, 0], strides=[1, 2])
    line = net.add("Reshape", odd, net.const(np.array([1, 5, -1])))
    narrow = net.add("Conv", deep, net.weights(16, 16, 2, 2), strides=[2, 4])
    made = (net.add("Conv", line, net.weights(8, 5, 3)), narrow)
    return net.model(**{net.q(y, *net.units): kind for y in made})
