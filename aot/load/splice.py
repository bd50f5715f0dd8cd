# SPDX-License-Identifier: Apache-2.0
"""Calls of functions whose inner names are unique in the model become their nodes, names kept.

What `aotc partition` writes is of this kind: onnx's inliner, which must be ready for clashes, would
number every name anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from aot.ir.deferred_import import onnx
from aot.load.check import subgraphs


def splice(model: onnx.ModelProto, claimed: Collection[str] = ()) -> None:
    """Replace, in the main graph, calls that pass every name as it is within the function.

    Only functions with one call, without attributes, whose standard operators have the model's
    version, and whose inner names nobody else uses; none that is `claimed` ("domain::name").
    """
    functions = {
        (f.domain, f.name): f
        for f in model.functions
        if _is_plain(f, model) and f"{f.domain}::{f.name}" not in claimed
    }
    calls = Counter((n.domain, n.op_type) for n in model.graph.node)
    elsewhere = _names(model.graph)
    nodes: list[onnx.NodeProto] = []
    gone: set[tuple[str, str]] = set()
    for node in model.graph.node:
        key = (node.domain, node.op_type)
        function = functions.get(key)
        if function is None or calls[key] != 1 or not _passes_names(node, function):
            nodes.append(node)
            continue
        inner = _made(function) - set(function.output)
        if any(elsewhere[name] for name in inner):
            nodes.append(node)
            continue
        elsewhere.update(inner)
        nodes.extend(function.node)
        gone.add(key)
    if not gone:
        return
    kept = [f for f in model.functions if (f.domain, f.name) not in gone]
    copied = type(model)()
    # Deleting from a list of messages frees them, so a copy holds the nodes meanwhile.
    copied.graph.node.extend(nodes)
    copied.functions.extend(kept)
    del model.graph.node[:]
    model.graph.node.extend(copied.graph.node)
    del model.functions[:]
    model.functions.extend(copied.functions)


def _is_plain(function: onnx.FunctionProto, model: onnx.ModelProto) -> bool:
    """Whether the body may stand in the model's graph as it is, and calls no other function."""
    versions = {o.domain: o.version for o in model.opset_import}
    same = all(versions.get(o.domain) == o.version for o in function.opset_import)
    named = {(f.domain, f.name) for f in model.functions}
    flat = all((n.domain, n.op_type) not in named for n in function.node)
    return same and flat and not function.attribute and not function.attribute_proto


def _passes_names(node: onnx.NodeProto, function: onnx.FunctionProto) -> bool:
    """Whether a call of `function` has the operands, results and no attributes of its own
    definition.
    """
    return (
        list(node.input) == list(function.input)
        and list(node.output) == list(function.output)
        and not node.attribute
    )


def _made(function: onnx.FunctionProto) -> set[str]:
    """Names of values computed in the function."""
    return {o for n in function.node for o in n.output if o}


def _names(graph: onnx.GraphProto) -> Counter[str]:
    """How often each value's name stands in the graph and those within."""
    found: Counter[str] = Counter()
    stack = [graph]
    while stack:
        top = stack.pop()
        found.update(v.name for v in (*top.input, *top.output))
        found.update(t.name for t in top.initializer)
        for node in top.node:
            found.update((*node.input, *node.output))
            stack += subgraphs(node)
    return found
