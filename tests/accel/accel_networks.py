# SPDX-License-Identifier: Apache-2.0
"""Networks for the compiler of AX1, and what they compute, written with NumPy from the layers.

The shapes of the seed models with weights that a seed makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import accel_arithmetic as arith
import numpy as np

from aot.vendor.accel_sim.encode import instr
from aot.vendor.accel_sim.frontend import VSet
from aot.vendor.accel_sim.kinds import Kind, Rq
from aot.vendor.accel_sim.network import Layer, Network, QuantisedAddition, Requant, Tensor, Window

Array = np.ndarray[Any, Any]


class Net:
    """A network that grows; every method returns the number of a tensor."""

    def __init__(self, seed: int = 0, rq: Rq = Rq.FLOAT, dtype: Any = "i8") -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors: list[Tensor] = []
        self.layers: list[Layer] = []
        self.rq, self.dtype = rq, dtype

    def tensor(self, h: int, w: int, c: int, **more: Any) -> int:
        """A tensor with a random zero point."""
        zero = int(self.rng.integers(-20, 20)) if self.dtype == "i8" else 0
        more = {"dtype": self.dtype, "zero": zero, **more}
        self.tensors.append(Tensor(f"t{len(self.tensors)}", h, w, c, **more))
        return len(self.tensors) - 1

    def input(self, h: int, w: int, c: int, **more: Any) -> int:
        """An input."""
        return self.tensor(h, w, c, where="input", **more)

    def network(self, *outputs: int) -> Network:
        """The network; `outputs` go to the system."""
        for n in outputs:
            self.tensors[n] = replace(self.tensors[n], where="output")
        return Network(tuple(self.tensors), tuple(self.layers))

    def _requant(self, channels: int, terms: int, zero: int, lo: int = -128) -> Requant | None:
        if self.dtype == "f32":
            return None
        scale = self.rng.uniform(0.5, 1.5, channels) / (50 * np.sqrt(terms))
        if self.rq is Rq.FLOAT:
            return Requant(Rq.FLOAT, scale.astype(np.float32), zero=zero, lo=lo)
        shift = np.floor(np.log2(scale)).astype(np.int8) + 1
        mult = np.round(scale / 2.0**shift * 2**31).astype(np.int64).clip(0, 2**31 - 1)
        return Requant(Rq.TFLITE, mult.astype(np.int32), shift.astype(np.int8), zero, lo)

    def _add(self, y: int) -> QuantisedAddition | None:
        if self.dtype == "f32":
            return None
        if self.rq is Rq.FLOAT:
            ma, mb = (int(v) for v in self.rng.integers(200, 900, 2))
            return QuantisedAddition(Kind.LINEAR, ma, mb, 512, sy=10)
        return QuantisedAddition(
            Kind.TFLITE, 1 << 30, 1400000000, 1300000000, -1, -2, -18, 3, -4, 5, lo=-128
        )

    def conv(
        self, x: int, co: int, kh: int = 1, kw: int = 1, stride: int = 1, *, deep: bool = True,
        residual: int | None = None, same: bool = True, table: bool = False, dilation: int = 1,
    ) -> int:  # fmt: skip
        """conv or (not deep) dw, with TensorFlow's padding, or none."""
        t = self.tensors[x]
        sides = []
        for n, k in ((t.height, kh), (t.width, kw)):
            wide = (k - 1) * dilation + 1
            out = -(-n // stride) if same else (n - wide) // stride + 1
            pad = max(0, (out - 1) * stride + wide - n) if same else 0
            sides.append((out, pad // 2))
        ci = t.channels if deep else 1
        y = self.tensor(sides[0][0], sides[1][0], co)
        w = self.rng.integers(-100, 100, (co, kh, kw, ci))
        bias = self.rng.integers(-3000, 3000, co)
        weights = (w / 100).astype(np.float32) if self.dtype == "f32" else w.astype(np.int8)
        inputs = (x,) if residual is None else (x, residual)
        quantised = self.rng.integers(-128, 128, 256).astype(np.int8) if table else None
        self.layers.append(Layer(
            "conv" if deep else "dw", f"conv{len(self.layers)}", inputs, y,
            Window(kh, kw, stride, stride, dilation, dilation, sides[0][1], sides[1][1]), weights,
            (bias / 1000).astype(np.float32) if self.dtype == "f32" else bias.astype(np.int32),
            self._requant(co, kh * kw * ci, self.tensors[y].zero),
            self._add(y) if residual is not None else None, quantised,
            (0.0, 6.0) if self.dtype == "f32" else (-np.inf, np.inf),
        ))  # fmt: skip
        return y

    def dw(self, x: int, kh: int, kw: int, stride: int = 1) -> int:
        """Depthwise."""
        return self.conv(x, self.tensors[x].channels, kh, kw, stride, deep=False)

    def pool(self, kind: Any, x: int, kh: int, kw: int, stride: int = 1, pad: int = 0) -> int:
        """max or average."""
        t = self.tensors[x]
        h = (t.height + 2 * pad - kh) // stride + 1
        w = (t.width + 2 * pad - kw) // stride + 1
        y = self.tensor(h, w, t.channels, zero=t.zero)
        requant = None
        if kind == "average" and self.dtype != "f32":
            requant = replace(self._requant(1, 1, t.zero) or Requant(), za=t.zero)
            if self.rq is Rq.FLOAT:
                requant = replace(requant, mult=np.array([1 / (kh * kw)], np.float32))
        window = Window(kh, kw, stride, stride, 1, 1, pad, pad)
        self.layers.append(Layer(kind, f"pool{len(self.layers)}", (x,), y, window, requant=requant))
        return y

    def alu(self, kind: Any, *x: int, **more: Any) -> int:
        """Elementwise, of the shape of the first operand."""
        t = self.tensors[x[0]]
        y = self.tensor(*t.shape)
        if kind == "add":
            more["add"] = self._add(y)
        if kind in ("mul", "clip") and self.dtype != "f32":
            more["requant"] = replace(
                self._requant(1, 30, self.tensors[y].zero, -90) or Requant(), za=-3, zb=7
            )
        if kind == "lut":
            more["table"] = self.rng.integers(-128, 128, 256).astype(np.int8)
        if kind == "softmax":
            table = np.round(np.exp(-np.arange(256) / 16) * 2**20).astype(np.int32)
            requant = Requant(Rq.FLOAT, np.array([1 << 24]), np.array([7]), -128, za=255)
            more |= {"table": table, "requant": requant}
        self.layers.append(Layer(kind, f"{kind}{len(self.layers)}", x, y, **more))
        return y

    def concat(self, axis: Any, *x: int) -> int:
        """Along an axis."""
        shapes = [self.tensors[n].shape for n in x]
        shape = list(shapes[0])
        shape["yxc".index(axis)] = sum(s["yxc".index(axis)] for s in shapes)
        y = self.tensor(*shape)
        self.layers.append(Layer("concat", f"concat{len(self.layers)}", x, y, axis=axis))
        return y

    def slice(self, x: int, start: tuple[int, int, int], shape: tuple[int, int, int]) -> int:
        """A part."""
        y = self.tensor(*shape, zero=self.tensors[x].zero)
        self.layers.append(Layer("slice", f"slice{len(self.layers)}", (x,), y, start=start))
        return y

    def reshape(self, x: int, h: int, w: int, c: int) -> int:
        """The same values."""
        y = self.tensor(h, w, c, zero=self.tensors[x].zero)
        self.layers.append(Layer("reshape", f"reshape{len(self.layers)}", (x,), y))
        return y


# -- what they compute ------------------------------------------------------------------------


def padded(x: Array, layer: Layer, y: Tensor, fill: float) -> Array:
    """The input with what windows read outside."""
    w = layer.window
    down = (y.height - 1) * w.sh + (w.kh - 1) * w.dh + 1 - w.top - x.shape[0]
    right = (y.width - 1) * w.sw + (w.kw - 1) * w.dw + 1 - w.left - x.shape[1]
    wide = ((w.top, max(0, down)), (w.left, max(0, right)), (0, 0))
    return np.pad(x, wide, constant_values=fill)


def taps(x: Array, layer: Layer, y: Tensor, fill: float) -> list[Array]:
    """For every tap the elements [height, width, channels] it reads."""
    w, full = layer.window, padded(x, layer, y, fill)
    found = []
    for ky in range(w.kh):
        for kx in range(w.kw):
            rows = slice(ky * w.dh, ky * w.dh + (y.height - 1) * w.sh + 1, w.sh)
            cols = slice(kx * w.dw, kx * w.dw + (y.width - 1) * w.sw + 1, w.sw)
            found.append(full[rows, cols])
    return found


def _sum_set(layer: Layer) -> VSet:
    a = layer.add
    assert a is not None
    rest = {n: getattr(a, n) for n in ("sa", "sb", "sy", "za", "zb", "zy", "lo", "hi")}
    return VSet(
        None,
        instr("VSET1", {"slot": 0, "ma": a.ma, "mb": a.mb, "my": a.my}),
        instr("VSET2", {"slot": 0, "kind": int(a.kind), "minus": int(a.minus), **rest}),
    )


def _quantised(total: Array, r: Requant) -> Array:
    mult = np.asarray(r.mult)
    bits = mult.astype(np.float32).view(np.int32) if r.rq is Rq.FLOAT else mult
    found = arith.requantise(total, bits.astype(np.int64), np.asarray(r.shift, np.int64), r.rq)
    return arith.clamp(found + r.zero, r.lo, r.hi)


def _product(layer: Layer, x: Array, source: Tensor, y: Tensor, values: list[Array]) -> Array:
    assert layer.weights is not None and layer.bias is not None
    w = layer.weights.reshape(layer.weights.shape[0], -1, layer.weights.shape[3])
    kind = np.float32 if source.dtype == "f32" else np.int64
    total = np.zeros(y.shape, kind)
    for tap, part in enumerate(taps(x, layer, y, source.zero if kind is np.int64 else 0)):
        if layer.kind == "dw":
            total = total + part.astype(kind) * w[:, tap, 0].astype(kind)
            continue
        if kind is np.int64:
            total = total + part.astype(np.int64) @ w[:, tap].T.astype(np.int64)
            continue
        for c in range(part.shape[2]):
            total = total + part[:, :, c, None] * w[None, None, :, tap, c]
    total = total + layer.bias.astype(kind)
    if kind is np.float32:
        total = total + values[1] if len(values) > 1 else total
        return np.clip(total, np.float32(layer.limits[0]), np.float32(layer.limits[1]))
    assert layer.requant is not None
    found = _quantised(arith.wrap(total), layer.requant)
    if layer.add is not None:
        found = arith.add_quantised(found, values[1].astype(np.int64), _sum_set(layer))
    return layer.table[found + 128] if layer.table is not None else found


def _pooled(layer: Layer, x: Array, y: Tensor) -> Array:
    real = x.dtype == np.float32
    outside = -np.inf if real else -1000
    parts = taps(x.astype(np.float32 if real else np.int64), layer, y, outside)
    if layer.kind == "max":
        return np.max(np.stack(parts), axis=0)
    inside = [part != outside for part in parts]
    total = np.zeros(y.shape, parts[0].dtype)
    for part, ok in zip(parts, inside, strict=True):
        total = np.where(ok, total + part, total)
    count = np.sum(np.stack(inside), axis=0)
    if real:
        return total / count.astype(np.float32)
    assert layer.requant is not None
    return _quantised(total - count * layer.requant.za, layer.requant)


def _elementwise(layer: Layer, values: list[Array]) -> Array:
    real = values[0].dtype == np.float32
    wide = [v if real else v.astype(np.int64) for v in values]
    a, b = wide[0], wide[-1]
    kind, r = layer.kind, layer.requant
    if kind == "add":
        return a + b if real else arith.add_quantised(a, b, _sum_set(layer))
    if kind == "mul":
        return a * b if real else _quantised((a - r.za) * (b - r.zb), r)  # type: ignore[union-attr]
    if kind == "clip":
        lo, hi = layer.limits if real else (r.lo, r.hi)  # type: ignore[union-attr]
        return np.clip(a, np.asarray(lo, a.dtype), np.asarray(hi, a.dtype))
    if kind == "lut":
        assert layer.table is not None
        return layer.table[a + 128]
    if kind == "softmax":
        assert layer.table is not None and r is not None
        last = r.za - (256 if r.za > 127 else 0)
        s = VSet(instr("VSET0", {
            "slot": 0, "mult": int(r.mult[0]), "shift": int(r.shift[0]), "za": last,
            "zero": r.zero, "rq": int(r.rq),
        }))  # fmt: skip
        rows = [arith.softmax(row, layer.table, s) for row in a.reshape(-1, a.shape[2])]
        return np.stack(rows).reshape(a.shape)
    return {"maximum": np.maximum, "minimum": np.minimum}.get(kind, lambda p, _: p)(a, b)


def reference(network: Network, inputs: Sequence[Array]) -> dict[int, Array]:
    """Every tensor [height, width, channels], quantised values as int8."""
    values: dict[int, Array] = dict(zip(network.ios()[0], inputs, strict=True))
    values.update({n: t.data for n, t in enumerate(network.tensors) if t.data is not None})
    for layer in network.layers:
        y = network.tensors[layer.output]
        own = [values[n] for n in layer.inputs]
        if layer.kind in ("conv", "dw"):
            found = _product(layer, own[0], network.tensors[layer.inputs[0]], y, own)
        elif layer.kind in ("max", "average"):
            found = _pooled(layer, own[0], y)
        elif layer.kind == "concat":
            found = np.concatenate(own, axis="yxc".index(layer.axis))
        elif layer.kind == "slice":
            parts = zip(layer.start, y.shape, strict=True)
            found = own[0][tuple(slice(a, a + n) for a, n in parts)]
        elif layer.kind == "reshape":
            found = own[0].reshape(y.shape)
        else:
            found = _elementwise(layer, own)
        values[layer.output] = found.astype(np.float32 if y.dtype == "f32" else np.int8)
    return values


# -- the seed models ----------------------------------------------------------------------------


def resnet8(**more: Any) -> Network:
    """Image classification."""
    n = Net(**more)
    x = n.conv(n.input(32, 32, 3), 16, 3, 3)
    for co, stride in ((16, 1), (32, 2), (64, 2)):
        side = x if stride == 1 else n.conv(x, co, 1, 1, stride)
        x = n.conv(n.conv(x, co, 3, 3, stride), co, 3, 3, residual=side)
    x = n.pool("average", x, 8, 8)
    x = n.conv(x, 10)
    return n.network(x if n.dtype == "f32" else n.alu("softmax", x))


def vww(**more: Any) -> Network:
    """Visual wake words: MobileNet of a quarter."""
    n = Net(**more)
    x = n.conv(n.input(96, 96, 3), 8, 3, 3, 2)
    for co, stride in (
        (16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (128, 1), (128, 1),
        (128, 1), (128, 1), (256, 2), (256, 1),
    ):  # fmt: skip
        x = n.conv(n.dw(x, 3, 3, stride), co)
    x = n.conv(n.pool("average", x, 3, 3), 2)
    return n.network(n.alu("softmax", x))


def kws(**more: Any) -> Network:
    """Keyword spotting."""
    n = Net(**more)
    x = n.conv(n.input(49, 10, 1), 64, 10, 4, 2)
    for _ in range(4):
        x = n.conv(n.dw(x, 3, 3), 64)
    x = n.conv(n.pool("average", x, 25, 5), 12)
    return n.network(n.alu("softmax", x))


def autoencoder(**more: Any) -> Network:
    """Anomaly detection."""
    n = Net(**more)
    x = n.input(1, 1, 640)
    for co in (128, 128, 128, 128, 8, 128, 128, 128, 128, 640):
        x = n.conv(x, co)
    return n.network(x)
