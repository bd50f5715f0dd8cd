# SPDX-License-Identifier: Apache-2.0
"""Reading onnx_ir nodes and values: attributes, static types, titles for messages."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir

NAME_KEY = "aot.onnx_name"
"""Metadata key under which a value or node keeps its name in the user's file."""

WHY_KEY = "aot.why"
"""In the `meta` of a node: why normalise has no body for it, and a hint ("" without one)."""

HALF_KEY = "aot.half"
"""Metadata key of a node that computes in float32 what the model has in half precision: its type,
FLOAT16 or BFLOAT16."""

NAN_ROWS = "aot.nan_rows"
"""Metadata key of an Attention whose queries without a key give NaN, as a Softmax does, not 0."""

SHARED_KEY = "aot.shared"
"""Metadata key of weights in float32 that other nodes read in half precision."""

OFFSET_KEY = "aot.code_offset"
"""Metadata key of a value whose quantised values are those of the user's file minus this number."""

CHANNELS_KEY = "aot.channels"
"""Metadata key of a value that has only these channels (axis 1) of that in the user's file."""

TEXT = "aot.text"
"""The domain of operators on strings, which are rows of bytes once the model is loaded."""

TEXTS = "aot.texts"
"""Metadata key of a graph: the names of inputs and outputs that hold strings in the user's file."""

NOTES = "aot.notes"
"""Metadata key of a graph: sentences about what the loader decided for the user."""

DYNAMIC = "aot.dynamic"
"""The domain of operators on sizes that are known at run time only."""

SAME = ("SAME_UPPER", "SAME_LOWER")
"""Texts of auto_pad that make the result as long as the input, divided by the strides."""

CONTROL = "aot.control"
"""The domain of If and Loop whose bodies get all they read as inputs
(`aot/shapes/control_flow_isolated.py`)."""

Array = np.ndarray[Any, Any]


def attribute(node: ir.Node, name: str, default: Any = None) -> Any:
    """The Python value of an attribute, or `default`."""
    found = node.attributes.get(name)
    return default if found is None else found.value


def original_name(thing: ir.Value | ir.Node) -> str:
    """The name in the user's file."""
    return str(thing.metadata_props.get(NAME_KEY, thing.name) or "")


def inner_graphs(node: ir.Node) -> list[ir.Graph]:
    """The graphs in a node's attributes."""
    if not node.attributes:
        return []
    found: list[ir.Graph] = []
    for a in node.attributes.values():
        if a.type.name == "GRAPH":
            found.append(a.as_graph())
        elif a.type.name == "GRAPHS":
            found += a.as_graphs()
    return found


def subgraphs(graph: ir.Graph) -> list[ir.Graph]:
    """Every graph within, each once and before those within itself."""
    found: dict[ir.Graph, None] = {}
    for node in graph:
        for inner in inner_graphs(node):
            found[inner] = None
            found.update(dict.fromkeys(subgraphs(inner)))
    return list(found)


def outside_values(body: ir.Graph) -> list[ir.Value]:
    """The values that a body or a graph within it reads and none of them makes, each once.

    They are in order: those that nodes read, by graph, then results that are such values.
    """
    own, read = set[ir.Value](), list[ir.Value | None]()
    graphs = [body, *subgraphs(body)]
    for graph in graphs:
        own.update(graph.inputs, graph.initializers.values())
        for node in graph:
            own.update(node.outputs)
            read.extend(node.inputs)
    for graph in graphs:
        read.extend(graph.outputs)
    return [v for v in dict.fromkeys(read) if v is not None and v not in own]


def all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """The nodes of the graph and of all within, in order."""
    for node in graph:
        yield node
        for inner in inner_graphs(node):
            yield from all_nodes(inner)


def title(node: ir.Node) -> str:
    """How messages call a node: name and operator."""
    op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    name = original_name(node)
    if name:
        return f"{name} ({op})"
    first = next((original_name(o) for o in node.outputs if o.name), "")
    return f'the {op} that computes "{first}"'


def static_shape(value: ir.Value) -> tuple[int, ...] | None:
    """The shape if every dimension is a number, else None."""
    shape = value.shape
    if shape is None:
        return None
    dims = shape.dims
    for d in dims:
        if type(d) is not int:
            return None
    return dims  # type: ignore[return-value]


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The static shape; ValueError if there is none."""
    shape = static_shape(value)
    if shape is None:
        raise ValueError(f"{value.name} has no static shape")
    return shape


def dtype_of(value: ir.Value) -> ir.DataType:
    """The element type; ValueError if it is unknown."""
    if value.dtype is None:
        raise ValueError(f"{value.name} has no element type")
    return value.dtype


def given(node: ir.Node, index: int) -> ir.Value | None:
    """Input `index`, None if it is absent."""
    return node.inputs[index] if index < len(node.inputs) else None


def operand(node: ir.Node, index: int) -> ir.Value:
    """Input `index`, which every checked node of the operator has; ValueError if it is absent."""
    value = node.inputs[index]
    if value is None:
        raise ValueError(f"{title(node)} has no input {index}")
    return value


def maker_of(value: ir.Value) -> ir.Node:
    """The node that computes the value; ValueError for an input or a constant."""
    node = value.producer()
    if node is None:
        raise ValueError(f"no node computes {value.name}")
    return node


def graph_of(node: ir.Node) -> ir.Graph:
    """The graph that holds the node; ValueError for a node that was taken out of its graph."""
    if not isinstance(node.graph, ir.Graph):
        raise ValueError(f"{title(node)} is in no graph")
    return node.graph


def is_typed(value: ir.Value) -> bool:
    """Whether element type and static shape are known."""
    return value.dtype is not None and static_shape(value) is not None


def element_total(value: ir.Value) -> int:
    """Elements of a statically shaped value."""
    return prod(shape_of(value))


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor behind a constant value (an initialiser no caller may override), else None."""
    if value is None or value.producer() is not None or value.is_graph_input():
        return None
    return value.const_value


def array(value: ir.Value | None) -> Array | None:
    """The elements of a constant value, None for others."""
    tensor = constant(value)
    return None if tensor is None else tensor.numpy()


def elements_of(value: ir.Value | None) -> Array:
    """The elements of a constant value; ValueError for others."""
    data = array(value)
    if data is None:
        raise ValueError(f"{value.name if value else 'an absent operand'} is no constant")
    return data


def set_type(value: ir.Value, dtype: int, shape: tuple[int, ...]) -> None:
    """Give `value` an element type and a static shape."""
    value.type = ir.TensorType(ir.DataType(dtype))
    value.shape = ir.Shape(shape)


def ir_dtype(data: Array) -> ir.DataType:
    """onnx_ir's name for an array's element type."""
    return ir.DataType.from_numpy(data.dtype)


def words(text: str) -> frozenset[str]:
    """The names in `text`, which are separated by blanks."""
    return frozenset(text.split())
