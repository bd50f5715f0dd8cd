# SPDX-License-Identifier: Apache-2.0
"""Dead code.

Before: y = Relu(x); z = Exp(x)  (nobody reads z)      After: y = Relu(x)
"""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, graphs, is_used
from aot.load.options import LoadOptions


def dead_nodes(edit: Editor, options: LoadOptions) -> None:
    """Remove nodes none of whose outputs is read."""
    for node in reversed(edit.graph):
        if not any(is_used(o) for o in node.outputs):
            edit.remove(node)


def unused_constants(model: ir.Model) -> None:
    """Forget initialisers nobody reads."""
    for graph in graphs(model):
        for name, value in list(graph.initializers.items()):
            if not is_used(value):
                del graph.initializers[name]
