# SPDX-License-Identifier: Apache-2.0
"""If with a known condition; what is known of the steps of a loop.

Before: y = If(true, then={z = Relu(x)}, else={…})      After: y = Relu(x)
Before: s = Loop(10, true, s0, body={…, go = true})     After: s = Loop(s0, body={…}), most=10
"""

from __future__ import annotations

from aot.ir.graph_edit import Editor, inline_branch
from aot.ir.graph_nodes import array
from aot.load.options import LoadOptions
from aot.shapes.control_flow_isolated import bodies, is_isolated, simplify


def branches(edit: Editor, options: LoadOptions) -> None:
    """Move the nodes of the branch that is taken into the graph; simplify isolated control flow."""
    for node in edit.graph:
        if not is_isolated(node):
            continue
        condition = array(node.inputs[0]) if node.op_type == "If" else None
        if condition is None:
            edit.changed = simplify(node) or edit.changed
            continue
        branch = bodies(node)[0 if bool(condition.ravel()[0]) else 1]
        for inner, outer in zip(list(branch.inputs), node.inputs[1:], strict=True):
            assert outer is not None
            inner.replace_all_uses_with(outer)
        branch.inputs.clear()
        inline_branch(node, branch)
        edit.changed = True
