# SPDX-License-Identifier: Apache-2.0
"""Optional outputs nobody reads, optional inputs that say nothing, biases that are not there.

Before: y, h, c = LSTM(x, w, r, b, lens=[5, 5], h0=0)      After: y, "", "" = LSTM(x, w, r, b)
        z = Conv(x, w)                                            z = Conv(x, w, 0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_edit import Editor, is_used
from aot.ir.graph_nodes import Array, array, attribute, shape_of
from aot.load.options import LoadOptions

if TYPE_CHECKING:
    import onnx_ir as ir

# Operators with optional outputs, and how many outputs are not optional.
OPTIONAL_OUTPUTS = {
    "BatchNormalization": 1,
    "Dropout": 1,
    "GRU": 0,
    "LayerNormalization": 1,
    "LSTM": 0,
    "MaxPool": 1,
    "RNN": 0,
}
RECURRENT = ("GRU", "LSTM", "RNN")
DEFAULT_ACTIVATIONS = {
    "GRU": ["Sigmoid", "Tanh"],
    "LSTM": ["Sigmoid", "Tanh", "Tanh"],
    "RNN": ["Tanh"],
}


def interface(edit: Editor, options: LoadOptions) -> None:
    """Resolve what is optional."""
    for node in edit.graph:
        if node.domain:
            continue
        if node.op_type in OPTIONAL_OUTPUTS:
            _forget_outputs(edit, node, OPTIONAL_OUTPUTS[node.op_type])
        if node.op_type in RECURRENT:
            _recurrent(edit, node)
        elif node.op_type in ("Conv", "ConvTranspose"):
            _zero_bias(edit, node)


def _forget_outputs(edit: Editor, node: ir.Node, required: int) -> None:
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


def _recurrent(edit: Editor, node: ir.Node) -> None:
    """Lengths that are all full and initial states that are zero are absent."""
    x = node.inputs[0]
    assert x is not None
    steps = shape_of(x)[1 if attribute(node, "layout", 0) else 0]
    for index in (4, 5, 6):
        data = array(node.inputs[index]) if len(node.inputs) > index else None
        plain = steps if index == 4 else 0
        if data is not None and bool(np.all(data == plain)) and not _negative_zero(data):
            edit.set_input(node, index, None)
    edit.set_attribute(node, "direction", str(attribute(node, "direction", "forward")))
    usual = DEFAULT_ACTIVATIONS[node.op_type]
    given = [str(a).lower() for a in attribute(node, "activations") or ()]
    if given and given == [a.lower() for a in usual] * (len(given) // len(usual)):
        edit.drop_attribute(node, "activations")
    if not attribute(node, "layout", 0):
        edit.drop_attribute(node, "layout")


def _negative_zero(data: Array) -> bool:
    return data.dtype.kind == "f" and bool(np.any(np.signbit(data)))


def _zero_bias(edit: Editor, node: ir.Node) -> None:
    weights = node.inputs[1]
    if (len(node.inputs) > 2 and node.inputs[2] is not None) or weights is None:
        return
    if weights.dtype is None or weights.dtype.numpy().kind != "f":
        return
    channels = shape_of(node.outputs[0])[1]
    zeros = np.zeros(channels, weights.dtype.numpy())
    edit.set_input(node, 2, edit.const(zeros, f"{node.name}_b", weights.dtype))
