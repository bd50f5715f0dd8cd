# SPDX-License-Identifier: Apache-2.0
"""Biases of quantised convolutions and products as 32-bit quantised values in units of x's scale ·
w's scale.

Before: y = Conv(DequantizeLinear(x, sx, zx), DequantizeLinear(w, sw), b float)
After:  y = Conv(…, …, DequantizeLinear(round(b / (sx * sw)), sx * sw, 0, axis=0))
Only where every element of the bias is such a multiple up to 1e-3: others stay as they are.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import Array, array, operand, shape_of
from aot.ir.node_traits import adds_bias, is_product
from aot.ir.operators import Linear, required_trait
from aot.load.options import LoadOptions
from aot.normalise.quantised.common import (
    Params,
    add_dequantise,
    dequantised,
    is_sum,
    is_weight,
    params_of,
)

#: A bias this close to whole steps was made from them, with the rounding of float32.
CLOSE = 1e-3
MOST = 2**31 - 1


def quant_bias(edit: Editor, options: LoadOptions) -> None:
    """Respell the biases of products, and of Add behind those that have no place for one."""
    for node in edit.graph:
        if adds_bias(node):
            if len(node.inputs) > 2 and node.inputs[2] is not None:
                _respell(edit, node, 2, node)
        elif is_sum(node):
            for index in (0, 1):
                product = plain_product(node.inputs[1 - index])
                if product is not None:
                    _respell(edit, node, index, product)


def plain_product(value: ir.Value | None) -> ir.Node | None:
    """The product without a place for a bias, which an Add behind it gives, that is `value`."""
    node = producer(value)
    return node if node is not None and is_product(node) and not adds_bias(node) else None


def product_scale(node: ir.Node) -> Params | None:
    """The unit of a quantised product's accumulators; vectors run along the bias (axis 0)."""
    left, right = dequantised(node.inputs[0]), dequantised(node.inputs[1])
    x, w = params_of(left), params_of(right)
    if left is None or right is None or x is None or w is None:
        return None
    if is_weight(left) or not x.per_tensor or not is_weight(right):
        return None
    weights = operand(right, 0)
    channels = required_trait(node, Linear).out_axis % len(shape_of(weights))
    if not w.per_tensor and w.axis != channels:
        return None
    scale = (x.scale * w.scale).astype(np.float32)
    if not np.all(scale >= np.finfo(np.float32).tiny):
        return None
    return Params(scale, np.zeros(scale.shape, np.int64), -1 if w.per_tensor else 0)


def _respell(edit: Editor, node: ir.Node, index: int, product: ir.Node) -> None:
    """Write the constant bias, operand `index` of `node`, as int32 in the unit of the sums of
    `product`.

    Nothing changes where a bias is no whole number of units or too large for the sum.
    """
    unit, numbers = product_scale(product), _numbers(node.inputs[index])
    if unit is None or numbers is None:
        return
    bias, known = numbers
    channels = shape_of(product.outputs[0])[required_trait(product, Linear).result_axis]
    row = _row(bias, channels)
    trait = required_trait(product, Linear)
    # A ConvTranspose's scales run within groups: its bias would need as many units.
    if row is None or (trait.within_groups and not unit.per_tensor):
        return
    if known is not None and known.same(unit) and bias.shape == (channels,):
        return
    steps = row / unit.scale.astype(np.float64)
    quantised = np.rint(steps)
    if np.any(np.abs(steps - quantised) > CLOSE) or np.any(np.abs(quantised) > MOST):
        return
    made = edit.const(quantised.astype(np.int32), f"{node.name}_bias")
    edit.set_input(node, index, add_dequantise(edit, made, unit, before=node))


def _numbers(value: ir.Value | None) -> tuple[Array, Params | None] | None:
    """A constant bias in float64, and its parameters if it is 32-bit quantised values."""
    data = array(value)
    if data is not None:
        return (data.astype(np.float64), None) if data.dtype == np.float32 else None
    source = dequantised(value)
    p = params_of(source)
    quantised = None if source is None else array(source.inputs[0])
    if quantised is None or p is None:
        return None
    scale, zero = p.spread(quantised.ndim)
    numbers = (quantised.astype(np.int64) - zero) * scale.astype(np.float64)
    return numbers, p if quantised.dtype == np.int32 else None


def _row(bias: Array, channels: int) -> Array | None:
    """One element per channel, None if the bias varies along another axis."""
    if bias.size == 1:
        return np.full(channels, float(bias.reshape(())))
    return bias.reshape(-1) if bias.shape[-1] == channels == bias.size else None
