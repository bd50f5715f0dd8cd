# SPDX-License-Identifier: Apache-2.0
"""Operands and attributes of recurrent layers that say nothing are absent.

Before: y, h, c = LSTM(x, w, r, b, lens=[5, 5], h0=0)      After: y, "", "" = LSTM(x, w, r, b)
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, array, attribute, operand, shape_of
from aot.normalise.optional_operands import optional

#: The activations of a direction that does not name them.
DEFAULT_ACTIVATIONS = {
    "GRU": ["Sigmoid", "Tanh"],
    "LSTM": ["Sigmoid", "Tanh", "Tanh"],
    "RNN": ["Tanh"],
}


@optional("GRU LSTM RNN")
def absent_operands(edit: Editor, node: ir.Node) -> None:
    """Drop operands and attributes of a recurrent layer that say nothing.

    These are lengths that are all full, initial states of zeros, the usual activations, and layout
    0; the direction is written out.
    """
    x = operand(node, 0)
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
    """Whether a float array has a number with its sign bit set: -0.0 is not 0.0 as a state."""
    return data.dtype.kind == "f" and bool(np.any(np.signbit(data)))
