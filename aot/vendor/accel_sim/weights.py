# SPDX-License-Identifier: Apache-2.0
"""Constants in the order in which the machine wants them: tiles of weights, records, tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.encode import instr
from aot.vendor.accel_sim.frontend import VSet
from aot.vendor.accel_sim.kinds import Rq
from aot.vendor.accel_sim.network import Array, Layer, QuantisedAddition, Requant


def bits(value: float) -> int:
    """The bit pattern of a float32, as int32."""
    return int(np.float32(value).view(np.int32))


@dataclass(frozen=True, slots=True)
class Part:
    """Rows ky … ky + kh - 1, columns kx … kx + kw - 1, channels first … last - 1 of a window."""

    ky: int
    kh: int
    kx: int
    kw: int
    first: int
    last: int

    @property
    def rows(self) -> int:
        """Rows of WGT of a tile."""
        return self.kh * self.kw * (self.last - self.first)


class Tiles:
    """The weights of a conv or dw in tiles of `lanes` output channels.

    The layer's weights are int8 [output channels, kh, kw, input channels (dw: 1)].
    """

    def __init__(self, layer: Layer, lanes: int) -> None:
        """Keep a layer's weights, to be put into tiles of `lanes` output channels when
        asked for.
        """
        assert layer.weights is not None
        self.lanes, self.raw = lanes, layer.weights
        self.deep = layer.kind == "conv"

    @cached_property
    def table(self) -> Array:
        """[tiles, taps, channels (dw: 1), lanes], lanes without a channel zero."""
        w = self.raw
        count = -(-w.shape[0] // self.lanes)
        full = np.zeros((count * self.lanes, w.shape[1] * w.shape[2], w.shape[3]), w.dtype)
        full[: w.shape[0]] = w.reshape(w.shape[0], -1, w.shape[3])
        tiled = full.reshape(count, self.lanes, *full.shape[1:])
        return np.ascontiguousarray(tiled.transpose(0, 2, 3, 1))

    def data(self, tile: int, count: int, p: Part) -> bytes:
        """The bytes of `count` tiles from number `tile` on, rows of WGT, of part `p` of the
        window.
        """
        part = self.table[tile : tile + count]
        if self.deep:
            full = part.reshape(count, *self.raw.shape[1:], self.lanes)
            part = full[:, p.ky : p.ky + p.kh, p.kx : p.kx + p.kw, p.first : p.last]
        return np.ascontiguousarray(part).tobytes()


def record_bytes(layer: Layer) -> int:
    """Bytes of a channel's parameters: bias, multiplier (8), and a shift in TFLite's arithmetic
    (9).
    """
    return 9 if layer.requant is not None and layer.requant.rq is Rq.TFLITE else 8


def records(layer: Layer, first: int, count: int) -> bytes:
    """The bytes of the parameters of `count` channels from `first` on: bias, multiplier, shift.

    A single multiplier or shift is repeated. float32 layers have only a bias.
    """
    assert layer.bias is not None
    size = record_bytes(layer)
    out = np.zeros((count, size), np.uint8)
    channels = np.arange(first, first + count)
    out[:, :4] = _words(layer.bias[channels])
    if layer.requant is not None:
        many = len(layer.requant.mult) > 1
        kind = np.float32 if layer.requant.rq is Rq.FLOAT else np.int32
        mult = np.asarray(layer.requant.mult)[channels if many else np.zeros_like(channels)]
        out[:, 4:8] = _words(mult.astype(kind))
        if size == 9:
            shift = np.asarray(layer.requant.shift)
            shift = shift[channels if len(shift) > 1 else np.zeros_like(channels)]
            out[:, 8] = shift.astype(np.int8).view(np.uint8)
    return out.tobytes()


def _words(values: Array) -> Array:
    """The bytes [count, 4] of values as float32 or int32."""
    found = values if values.dtype == np.float32 else values.astype(np.int32)
    return np.ascontiguousarray(found).view(np.uint8).reshape(-1, 4)


def vset(layer: Layer) -> VSet:
    """The vector constants of a layer: requantisation, sum of quantised values, limits of float32.

    Constants that the layer does not need are None.
    """
    first = rest = None
    low, high = layer.limits
    second = instr("VSET1", {"slot": 0, "ma": bits(low), "mb": bits(high)})
    if layer.requant is not None:
        first = _first(layer.requant, per_channel=layer.kind in ("conv", "dw"))
    if layer.add is not None:
        second, rest = _sum(layer.add)
    used = layer.add is not None or layer.requant is None
    return VSet(first, second if used else None, rest)


def _first(requant: Requant, per_channel: bool) -> Any:
    """VSET0 of a requantisation; multiplier and shift are 0 where each channel has its own."""
    mult, shift = 0, 0
    if not per_channel and requant.rq is Rq.FLOAT and np.asarray(requant.mult).dtype.kind == "f":
        mult, shift = bits(float(requant.mult[0])), int(requant.shift[0])
    elif not per_channel:
        mult, shift = int(requant.mult[0]), int(requant.shift[0])
    mult -= (mult >> 31 & 1) << 32 if mult >= 0 else 0
    return instr(
        "VSET0",
        {
            "slot": 0, "rq": int(requant.rq), "zero": requant.zero,
            "lo": requant.lo, "hi": requant.hi, "mult": mult, "shift": shift,
            "za": requant.za - (requant.za >> 7 << 8 if requant.za > 127 else 0), "zb": requant.zb,
        },
    )  # fmt: skip


def _sum(addition: QuantisedAddition) -> tuple[Any, Any]:
    """(VSET1, VSET2) of a sum of two quantised values."""
    second = instr("VSET1", {"slot": 0, "ma": addition.ma, "mb": addition.mb, "my": addition.my})
    names = ("sa", "sb", "sy", "za", "zb", "zy", "lo", "hi")
    own = {name: getattr(addition, name) for name in names}
    return second, instr(
        "VSET2", {"slot": 0, "kind": int(addition.kind), "minus": int(addition.minus), **own}
    )


def tables(layer: Layer) -> bytes:
    """The bytes of a layer's table: 256 int8 values, or for softmax little-endian 32-bit words."""
    assert layer.table is not None
    if layer.kind == "softmax":
        words = int(layer.requant.za) + 1 if layer.requant is not None else 256
        return np.ascontiguousarray(layer.table[:words].astype("<i4")).tobytes()
    return np.ascontiguousarray(layer.table.astype(np.int8)).tobytes()


def depth_parts(layer: Layer, c: Config, size: int) -> list[Part]:
    """The window of a conv in parts of which a tile takes no more than half of WGT.

    Rows of the window are kept together, then its columns, then channels, so that the parts follow
    each other in the order of the elements: the sums are those of the whole, in float32 too.
    """
    assert layer.weights is not None
    _, kh, kw, ci = layer.weights.shape
    limit = c.wgt_rows // 2
    if kw * ci <= limit:
        return [Part(ky, n, 0, kw, 0, ci) for ky, n in _cut(kh, limit // (kw * ci))]
    if ci <= limit:
        return [Part(ky, 1, kx, n, 0, ci) for ky in range(kh) for kx, n in _cut(kw, limit // ci)]
    return [
        Part(ky, 1, kx, 1, first, first + n)
        for ky in range(kh)
        for kx in range(kw)
        for first, n in _cut(ci, limit // c.depth(size) * c.depth(size))
    ]


def _cut(total: int, most: int) -> list[tuple[int, int]]:
    """(begin, length) of the fewest even pieces of `total` of at most `most` each."""
    size = -(-total // -(-total // most))
    return [(at, min(size, total - at)) for at in range(0, total, size)]
