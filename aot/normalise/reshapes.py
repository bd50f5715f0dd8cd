# SPDX-License-Identifier: Apache-2.0
"""One operator that changes a shape: Reshape with a constant, complete target.

Before: a = Unsqueeze(x, [0]); b = Flatten(a); y = Squeeze(b)      After: y = Reshape(x, [12])
"""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import array, operand, shape_of
from aot.ir.node_traits import is_view
from aot.load.options import LoadOptions
from aot.normalise.form import Form

FORMS = (Form("Reshape(Reshape(x, s), t)", "Reshape(x, t)"),)


def reshapes(edit: Editor, options: LoadOptions) -> None:
    """Rewrite shape changers, skipping over chains of them."""
    for node in edit.graph:
        # a view that changes no shape is a matter of `identities`
        if is_view(node) and shape_of(operand(node, 0)) != shape_of(node.outputs[0]):
            source = operand(node, 0)
            while (before := producer(source)) is not None and is_view(before):
                source = operand(before, 0)
            _to_reshape(edit, node, source)


def _to_reshape(edit: Editor, node: ir.Node, source: ir.Value) -> None:
    """Replace `node` by a Reshape of `source` to the node's shape, unless it is that already."""
    shape = list(shape_of(node.outputs[0]))
    if node.op_type == "Reshape" and source is node.inputs[0]:
        target = array(node.inputs[1])
        if target is not None and target.tolist() == shape:
            if 0 not in shape:
                edit.drop_attribute(node, "allowzero")
            return
    target_value = edit.ints(shape, f"{node.outputs[0].name}_shape")
    attributes = {"allowzero": 1} if 0 in shape else {}
    new = edit.node("Reshape", [source, target_value], attributes, before=node, shape=shape)
    edit.substitute(node, new)
