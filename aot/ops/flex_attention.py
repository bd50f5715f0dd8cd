# SPDX-License-Identifier: Apache-2.0
"""FlexAttention of ai.onnx.preview: its bodies get scores and chances, ONNX's own body the rest."""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute, set_type, shape_of
from aot.shapes.control import Control, types_bodies
from aot.shapes.evaluate import Invalid

FLOAT, DOUBLE = 1, 11


@types_bodies("FlexAttention", "ai.onnx.preview")
def modifiers(control: Control, node: ir.Node) -> None:
    """Set the types of the bodies that change scores and probabilities: [batch, heads, rows,
    columns].

    Invalid if queries or keys do not have 4 axes.
    """
    q, k = node.inputs[0], node.inputs[1]
    if q is None or k is None or len(shape_of(q)) != 4 or len(shape_of(k)) != 4:
        raise Invalid("queries and keys must have 4 axes")
    precision = int(attribute(node, "softmax_precision", 0))
    dtype = precision or (DOUBLE if int(q.dtype or 0) == DOUBLE else FLOAT)
    for name in ("score_mod", "prob_mod"):
        body = attribute(node, name)
        if body is not None:
            set_type(body.inputs[0], dtype, (*shape_of(q)[:3], shape_of(k)[2]))
            control.body(node, body)
