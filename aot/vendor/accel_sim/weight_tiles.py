# SPDX-License-Identifier: Apache-2.0
"""Layers whose weights would be loaded for every few rows are cut into tiles of channels.

The weights of a tile stay while all rows go by, at the price of reading the input once per
tile. The tiles are parts of the result by address.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from aot.vendor.accel_sim.compose import Layout
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.layers import Tiling
from aot.vendor.accel_sim.network import AccelOptions, Array, Layer, Network, Requant, Tensor
from aot.vendor.accel_sim.places import Plan
from aot.vendor.accel_sim.weights import depth_parts

#: A cut must save so many cycles of DMA.
WORTH = 2000


@dataclass(frozen=True, slots=True)
class _Loads:
    """Cycles of DMA of a layer, and the channels of a tile that keeps everything."""

    now: int
    cut: int
    channels: int


def _up(a: int, b: int) -> int:
    """`a` divided by `b`, rounded up."""
    return -(-a // b)


def _again(tiling: Tiling, y: Tensor, prm: int) -> tuple[int, int]:
    """How often (weights, parameters) of a layer are loaded; `prm` channels of parameters fit at
    once.
    """
    bands = _up(y.height, tiling.step(y.height))
    calls = bands if tiling.outer else _up(y.height, tiling.rows) * _up(y.width, tiling.cols)
    weights = 1 if tiling.keep else calls
    return weights, 1 if tiling.keep and y.channels <= prm else calls


def _loads(
    c: Config, options: AccelOptions, plan: Plan, layout: Layout, number: int
) -> _Loads | None:
    """The cycles of DMA of layer `number` as it is and in tiles of channels; None if tiles cannot
    help.

    A tile's weights and parameters take at most half of their memories, so that the next can be
    loaded. Tiles cost reading the input of a convolution again, or gaps between its channels.
    """
    layer = plan.layers[number]
    x, y = plan.tensors[layer.inputs[0]], plan.tensors[layer.output]
    assert layer.weights is not None
    lanes, flash = c.lanes(x.itemsize), options.weights == "flash"
    taps = int(layer.weights[0].size)
    # Weights in several parts never stay in WGT (`product_tilings`), however few channels a tile
    # has.
    if layer.kind == "conv" and len(depth_parts(layer, c, x.itemsize)) > 1:
        return None
    fit = min(c.wgt_rows // 2 // taps, c.prm_channels // 2 // lanes) * lanes
    if not 0 < fit < y.channels:
        return None
    count = _up(y.channels, fit)
    size = _up(y.channels, lanes) * lanes * taps * x.itemsize
    weights, params = _again(layout.tilings[number], y, c.prm_channels)
    rate, latency = c.rate(flash), c.latency(flash)
    # Every tile starts two loads: one of weights, one of parameters.
    once = size // rate + 8 * y.channels // rate + 2 * latency * count
    now = weights * size // rate + params * (8 * y.channels // rate + latency * 2)
    moved = [n for n in (*layer.inputs, layer.output) if plan.places[n].root in layout.streamed]
    more = 0
    for n in moved:
        t = plan.tensors[n]
        whole = layer.kind == "conv" and n == layer.inputs[0]
        more += (
            (count - 1) * t.bytes // c.sram_rate
            if whole
            else c.row_gap * count * t.height * t.width
        )
    return _Loads(now, once + more, fit)


def _part(values: Array, first: int, last: int) -> Array:
    """Elements `first` to `last` - 1 of values per channel; a single value for all channels
    stays.
    """
    return values[first:last] if len(values) > 1 else values


def _requant(requant: Requant | None, first: int, last: int) -> Requant | None:
    """The requantisation of channels `first` to `last` - 1; None if there is none."""
    if requant is None:
        return None
    return replace(
        requant, mult=_part(requant.mult, first, last), shift=_part(requant.shift, first, last)
    )


def _cut(tensors: list[Tensor], layer: Layer, channels: int) -> Iterator[Layer]:
    """The layers of a convolution in tiles of `channels`: slices of operands, the tiles, a concat.

    New tensors are appended to `tensors`.
    """
    y = tensors[layer.output]

    def like(index: int, first: int, last: int) -> int:
        """The number of a new inner tensor like tensor `index` with channels `first` to `last` - 1
        only.
        """
        own = replace(tensors[index], channels=last - first, where="inner", strides=None, data=None)
        tensors.append(own)
        return len(tensors) - 1

    parts = []
    for first in range(0, y.channels, channels):
        last = min(first + channels, y.channels)
        inputs = []
        for operand, index in enumerate(layer.inputs):
            # A convolution sums over all channels of its input, so each tile reads the whole of it.
            if operand == 0 and layer.kind == "conv":
                inputs.append(index)
                continue
            inputs.append(like(index, first, last))
            yield Layer("slice", layer.name, (index,), inputs[-1], start=(0, 0, first))
        parts.append(like(layer.output, first, last))
        assert layer.weights is not None and layer.bias is not None
        yield replace(
            layer,
            inputs=tuple(inputs),
            output=parts[-1],
            weights=layer.weights[first:last],
            bias=layer.bias[first:last],
            requant=_requant(layer.requant, first, last),
        )
    yield Layer("concat", layer.name, tuple(parts), layer.output, axis="c")


def weight_tiles(
    network: Network, c: Config, options: AccelOptions, plan: Plan, layout: Layout
) -> Network | None:
    """The network with layers in weight tiles where that saves more than WORTH cycles of DMA.

    Only convolutions that touch tensors in system memory are tried, with their tilings in `layout`.
    None if no layer is cut.
    """
    found: dict[int, int] = {}
    for n, layer in enumerate(plan.layers):
        moved = [i for i in (*layer.inputs, layer.output) if plan.places[i].root in layout.streamed]
        if layer.kind not in ("conv", "dw") or not moved:
            continue
        loads = _loads(c, options, plan, layout, n)
        if loads is not None and loads.now - loads.cut > WORTH:
            found[id(layer.weights)] = loads.channels
    if not found:
        return None
    tensors, layers = list(network.tensors), list[Layer]()
    for layer in network.layers:
        channels = found.get(id(layer.weights)) if layer.weights is not None else None
        layers += _cut(tensors, layer, channels) if channels else [layer]
    return Network(tuple(tensors), tuple(layers))
