# SPDX-License-Identifier: Apache-2.0
"""Expand before an operator that broadcasts anyway.

Before: y = Mul(Expand(x, [1, 8, 4]), z[1, 8, 4])      After: y = Mul(x, z)
"""

from __future__ import annotations

import numpy as np

from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import shape_of, words
from aot.load.options import LoadOptions

BROADCASTING = words(
    "Add Sub Mul Div Mod Pow Min Max Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor "
    "BitShift BitwiseAnd BitwiseOr BitwiseXor PRelu Where"
)


def broadcasts(edit: Editor, options: LoadOptions) -> None:
    """Read the small tensor instead of its expansion."""
    for node in edit.graph:
        if node.domain or node.op_type not in BROADCASTING:
            continue
        for index, value in enumerate(node.inputs):
            expand = producer(value, "Expand")
            if expand is None or expand.inputs[0] is None:
                continue
            if node.op_type == "PRelu" and index == 0:
                continue
            inputs = [i for i in node.inputs if i is not None]
            shapes = [shape_of(expand.inputs[0] if i is value else i) for i in inputs]
            if np.broadcast_shapes(*shapes) == shape_of(node.outputs[0]):
                edit.set_input(node, index, expand.inputs[0])
