# SPDX-License-Identifier: Apache-2.0
"""Every graph output becomes the result of a node, and of one output only."""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import NAME_KEY


def separate_outputs(graph: ir.Graph) -> None:
    """Put an Identity before outputs that are inputs, constants, outer values or given twice.

    Before: x -> graph output x        After: y = Identity(x) -> graph output, called "x" in file
    """
    own = {id(o) for node in graph for o in node.outputs}
    seen: set[int] = set()
    for index, value in enumerate(list(graph.outputs)):
        if id(value) in own and id(value) not in seen:
            seen.add(id(value))
            continue
        if value.const_value is not None and value.shape is None:  # an output, unsaid
            value.shape = ir.Shape(value.const_value.shape.numpy())
        copy = ir.Node("", "Identity", [value], num_outputs=1)
        result = copy.outputs[0]
        result.type, result.shape = value.type, value.shape
        result.name = f"{value.name} output {index}"
        result.metadata_props[NAME_KEY] = value.metadata_props.get(NAME_KEY, value.name or "")
        graph.append(copy)
        graph.outputs[index] = result
