# SPDX-License-Identifier: Apache-2.0
"""Optional outputs nobody reads, optional inputs that say nothing, biases that are not there.

Before: y, h, c = LSTM(x, w, r, b, lens=[5, 5], h0=0)      After: y, "", "" = LSTM(x, w, r, b)
        z = Conv(x, w)                                            z = Conv(x, w, 0)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, is_used
from aot.ir.graph_nodes import shape_of
from aot.ir.node_traits import kernel_place, required_results
from aot.ir.operators import Interface, Linear, Operator, operator_of, trait_of
from aot.load.options import LoadOptions

#: Makes operands that say nothing absent: rules of `aot/ops`.
optional: Interface[Callable[[Editor, ir.Node], None]] = Interface("optional")


def interface(edit: Editor, options: LoadOptions) -> None:
    """Drop results that nobody reads, and give operators the optional operands that patterns rely
    on.
    """
    for node in edit.graph:
        required = required_results(node)
        if required is not None:
            _drop_outputs(edit, node, required)
        rule = optional.of(node)
        if rule is not None:
            rule(edit, node)
        elif kernel_place(node) is not None:
            _zero_bias(edit, node)


def _drop_outputs(edit: Editor, node: ir.Node, required: int) -> None:
    """Drop unused results of `node` behind the first `required` ones."""
    count = len(node.outputs)
    while count > max(required, 1) and not is_used(node.outputs[count - 1]):
        count -= 1
    if count < len(node.outputs):
        node.resize_outputs(count)
        edit.changed = True
    for value in node.outputs[required:]:
        if value.name and not is_used(value):
            value.name = ""
            edit.changed = True


def _zero_bias(edit: Editor, node: ir.Node) -> None:
    """A convolution without a bias gets one of zeros, which patterns can rely on."""
    product = trait_of(node, Linear)
    names = (operator_of(node) or Operator("", ())).names(len(node.inputs) + 1)
    if product is None or product.bias not in names:
        return
    weights, place = node.inputs[names.index(product.weights)], names.index(product.bias)
    if (len(node.inputs) > place and node.inputs[place] is not None) or weights is None:
        return
    if weights.dtype is None or weights.dtype.numpy().kind != "f":
        return
    channels = shape_of(node.outputs[0])[1]
    zeros = np.zeros(channels, weights.dtype.numpy())
    edit.set_input(node, place, edit.const(zeros, f"{node.name}_b", weights.dtype))
