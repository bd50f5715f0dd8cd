# SPDX-License-Identifier: Apache-2.0
"""If with a known condition.

Before: y = If(true, then={z = Relu(x)}, else={…})      After: y = Relu(x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aot.edit import Editor
from aot.load.options import LoadOptions
from aot.shapes.nodes import array, attribute, shape_of

if TYPE_CHECKING:
    import onnx_ir as ir


def branches(edit: Editor, options: LoadOptions) -> None:
    """Move the nodes of the branch that is taken into the graph."""
    for node in edit.graph:
        if node.op_type != "If" or node.domain:
            continue
        condition = array(node.inputs[0])
        if condition is not None:
            name = "then_branch" if bool(condition.ravel()[0]) else "else_branch"
            _inline(edit, node, attribute(node, name))


def _inline(edit: Editor, node: ir.Node, branch: ir.Graph) -> None:
    results = list(branch.outputs)
    branch.outputs.clear()
    for value in list(branch.initializers.values()):
        assert value.const_value is not None
        value.replace_all_uses_with(edit.tensor(value.const_value, str(value.name)))
    inner = list(branch)
    branch.remove(inner)
    edit.graph.insert_before(node, inner)
    for old, new in zip(node.outputs, results, strict=True):
        copy = edit.node("Identity", [new], before=node, shape=shape_of(new))
        edit.replace(old, copy)
    edit.remove(node)
