# SPDX-License-Identifier: Apache-2.0
"""What the machine cannot do with a layer, told before anything is planned."""

from __future__ import annotations

from collections.abc import Sequence

from aot.vendor import UnsupportedError
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.fitting import refusal_alone
from aot.vendor.accel_sim.network import AccelOptions, Layer, Network, Tensor
from aot.vendor.accel_sim.tiling import (
    FETCH,
    ranked_tilings,
    vector_cycles,
)
from aot.vendor.accel_sim.timing import linear_cycles

#: Coordinates in instructions reach so far, and so many channels fit their field.
SIDE, CHANNELS = 2047, 4095
DEFAULTS = AccelOptions()


def layer_refusal(layer: Layer, tensors: Sequence[Tensor], config: Config) -> str | None:
    """The reason why the machine cannot compute `layer`, or None: the layer can be compiled alone
    then.

    `tensors` are all tensors of the network, named by their numbers in the layer.
    """
    return exceeded_limit(layer, tensors, config) or refusal_alone(layer, tensors, config)


def exceeded_limit(layer: Layer, tensors: Sequence[Tensor], config: Config) -> str | None:
    """Why the machine cannot compute `layer` in any program, or None if it can.

    The first size that exceeds a field of an instruction or a memory is named with its limit.
    """
    used = [tensors[n] for n in (*layer.inputs, layer.output)]
    for t in used:
        if max(t.height, t.width) > SIDE:
            return f"{t.name} is {t.height} x {t.width} (at most {SIDE} on a side)"
        if t.channels * t.itemsize > CHANNELS:
            return f"{t.name} has {t.channels} channels (at most {CHANNELS // t.itemsize})"
    y = tensors[layer.output]
    reason = _window(layer)
    # A size that exceeds a field says more than "fits no tiling", so tilings are only searched
    # last.
    if reason is None and layer.kind in ("conv", "dw"):
        x = tensors[layer.inputs[0]]
        if not ranked_tilings(config, layer, x, y):
            w = layer.window
            return f"a window of {w.kh} x {w.kw} x {x.channels} fits no tiling"
    if reason is None and layer.kind == "softmax" and (y.itemsize == 4 or y.channels > 256):
        return f"softmax over {y.channels} channels of {y.dtype}"
    return reason


def _window(layer: Layer) -> str | None:
    """The reason why the fields of KERN cannot hold the window of `layer`, or None if they can."""
    w = layer.window
    if max(w.kh, w.kw) > 256 or max(w.sh, w.sw, w.dh, w.dw) > 16:
        return f"a window of {w.kh} x {w.kw}, strides {w.sh}, {w.sw}, dilations {w.dh}, {w.dw}"
    return None


def refuse(network: Network) -> None:
    """Raise UnsupportedError if a convolution of `network` has no constant weights or no bias."""
    for layer in network.layers:
        if layer.kind in ("conv", "dw") and (layer.weights is None or layer.bias is None):
            raise UnsupportedError("accel_sim: a product without weights or bias", layer.name)


def layer_cycles(
    layer: Layer,
    tensors: Sequence[Tensor],
    config: Config,
    options: AccelOptions = DEFAULTS,
) -> int:
    """An estimate of the cycles of one layer: those of its busiest unit, or of loading its weights.

    0 for layers that only move or name elements; 2^40 for a convolution that fits no tiling.
    """
    if layer.kind in ("concat", "slice", "reshape"):
        return 0
    y = tensors[layer.output]
    if layer.kind not in ("conv", "dw"):
        return vector_cycles(config, layer, y) + 3 * FETCH
    assert layer.weights is not None
    flash = options.weights == "flash"
    found = ranked_tilings(config, layer, tensors[layer.inputs[0]], y, flash)
    if not found:
        return 1 << 40
    lanes = config.lanes(y.itemsize)
    padded = -(-y.channels // lanes) * lanes
    # Parameters have at most 9 bytes per channel: bias, multiplier, shift.
    size = int(layer.weights.size) // y.channels * padded * y.itemsize + 9 * y.channels
    return max(found[0][0].alone, linear_cycles(config, flash, size))
