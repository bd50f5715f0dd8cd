# SPDX-License-Identifier: Apache-2.0
"""One operator that changes a shape: Reshape with a constant, complete target.

Before: a = Unsqueeze(x, [0]); b = Flatten(a); y = Squeeze(b)      After: y = Reshape(x, [12])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import array, attribute, shape_of
from aot.load.options import LoadOptions
from aot.normalise.form import Form

if TYPE_CHECKING:
    import onnx_ir as ir

SAME_ELEMENTS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


FORMS = (Form("Reshape(Reshape(x, s), t)", "Reshape(x, t)"),)


def reshapes(edit: Editor, options: LoadOptions) -> None:
    """Rewrite shape changers, skipping over chains of them."""
    for node in edit.graph:
        if node.domain or not node.inputs or node.inputs[0] is None:
            continue
        if node.op_type in SAME_ELEMENTS:
            source: ir.Value | None = node.inputs[0]
            while (before := producer(source, *SAME_ELEMENTS)) is not None:
                source = before.inputs[0]
            assert source is not None
            _to_reshape(edit, node, source)
        elif node.op_type == "Transpose" and _keeps_order(node):
            _to_reshape(edit, node, node.inputs[0])


def _keeps_order(node: ir.Node) -> bool:
    """A Transpose that only moves axes of size 1."""
    assert node.inputs[0] is not None
    shape = shape_of(node.inputs[0])
    perm = attribute(node, "perm") or range(len(shape))[::-1]
    moved = [a for a in perm if shape[a] != 1]
    return moved == sorted(moved)


def _to_reshape(edit: Editor, node: ir.Node, source: ir.Value) -> None:
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
    edit.replace(node.outputs[0], new)
    edit.remove(node)
