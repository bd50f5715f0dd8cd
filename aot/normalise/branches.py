# SPDX-License-Identifier: Apache-2.0
"""If with a known condition.

Before: y = If(true, then={z = Relu(x)}, else={…})      After: y = Relu(x)
"""

from __future__ import annotations

from aot.edit import Editor, inline_branch
from aot.load.options import LoadOptions
from aot.shapes.nodes import array, attribute


def branches(edit: Editor, options: LoadOptions) -> None:
    """Move the nodes of the branch that is taken into the graph."""
    for node in edit.graph:
        if node.op_type != "If" or node.domain:
            continue
        condition = array(node.inputs[0])
        if condition is not None:
            name = "then_branch" if bool(condition.ravel()[0]) else "else_branch"
            inline_branch(node, attribute(node, name))
            edit.changed = True
