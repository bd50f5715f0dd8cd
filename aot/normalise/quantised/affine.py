# SPDX-License-Identifier: Apache-2.0
"""Scales and shifts per channel behind a linear operator whose weights are quantised values.

Before: y = Add(Mul(Conv(x, DequantizeLinear(w, s, axis=0), b), g), t)
After:  y = Conv(x, DequantizeLinear(±w, |g| * s, axis=0), b * g + t)
This is how batch normalisation stands behind the convolutions of quantisation-aware training.
Quantised values of a channel with a negative factor change their sign, those of one with factor 0
become 0.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, array, attribute
from aot.ir.operators import Linear, trait_of
from aot.normalise.quantised.common import Params, add_dequantise, dequantised, is_weight, params_of


def absorb_quantised(
    edit: Editor, node: ir.Node, linear: ir.Node, scale: Array, shift: Array
) -> ir.Value | None:
    """The value of linear's result * `scale` + `shift` (float64, one per channel), in front of
    `node`; None where the weights are no quantised values or cannot take the factor."""
    source, trait = dequantised(linear.inputs[1]), trait_of(linear, Linear)
    p = params_of(source)
    if source is None or p is None or trait is None or not is_weight(source):
        return None
    if any(attribute(linear, name, default) != default for name, default in DEFAULTS):
        return None
    axis = trait.out_axis
    if trait.within_groups:  # the groups share the scales of their channels
        return None
    bias, weights = _bias(linear, scale.size), source.inputs[0]
    made = None if weights is None else _scaled(weights, p, scale, axis)
    if bias is None or made is None or weights is None:
        return None
    quantised, params = made
    held = weights if quantised is None else edit.const(quantised, str(weights.name), weights.dtype)
    new_bias = (bias * scale + shift).astype(np.float32)
    inputs = [
        linear.inputs[0],
        add_dequantise(edit, held, params, before=node),
        edit.const(new_bias, f"{linear.name}_b"),
    ]
    return edit.again(linear, inputs, before=node, hint=str(node.outputs[0].name))


DEFAULTS = (("alpha", 1.0), ("beta", 1.0), ("transA", 0), ("transB", 0))


def _bias(linear: ir.Node, channels: int) -> Array | None:
    """The constant bias in float64, one per channel; None if it is not constant or of
    another size.
    """
    value = linear.inputs[2] if len(linear.inputs) > 2 else None
    if value is None:
        return np.zeros(channels)
    data, source = array(value), dequantised(value)
    p = params_of(source)
    if data is None and source is not None and p is not None:
        quantised = array(source.inputs[0])
        if quantised is None:
            return None
        scale, zero = p.spread(quantised.ndim)
        data = (quantised.astype(np.int64) - zero) * scale.astype(np.float64)
    if data is None or data.size not in (1, channels) or data.dtype.kind != "f":
        return None
    return np.broadcast_to(data.astype(np.float64).reshape(-1), (channels,))


def _scaled(
    weights: ir.Value, p: Params, scale: Array, axis: int
) -> tuple[Array | None, Params] | None:
    """(changed quantised values or None, parameters) of the weights times one factor per
    channel."""
    if np.all(scale == 1):
        return None, p
    data = array(weights)
    if data is None or not (p.per_tensor or p.axis == axis) or not np.all(np.isfinite(scale)):
        return None
    old = np.broadcast_to(p.scale, scale.shape).astype(np.float64)
    # A channel with the factor 0 keeps its scale, so that no scale becomes 0.
    new = np.where(scale == 0, old, old * np.abs(scale)).astype(np.float32)
    # A scale below the normal numbers has lost digits; the kernels' multipliers need all of them.
    if not np.all(np.isfinite(new) & (new >= np.finfo(np.float32).tiny)):
        return None
    zero = np.broadcast_to(p.zero, scale.shape).copy()
    params = Params(new, zero, axis)
    # Positive factors change scales only; negative ones turn the signs of the quantised values.
    if np.all(scale > 0):
        return None, params
    column = [1] * data.ndim
    column[axis] = -1
    centred = data.astype(np.int64) - zero.reshape(column)
    flipped = centred * np.sign(scale).astype(np.int64).reshape(column) + zero.reshape(column)
    ends = np.iinfo(data.dtype)
    # -128 has no positive counterpart among int8.
    if flipped.min() < ends.min or flipped.max() > ends.max:
        return None
    return flipped.astype(data.dtype), params
