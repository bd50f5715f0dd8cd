# SPDX-License-Identifier: Apache-2.0
"""Expand before an operator that broadcasts anyway.

Before: y = Mul(Expand(x, [1, 8, 4]), z[1, 8, 4])      After: y = Mul(x, z)
"""

from __future__ import annotations

import numpy as np

from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import shape_of
from aot.ir.operators import Elementwise, element_places, operand_names, trait_of
from aot.load.options import LoadOptions


def broadcasts(edit: Editor, options: LoadOptions) -> None:
    """Read the small tensor instead of its expansion."""
    for node in edit.graph:
        trait, places = trait_of(node, Elementwise), element_places(node)
        if trait is None or len(places) < 2:
            continue
        names = operand_names(node)
        for index in places:
            value = node.inputs[index]
            expand = producer(value, "Expand")
            if expand is None or expand.inputs[0] is None:
                continue
            if trait.broadcasts is not None and names[index] not in trait.broadcasts:
                continue
            inputs = [i for p, i in enumerate(node.inputs) if p in places and i is not None]
            shapes = [shape_of(expand.inputs[0] if i is value else i) for i in inputs]
            # The small tensor alone must still give the shape of the result: another operand has to
            # have it.
            if np.broadcast_shapes(*shapes) == shape_of(node.outputs[0]):
                edit.set_input(node, index, expand.inputs[0])
