# SPDX-License-Identifier: Apache-2.0
"""Every reader of quantised values has a DequantizeLinear of its own.

Before: d = DequantizeLinear(q, s, z); a = Conv(d, w); b = Add(d, e)
After:  a = Conv(DequantizeLinear(q, s, z), w); b = Add(DequantizeLinear(q, s, z), e)
Then a pattern that takes one of them in leaves the others alone. Runs last: the passes that compare
values, like the recognition of x * Sigmoid(x), want them shared.
"""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import maker_of, shape_of
from aot.load.marks import KEPT_KEY, MARKS
from aot.normalise.quantised.common import DEQUANTISE, is_dequantise, params_of


def quant_share(edit: Editor) -> None:
    """Copy every DequantizeLinear of known parameters for its second and later readers."""
    for node in edit.graph:
        if is_dequantise(node) and params_of(node) is not None:
            _split(edit, node)


def _split(edit: Editor, node: ir.Node) -> None:
    """Give each reader of a DequantizeLinear a copy of its own, so that patterns match
    around each.
    """
    result = node.outputs[0]
    uses = [u for u in result.uses() if u.node.graph is edit.graph]
    kept = 0 if result.is_graph_output() or len(uses) < len(list(result.uses())) else 1
    for use in uses[kept:]:
        attributes = dict(node.attributes.items())
        copy = edit.node(
            DEQUANTISE,
            list(node.inputs),
            attributes,
            before=use.node,
            shape=shape_of(result),
            dtype=result.dtype,
        )
        made = maker_of(copy)
        for key in (*MARKS, KEPT_KEY):  # the user's word on the node itself, not on its reader
            made.metadata_props.pop(key, None)
            if key in node.metadata_props:
                made.metadata_props[key] = node.metadata_props[key]
        use.node.replace_input_with(use.idx, copy)
        edit.changed = True
