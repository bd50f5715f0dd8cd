# SPDX-License-Identifier: Apache-2.0
"""What a model says about its own partition: the metadata `aot.backend` and `aot.region`.

A node that carries `aot.backend` is computed by that backend; nodes with the same `aot.region` are
one region. On a call of a model function, or on the function, they speak for every node inside.
"""

from __future__ import annotations

from collections.abc import Iterator

from aot.ir.deferred_import import onnx
from aot.load.check import subgraphs

BACKEND_KEY = "aot.backend"
REGION_KEY = "aot.region"
MARKS = (BACKEND_KEY, REGION_KEY)
#: The names given to `--keep` that mean the node, one a line (aot/partition/kept.py).
KEPT_KEY = "aot.kept"
#: On the node that ends a match, in files of `aotc partition`: the backend's pattern that took it.
PATTERN_KEY = "aot.pattern"

Key = tuple[str, str]
Marks = dict[str, str]


def marks_of(thing: onnx.NodeProto | onnx.FunctionProto) -> Marks:
    """The marks on a node or function."""
    return {p.key: p.value for p in thing.metadata_props if p.key in MARKS}


def marked_backends(model: onnx.ModelProto) -> list[str]:
    """Backends that nodes or functions of the model name, in the order of appearance."""
    found: dict[str, None] = {}
    for thing in (*model.functions, *_nodes(model)):
        name = marks_of(thing).get(BACKEND_KEY)
        if name:
            found.setdefault(name)
    return list(found)


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield all nodes of the model, of its bodies and functions."""
    stack = [model.graph, *model.functions]
    while stack:
        for node in stack.pop(0).node:
            yield node
            stack += subgraphs(node)


def push_marks(model: onnx.ModelProto) -> None:
    """Move the marks of function calls and functions to the nodes inside, before inlining.

    A call with marks of its own gets a copy of the function. An inner mark is kept.
    """
    functions = {(f.domain, f.name): f for f in model.functions}
    for function in model.functions:
        _mark(function, marks_of(function))
    stack = [model.graph, *model.functions]
    copies: dict[tuple[Key, tuple[tuple[str, str], ...]], str] = {}
    while stack:
        for node in stack.pop(0).node:
            stack += subgraphs(node)
            function = functions.get((node.domain, node.op_type))
            marks = marks_of(node)
            if function is None or not marks:
                continue
            key = (node.domain, function.name), tuple(sorted(marks.items()))
            if key not in copies:
                copies[key] = f"{function.name} marked {len(copies)}"
                made = model.functions.add()
                made.CopyFrom(function)
                made.name = copies[key]
                _mark(made, marks)
                # The calls inside of the copy have the marks now, so it is walked as well.
                stack.append(made)
            node.op_type = copies[key]


def _mark(function: onnx.FunctionProto, marks: Marks) -> None:
    """Give the nodes of `function` the marks they do not have."""
    for node in function.node:
        have = marks_of(node)
        for key, value in marks.items():
            if key not in have:
                node.metadata_props.add(key=key, value=value)
