# SPDX-License-Identifier: Apache-2.0
"""Layers that would need too much of the scratchpad at once, in another shape.

Elementwise layers of long rows: their pixels become rows, which can be moved one by one. Pooling
over many rows: in tiles of channels.
"""

from __future__ import annotations

from dataclasses import replace

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.network import Layer, Network, Tensor

KINDS = ("add", "mul", "maximum", "minimum", "clip", "lut", "softmax", "copy")
#: The largest row that a signed field of 12 bits holds.
ROWS = 2047


def _long(layer: Layer, tensors: list[Tensor], c: Config) -> bool:
    """Whether the rows of a layer fill the scratchpad, and all its operands have one shape.

    Where pixels are not in the order of the rows in the system, only a single row can
    become a column.
    """
    y = tensors[layer.output]
    same = all(tensors[n].shape == y.shape for n in layer.inputs)
    dense = all(
        tensors[n].strides in (None, (y.width * y.channels, y.channels, 1))
        for n in (*layer.inputs, layer.output)
    )
    row = y.width * y.channels * y.itemsize
    return (
        layer.kind in KINDS
        and same
        and y.width > 1
        and y.height * y.width <= ROWS
        and (dense or y.height == 1)
        and row * (1 + len(layer.inputs)) > c.spm // 2
    )


def _pooled_channels(layer: Layer, tensors: list[Tensor], c: Config) -> int:
    """How many channels a pool computes at a time, if the rows of its windows fill half of SPM;
    else 0.
    """
    x, y = tensors[layer.inputs[0]], tensors[layer.output]
    if layer.kind not in ("max", "average"):
        return 0
    high = min(x.height, (layer.window.kh - 1) * layer.window.dh + 1)
    size = high * x.width * x.itemsize + y.width * y.itemsize
    if size * x.channels <= c.spm // 2:
        return 0
    unit = c.lanes(x.itemsize)
    return min(x.channels, max(1, c.spm // 2 // size // unit) * unit) % x.channels


def _pools(layer: Layer, tensors: list[Tensor], channels: int) -> list[Layer]:
    """The layers of a pool in tiles of `channels`: slice and pool for each, and a concat of
    results.

    New tensors are appended to `tensors`.
    """
    total, layers, parts = tensors[layer.output].channels, list[Layer](), []
    for first in range(0, total, channels):
        count = min(channels, total - first)
        for index in (layer.inputs[0], layer.output):
            own = replace(tensors[index], channels=count, where="inner", strides=None, data=None)
            tensors.append(own)
        x, y = len(tensors) - 2, len(tensors) - 1
        layers.append(Layer("slice", layer.name, layer.inputs, x, start=(0, 0, first)))
        layers.append(replace(layer, inputs=(x,), output=y))
        parts.append(y)
    return [*layers, Layer("concat", layer.name, tuple(parts), layer.output, axis="c")]


def reshape_layers(network: Network, c: Config) -> Network:
    """The network with layers whose rows exceed half of SPM in another shape.

    Such an elementwise layer works on columns, [height * width, 1], between reshape layers; such a
    pool is several pools, each of some channels, between slices and a concat. Reshapes, slices and
    concats cost nothing: they are views. `c` is the accelerator's configuration.
    """
    tensors, layers = list(network.tensors), list[Layer]()

    def as_column(index: int) -> int:
        """The number of a new inner tensor [height * width, 1, channels] like tensor `index`."""
        t = tensors[index]
        tall = replace(t, height=t.height * t.width, width=1)
        # A tensor between two views belongs to nobody outside: it has neither strides nor data.
        tensors.append(replace(tall, where="inner", strides=None, data=None))
        return len(tensors) - 1

    for layer in network.layers:
        channels = _pooled_channels(layer, tensors, c)
        if channels:
            layers += _pools(layer, tensors, channels)
            continue
        if not _long(layer, tensors, c):
            layers.append(layer)
            continue
        inputs = []
        for index in layer.inputs:
            inputs.append(as_column(index))
            layers.append(Layer("reshape", layer.name, (index,), inputs[-1]))
        y = as_column(layer.output)
        layers.append(replace(layer, inputs=tuple(inputs), output=y))
        layers.append(Layer("reshape", layer.name, (y,), layer.output))
    return Network(tuple(tensors), tuple(layers))
