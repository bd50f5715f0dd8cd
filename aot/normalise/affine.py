# SPDX-License-Identifier: Apache-2.0
"""Scaling and shifting of channels right after a linear operator folds into its constants.

Before: y = Add(Mul(Conv(x, w, b), s), t)      After: y = Conv(x, w * s, b * s + t)
The same for every product that may have a bias, with constants of one element per output channel or
one in all. Computed in float64, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import Array, array, attribute, shape_of
from aot.ir.node_traits import adds_bias
from aot.ir.operators import Interface, Linear, operators, required_trait
from aot.load.options import LoadOptions
from aot.normalise.form import Form
from aot.normalise.quantised.affine import absorb_quantised

MAX_GAIN = 1e15


def _products() -> tuple[str, ...]:
    """Operators of ONNX that are linear in data and weights and may add a bias."""
    found = [(o, o.trait(Linear)) for o in operators() if not o.domain]
    return tuple(o.name for o, trait in found if trait is not None and trait.bias)


CLASSES = {"LINEAR": _products}
_ALONG = "c varies along another axis than the channels"
FORMS = (
    Form("Add(LINEAR(x, const(w)), const(c))", "LINEAR(x, w, b + c)", _ALONG),
    Form("Add(LINEAR(x, const(w), const(b)), const(c))", "LINEAR(x, w, b + c)", _ALONG),
    Form("Mul(LINEAR(x, const(w)), const(c))", "LINEAR(x, w * c, b * c)", _ALONG),
    Form("Mul(LINEAR(x, const(w), const(b)), const(c))", "LINEAR(x, w * c, b * c)", _ALONG),
)


#: The scale and the shift, float64, one per channel, that an operator of channels gives the operand
#: at a place (0 or 1) with the other operand; None where it is no scaling.
scales: Interface[Callable[[int, Array], tuple[Array, Array] | None]] = Interface("scales")


def affine(edit: Editor, options: LoadOptions) -> None:
    """Fold the constants that scale and shift channels into the linear operator before them."""
    for node in edit.graph:
        rule = scales.of(node)
        found = None if rule is None else _operands(node, rule)
        if found is None:
            continue
        x, scale, shift = found
        new = absorb(edit, node, x, scale, shift)
        if new is not None:
            edit.substitute(node, new)


def _operands(
    node: ir.Node, rule: Callable[[int, Array], tuple[Array, Array] | None]
) -> tuple[ir.Value, Array, Array] | None:
    """(x, scale, shift) if the node is x * scale + shift, where x is the result of a product with a
    bias.

    Scale and shift are float64, one element for each element of axis 1 of x. `rule(place,
    constant)` gives both for x as operand number `place` and the other operand per channel (zeros
    for a node of one operand). None if the other operand is no float constant or varies along
    another axis.
    """
    if len(node.inputs) == 1:
        x, place = node.inputs[0], 0
    else:
        place = 0 if array(node.inputs[1]) is not None else 1
        x = node.inputs[place]
    if x is None or _linear(x) is None or shape_of(node.outputs[0]) != shape_of(x):
        return None
    data = np.zeros(()) if len(node.inputs) == 1 else array(node.inputs[1 - place])
    channels = None
    if data is not None and data.dtype.kind == "f":
        channels = _per_channel(data, shape_of(x))
    found = None if channels is None else rule(place, channels)
    return None if found is None else (x, *found)


def _linear(x: ir.Value) -> ir.Node | None:
    """The product, with a place for a bias, that computes x."""
    node = producer(x)
    return node if node is not None and adds_bias(node) else None


def _per_channel(data: Array, shape: tuple[int, ...]) -> Array | None:
    """`data`, which broadcasts over `shape`, as float64 per element of axis 1; None if it varies
    along another axis."""
    if data.size == 1:
        return np.full(shape[1], data.ravel()[0], np.float64)
    padded = (1,) * (len(shape) - data.ndim) + data.shape
    if data.size != shape[1] or padded[1] != shape[1]:
        return None
    return data.reshape(-1).astype(np.float64)


def absorb(edit: Editor, node: ir.Node, x: ir.Value, scale: Array, shift: Array) -> ir.Value | None:
    """The value of `x * scale + shift` from a changed copy of x's producer, None if there is none.

    `scale` and `shift` are float64, one per element of axis 1 of x.
    """
    linear = _linear(x)
    # Somebody else reads the product as it is, so it must stay.
    if linear is None or single_use(x) is not node or x.dtype is None:
        return None
    kind = x.dtype.numpy()
    weights, bias = array(linear.inputs[1]), None
    if weights is None and kind == np.float32:
        return absorb_quantised(edit, node, linear, scale, shift)
    if weights is None or weights.dtype != kind or not np.all(np.isfinite(scale)):
        return None
    # A large factor would raise the rounding errors of the product beyond the tolerances.
    if np.max(np.abs(scale), initial=0) > MAX_GAIN:
        return None
    if len(linear.inputs) > 2 and linear.inputs[2] is not None:
        bias = array(linear.inputs[2])
        if bias is None:
            return None
    made = _folded(linear, weights, bias, scale, shift)
    if made is None:
        return None
    new_weights, new_bias = made
    return _copy(edit, node, linear, new_weights.astype(kind), new_bias.astype(kind))


def _folded(
    linear: ir.Node, weights: Array, bias: Array | None, scale: Array, shift: Array
) -> tuple[Array, Array] | None:
    """(weights, bias) in float64 of `linear` scaled and shifted per output channel; None if it
    cannot be.

    Weights stay as they are where every scale is 1. Scaled weights must be finite in their own
    type.
    """
    channels, trait = scale.size, required_trait(linear, Linear)
    if any(attribute(linear, name, 1.0) != 1.0 for name in ("alpha", "beta")):
        return None
    if bias is not None and (bias.size not in (1, channels) or bias.shape[:-1] not in ((), (1,))):
        return None
    if trait.channels_of(linear) == 0:
        factor = scale.reshape((-1,) + (1,) * (weights.ndim - 1))
    else:
        group = int(attribute(linear, trait.groups, 1))
        inner = weights.shape[0] // group
        # The output channels of ConvTranspose are axis 1, within each group.
        per_group = scale.reshape(group, 1, weights.shape[1])
        factor = np.broadcast_to(per_group, (group, inner, weights.shape[1]))
        factor = factor.reshape(weights.shape[:2] + (1,) * (weights.ndim - 2))
    scaled = weights if np.all(scale == 1) else weights.astype(np.float64) * factor
    old = (
        np.zeros(channels)
        if bias is None
        else np.broadcast_to(bias.astype(np.float64).ravel(), (channels,))
    )
    with np.errstate(over="ignore"):
        if not np.all(np.isfinite(scaled.astype(weights.dtype, copy=False))):
            return None
    return scaled, old * scale + shift


def _copy(edit: Editor, node: ir.Node, linear: ir.Node, weights: Array, bias: Array) -> ir.Value:
    """The result of a copy of `linear` with these constants, in front of `node`."""
    dtype, w = linear.outputs[0].dtype, linear.inputs[1]
    if weights is not array(w):
        w = edit.const(weights, f"{linear.name}_w", dtype)
    inputs = [linear.inputs[0], w, edit.const(bias, f"{linear.name}_b", dtype)]
    return edit.again(linear, inputs, before=node, hint=str(node.outputs[0].name))
