# SPDX-License-Identifier: Apache-2.0
"""The text form of the graph stages: what `--dump-after load` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import original_name

#: Constants of more elements are data, which would hide the graph.
SHOWN_ELEMENTS = 8


def model_text(model: ir.Model) -> str:
    """Every input, constant, node and output, one a line; equal models give equal text."""
    opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in sorted(model.opset_imports.items()))
    lines = [f"model opset {opsets}", *_graph_lines(model.graph, "")]
    for key in sorted(model.functions):
        function = model.functions[key]
        lines.append(f"function {function.domain}.{function.name}")
        lines += [f"  {_node_line(node)}" for node in function]
    return "\n".join(lines) + "\n"


def _graph_lines(graph: ir.Graph, indent: str) -> Iterator[str]:
    """Yield the lines of a graph's text: inputs, constants, nodes with their bodies, outputs."""
    for value in graph.inputs:
        yield f"{indent}input {_typed(value)}{_original(value)}"
    for value in graph.initializers.values():
        yield f"{indent}const {_typed(value)}{_elements(value)}"
    for node in graph:
        yield f"{indent}{_node_line(node)}"
        for attribute in node.attributes.values():
            if attribute.type.name == "GRAPH":
                yield f"{indent}  {attribute.name}:"
                yield from _graph_lines(attribute.as_graph(), indent + "    ")
    for value in graph.outputs:
        yield f"{indent}output {_typed(value)}{_original(value)}"


def _node_line(node: ir.Node) -> str:
    """A node as text: results, operator, operands, attributes, name."""
    outputs = ", ".join(_typed(o) for o in node.outputs)
    inputs = ", ".join("-" if i is None else str(i.name) for i in node.inputs)
    op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    attributes = "".join(f" {k}={_attribute(node.attributes[k])}" for k in sorted(node.attributes))
    return f"{outputs} = {op}({inputs}){attributes}  # {node.name}"


def _typed(value: ir.Value) -> str:
    """A value as text: "name: dtype[shape]", "?" for unknown parts, "-" for an absent one."""
    if not value.name:
        return "-"
    dtype = str(value.dtype).lower() if value.dtype is not None else "?"
    shape = "?" if value.shape is None else ",".join(str(d) for d in value.shape)
    return f"{value.name}: {dtype}[{shape}]"


def _original(value: ir.Value) -> str:
    """The user's name of a value as a comment, "" if it is the same."""
    name = original_name(value)
    return "" if name == value.name else f"  # {name!r}"


def _elements(value: ir.Value) -> str:
    """The elements of a small constant as text, "" for others."""
    tensor = value.const_value
    if tensor is None or tensor.size > SHOWN_ELEMENTS:
        return ""
    return f" = {np.asarray(tensor.numpy()).tolist()}"


def _attribute(attribute: ir.Attr) -> str:
    """The value of an attribute as text; tensors and graphs are only named."""
    kind = attribute.type.name
    if kind in ("GRAPH", "GRAPHS"):
        return "…"
    if kind in ("TENSOR", "TENSORS", "SPARSE_TENSOR", "SPARSE_TENSORS"):
        return "tensor"
    value: Any = attribute.value
    return repr(list(value)) if isinstance(value, (list, tuple)) else repr(value)
