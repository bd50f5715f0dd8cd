# SPDX-License-Identifier: Apache-2.0
"""Random networks with windows, residual sums and pooling of all kinds of rows, and with joined
channels, borders and other numbers of rows: of quantised values and of floats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx

from quant_graphs import Net

#: The kinds of floats of which networks are made.
FLOATS = tuple(map(np.dtype, (np.float32, np.float16, ml_dtypes.bfloat16)))
Value = tuple[str, tuple[int, int, int]]  # name, (channels, height, width)


class Made:
    """A network in the making; `values` are quantised values of int8 (scale 0.05, zero point 3) or
    int16, or floats of a kind of FLOATS, whose channels fill vectors or are few."""

    def __init__(self, seed: int, dtype: Any = np.int8) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.floats = self.dtype in FLOATS
        wide = self.dtype == np.int16
        self.scale, self.zero = (2e-4, np.int16(0)) if wide else (0.05, np.int8(3))
        self.counts = [3, 16, 32] if self.floats else [4, 6, 8, 16]
        self.channels = int(self.rng.choice([3, 4, 8]))
        height, width = (int(n) for n in self.rng.integers(9, 20, 2))
        self.net = Net(x=(self.dtype, (1, self.channels, height, width)))
        self.values: list[Value] = [("x", (self.channels, height, width))]

    def quantised_values(self, x: str) -> str:
        return x if self.floats else self.net.dq(x, self.scale, self.zero)

    def made(self, real: str, shape: tuple[int, int, int]) -> Value:
        if self.floats:
            value = (self.net.add("Relu", real) if self.rng.random() < 0.5 else real), shape
        else:
            value = self.net.q(real, self.scale, self.zero), shape
        self.values.append(value)
        return value

    def weights(self, *shape: int) -> str:
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        fan = float(np.prod(shape[1:]))
        if self.floats:
            return self.net.const((data / (90 * fan**0.5)).astype(self.dtype))
        steps = (self.rng.uniform(0.5, 1.5, shape[0]) / (60 * fan**0.5)).astype(np.float32)
        zeros = np.zeros(shape[0], np.int8)
        return self.net.dq(self.net.const(data), steps, zeros, axis=0)

    def conv(self, value: Value, depthwise: bool = False) -> Value | None:
        x, (c, h, w) = value
        kh, kw = (int(n) for n in self.rng.choice([1, 2, 3, 3, 5], 2))
        sh, sw = (int(n) for n in self.rng.choice([1, 1, 2, 3], 2))
        dh = int(self.rng.choice([1, 1, 2]))
        pads = [int(n) for n in self.rng.integers(0, 3, 4)]
        if self.rng.random() < 0.5:  # the most frequent windows have kernels of their own
            kh = kw = 3
            sh = sw = int(self.rng.choice([1, 2]))
            dh, pads = 1, [1, 1, 1, 1]
        out_h = (h + pads[0] + pads[2] - (kh - 1) * dh - 1) // sh + 1
        out_w = (w + pads[1] + pads[3] - kw) // sw + 1
        if out_h < 2 or out_w < 1:
            return None
        oc = c if depthwise else int(self.rng.choice(self.counts))
        attrs: dict[str, Any] = {"group": c if depthwise else 1, "kernel_shape": [kh, kw]}
        attrs |= {"pads": pads, "strides": [sh, sw], "dilations": [dh, 1]}
        weights = self.weights(oc, 1 if depthwise else c, kh, kw)
        real = self.net.add("Conv", self.quantised_values(x), weights, **attrs)
        return self.made(real, (oc, out_h, out_w))

    def largest(self, value: Value) -> Value | None:
        """The maxima of windows."""
        x, (c, h, w) = value
        k, s = int(self.rng.choice([2, 3])), int(self.rng.choice([1, 2]))
        before, after = (int(n) for n in self.rng.integers(0, 2, 2))
        out_h, out_w = ((n + before + after - k) // s + 1 for n in (h, w))
        if out_h < 2 or out_w < 1:
            return None
        pads = [before, before, after, after]
        y = self.net.add("MaxPool", x, kernel_shape=[k, k], strides=[s, s], pads=pads)
        self.values.append((y, (c, out_h, out_w)))
        return self.values[-1]

    def total(self) -> Value | None:
        """The sum of two values of one shape, if there are any."""
        first = self.values[int(self.rng.integers(len(self.values)))]
        same = [v for v in self.values if v[1] == first[1] and v[0] != first[0]]
        if not same:
            return None
        other = same[int(self.rng.integers(len(same)))]
        real = self.net.add("Add", self.quantised_values(first[0]), self.quantised_values(other[0]))
        return self.made(real, first[1])

    def joined(self, value: Value) -> Value | None:
        """The channels of two or three values of one extent, one of them perhaps a part of two."""
        _, (_, h, w) = value
        same = [v for v in self.values if v[1][1:] == (h, w)]
        others = [same[int(k)] for k in self.rng.integers(len(same), size=self.rng.integers(1, 3))]
        parts = [value, *others]
        if self.rng.random() < 0.5:
            parts.reverse()
        channels = sum(shape[0] for _, shape in parts)
        if channels > 48:
            return None
        y = self.net.add("Concat", *(name for name, _ in parts), axis=1)
        self.values.append((y, (channels, h, w)))
        return self.values[-1]

    def resized(self, value: Value) -> Value | None:
        """More rows or columns, or fewer: the nearest elements, or sums of two."""
        x, (c, h, w) = value
        up, across = (int(n) for n in self.rng.choice([1, 2, 2, 3], 2))
        out_h, out_w = (h * up, w * across) if self.rng.random() < 0.8 else (h * 2 // 3, w)
        if out_h * out_w > 1600 or out_h < 2 or (out_h, out_w) == (h, w):
            return None
        modes = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
        attrs = {"coordinate_transformation_mode": str(self.rng.choice(modes))}
        sizes = self.net.const(np.array([1, c, out_h, out_w], np.int64))
        nearest = self.rng.random() < 0.5
        attrs["mode"] = "nearest" if nearest else "linear"
        if nearest:
            attrs["nearest_mode"] = str(self.rng.choice(["floor", "round_prefer_floor"]))
            y = self.net.add("Resize", x, "", "", sizes, **attrs)
            self.values.append((y, (c, out_h, out_w)))
            return self.values[-1]
        real = self.net.add("Resize", self.quantised_values(x), "", "", sizes, **attrs)
        return self.made(real, (c, out_h, out_w))

    def bordered(self, value: Value) -> Value | None:
        """A constant around an image, or only above and below."""
        x, (c, h, w) = value
        above, below, left, right = (int(n) for n in self.rng.integers(0, 3, 4))
        if self.rng.random() < 0.4:
            left = right = 0
        pads = self.net.const(np.array([0, 0, above, left, 0, 0, below, right], np.int64))
        fill = self.net.const(np.array(7, self.dtype))
        y = self.net.add("Pad", x, pads, fill)
        self.values.append((y, (c, h + above + below, w + left + right)))
        return self.values[-1]

    def altered(self, value: Value) -> Value | None:
        """An operation per element, of floats or between quantised values."""
        kind = str(self.rng.choice(["Relu", "Clip", "Neg", "Sigmoid", "LeakyRelu"]))
        kept = self.dtype if self.floats else np.float32
        bounds = [self.net.const(np.array(n, kept)) for n in (-1.5, 2.0)]
        more = bounds if kind == "Clip" else []
        return self.made(self.net.add(kind, self.quantised_values(value[0]), *more), value[1])

    def scaled(self, value: Value) -> Value | None:
        """Channels times numbers, or times something between 0 and 1 that all positions decide."""
        x, (c, h, w) = value
        real = self.quantised_values(x)
        if self.rng.random() < 0.5:
            kept = self.dtype if self.floats else np.float32
            gate = self.net.const(self.rng.uniform(-1, 1, (c, 1, 1)).astype(kept))
        else:
            gate = self.net.add("Sigmoid", self.net.add("GlobalAveragePool", real))
        return self.made(self.net.add("Mul", real, gate), (c, h, w))

    def moved(self, value: Value) -> Value | None:
        """A step that moves elements, or alters each."""
        kinds = (self.joined, self.joined, self.resized, self.bordered, self.altered, self.scaled)
        return kinds[int(self.rng.integers(len(kinds)))](value)

    def step(self, moves: bool = False) -> None:
        if moves and self.rng.random() < 0.4 and self.moved(self.values[-1]) is not None:
            return
        choice = self.rng.random()
        last = self.values[-1] if self.rng.random() < 0.7 else self.values[0]
        if choice < 0.25 and self.total() is not None:
            return
        if 0.45 < choice < 0.6 and self.dtype != np.int16:  # ONNX has no MaxPool of int16
            self.largest(last)
        else:
            self.conv(last, depthwise=choice > 0.6)


def random_network(seed: int, dtype: Any = np.int8, moves: bool = False) -> onnx.ModelProto:
    """A network of 4 to 9 layers, often with an average over all positions at its end; with `moves`
    some of them move elements.
    """
    made = Made(seed, dtype)
    for _ in range(int(made.rng.integers(4, 10))):
        made.step(moves)
    if len(made.values) == 1:
        made.conv(made.values[0])
    name, (c, _, _) = made.values[-1]
    if made.rng.random() < 0.5 and name != "x":
        real = made.net.add("GlobalAveragePool", made.quantised_values(name))
        name, _ = made.made(real, (c, 1, 1))
    unread = [n for n, _ in made.values[1:] if not any(n in k.input for k in made.net.nodes)]
    return made.net.model(**{n: made.dtype for n in dict.fromkeys([*unread, name]) if n != "x"})
