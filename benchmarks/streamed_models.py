# SPDX-License-Identifier: Apache-2.0
"""Networks of known shapes with random weights, of floats or of int8 values, for streaming.py.

Values have one scale and zero point in all layers; weights are divided by the square root of how
many are added, so that values neither vanish nor saturate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests")]

from quant_graphs import Net  # noqa: E402

Value = tuple[str, tuple[int, int, int]]  # name, (channels, height, width)
Kind = type[np.generic]
#: How names of networks end, and the type of their values.
KINDS: dict[str, Kind] = {"int8": np.int8, "f32": np.float32, "f16": np.float16}
SCALE, ZERO = 0.05, np.int8(-20)


class Layers:
    """A network in the making; `x` is its input, of `channels` x `size` x `size`."""

    def __init__(self, size: int, dtype: Kind, channels: int = 3) -> None:
        self.dtype = dtype
        self.rng = np.random.default_rng(1)
        self.net = Net(x=(self.dtype, (1, channels, size, size)))
        self.x: Value = ("x", (channels, size, size))

    def real(self, name: str) -> str:
        """The values as real numbers."""
        return name if self.dtype != np.int8 else self.net.dq(name, SCALE, ZERO)

    def value(self, real: str, shape: tuple[int, int, int]) -> Value:
        """Real numbers as values."""
        kept = real if self.dtype != np.int8 else self.net.q(real, SCALE, ZERO)
        return kept, shape

    def weights(self, *shape: int) -> str:
        """Random weights; the first axis has as many as there are results."""
        fan = float(np.prod(shape[1:]))
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        if self.dtype != np.int8:
            return self.net.const((data / (50 * fan**0.5)).astype(self.dtype))
        steps = self.rng.uniform(0.8, 1.2, shape[0]) / (50 * fan**0.5)
        zeros = np.zeros(shape[0], np.int8)
        return self.net.dq(self.net.const(data), steps.astype(np.float32), zeros, axis=0)

    def conv(
        self, x: Value, wide: int, kernel: int, stride: int = 1, group: int = 1, relu: bool = True
    ) -> Value:
        """A convolution that keeps the extent, but for its stride, and Relu."""
        name, (channels, *extent) = x
        weights = self.weights(wide, channels // group, kernel, kernel)
        attrs = {"strides": [stride] * 2, "pads": [kernel // 2] * 4, "group": group}
        made = self.net.add("Conv", self.real(name), weights, **attrs)
        made = self.net.add("Relu", made) if relu else made
        height, width = ((n - 1) // stride + 1 for n in extent)
        return self.value(made, (wide, height, width))

    def depthwise(self, x: Value, stride: int = 1) -> Value:
        """A depthwise convolution of 3 x 3."""
        return self.conv(x, x[1][0], 3, stride, x[1][0])

    def add(self, a: Value, b: Value) -> Value:
        """The sum of two values."""
        return self.value(self.net.add("Add", self.real(a[0]), self.real(b[0])), a[1])

    def concat(self, *values: Value) -> Value:
        """The channels of all values."""
        made = self.net.add("Concat", *(n for n, _ in values), axis=1)
        _, (_, height, width) = values[0]
        return made, (sum(shape[0] for _, shape in values), height, width)

    def pool(self, x: Value, kernel: int = 2, stride: int = 2) -> Value:
        """The maxima of windows."""
        name, (channels, *extent) = x
        attrs = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
        made = self.net.add("MaxPool", name, **attrs)
        height, width = ((n - kernel) // stride + 1 for n in extent)
        return made, (channels, height, width)

    def larger(self, x: Value) -> Value:
        """Twice as many rows and columns: each value four times."""
        name, (channels, height, width) = x
        scales = np.array([1, 1, 2, 2], np.float32)
        attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
        attrs["nearest_mode"] = "floor"
        made = self.net.add(
            "Resize", name, self.net.const(np.array([], np.float32)), scales, **attrs
        )
        return made, (channels, 2 * height, 2 * width)

    def classes(self, x: Value, wide: int = 1000) -> onnx.ModelProto:
        """The network with the average over all positions and a matrix product at its end."""
        average = self.net.add("GlobalAveragePool", self.real(x[0]))
        name, (channels, _, _) = self.value(average, (x[1][0], 1, 1))
        flat = self.net.add("Flatten", self.real(name))
        product = self.net.add("Gemm", flat, self.weights(wide, channels), transB=1)
        return self.model(self.value(product, (wide, 1, 1)))

    def model(self, y: Value) -> onnx.ModelProto:
        """The network with result `y`."""
        return self.net.model(**{y[0]: self.dtype})


def mobilenetv2(size: int, dtype: Kind) -> onnx.ModelProto:
    """Inverted residuals: channels are expanded, filtered one by one, and projected."""
    net = Layers(size, dtype)
    x = net.conv(net.x, 32, 3, 2)
    for factor, wide, count, first in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for n in range(count):
            stride = first if n == 0 else 1
            inner = net.conv(x, factor * x[1][0], 1) if factor > 1 else x
            made = net.conv(net.depthwise(inner, stride), wide, 1, relu=False)
            x = net.add(x, made) if stride == 1 and x[1] == made[1] else made
    return net.classes(net.conv(x, 1280, 1))


def resnet50(size: int, dtype: Kind) -> onnx.ModelProto:
    """Bottlenecks of 1 x 1, 3 x 3 and 1 x 1 with sums."""
    net = Layers(size, dtype)
    x = net.pool(net.conv(net.x, 64, 7, 2), 2, 2)
    for stage, (wide, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for n in range(count):
            stride = 2 if stage and n == 0 else 1
            inner = net.conv(net.conv(x, wide, 1), wide, 3, stride)
            made = net.conv(inner, 4 * wide, 1, relu=False)
            beside = x if n else net.conv(x, 4 * wide, 1, stride, relu=False)
            x = net.add(made, beside)
    return net.classes(x)


def vgg19(size: int, dtype: Kind) -> onnx.ModelProto:
    """Convolutions of 3 x 3 and maxima. An average stands for the matrix products at the end."""
    net = Layers(size, dtype)
    x = net.x
    for wide, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(count):
            x = net.conv(x, wide, 3)
        x = net.pool(x)
    return net.classes(x)


def squeezenet(size: int, dtype: Kind) -> onnx.ModelProto:
    """Channels are squeezed and expanded by two convolutions beside each other."""
    net = Layers(size, dtype)
    x = net.pool(net.conv(net.x, 64, 3, 2))
    for n, (few, wide) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (64, 256))
    ):
        x = net.pool(x) if n in (2, 4) else x
        squeezed = net.conv(x, few, 1)
        x = net.concat(net.conv(squeezed, wide, 1), net.conv(squeezed, wide, 3))
    return net.classes(net.conv(x, 1000, 1), 1000)


def densenet121(size: int, dtype: Kind) -> onnx.ModelProto:
    """Each layer reads the results of all layers before it."""
    net = Layers(size, dtype)
    x = net.pool(net.conv(net.x, 64, 7, 2))
    for block, count in enumerate((6, 12, 24, 16)):
        if block:
            x = net.pool(net.conv(x, x[1][0] // 2, 1))
        for _ in range(count):
            x = net.concat(x, net.conv(net.conv(x, 128, 1), 32, 3))
    return net.classes(x)


def unet(size: int, dtype: Kind) -> onnx.ModelProto:
    """Halved four times and doubled again, with what each size had beside."""
    net = Layers(size, dtype)
    x, kept = net.x, list[Value]()
    for wide in (16, 32, 64, 128):
        x = net.conv(net.conv(x, wide, 3), wide, 3)
        kept.append(x)
        x = net.pool(x)
    x = net.conv(x, 256, 3)
    for beside in reversed(kept):
        wide = beside[1][0]
        x = net.concat(net.conv(net.larger(x), wide, 1), beside)
        x = net.conv(net.conv(x, wide, 3), wide, 3)
    return net.model(net.conv(x, 2, 1, relu=False))


NETWORKS: dict[str, Callable[[int, Kind], onnx.ModelProto]] = {
    f.__name__: f for f in (mobilenetv2, resnet50, vgg19, squeezenet, densenet121, unet)
}


def saved(name: str, folder: Path) -> Path:
    """The file of a network like "resnet50_224_int8" or "unet_128_f32", written to `folder`."""
    kind, size, dtype = name.rsplit("_", 2)
    path = folder / f"{name}.onnx"
    onnx.save(NETWORKS[kind](int(size), KINDS[dtype]), path)
    return path
