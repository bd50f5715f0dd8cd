# SPDX-License-Identifier: Apache-2.0
"""Elementwise layers of long rows: their pixels become rows, which can be moved one by one."""

from __future__ import annotations

from dataclasses import replace

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.network import Layer, Network, Tensor

KINDS = ("add", "mul", "maximum", "minimum", "clip", "lut", "softmax", "copy")
ROWS = 2047


def _long(layer: Layer, tensors: list[Tensor], c: Config) -> bool:
    """Whether the rows of a layer fill the scratchpad, and all its operands have one shape.

    Where pixels are not in the order of the rows in the system, only a single row can be turned.
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


def fold(network: Network, c: Config) -> Network:
    """The network with such layers between reshapes, which cost nothing."""
    tensors, layers = list(network.tensors), list[Layer]()

    def turned(index: int) -> int:
        t = tensors[index]
        tall = replace(t, height=t.height * t.width, width=1)
        tensors.append(replace(tall, where="inner", strides=None, data=None))
        return len(tensors) - 1

    for layer in network.layers:
        if not _long(layer, tensors, c):
            layers.append(layer)
            continue
        inputs = []
        for index in layer.inputs:
            inputs.append(turned(index))
            layers.append(Layer("reshape", layer.name, (index,), inputs[-1]))
        y = turned(layer.output)
        layers.append(replace(layer, inputs=tuple(inputs), output=y))
        layers.append(Layer("reshape", layer.name, (y,), layer.output))
    return Network(tuple(tensors), tuple(layers))
