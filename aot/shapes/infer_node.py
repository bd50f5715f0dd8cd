# SPDX-License-Identifier: Apache-2.0
"""Inference of one node: a model of its own, with all that is known about its inputs."""

from __future__ import annotations

from collections.abc import Callable

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import Array, all_nodes, dtype_of, inner_graphs, is_typed, shape_of
from aot.ir.onnx_subprocess import Child, ProcessDied, reason_of
from aot.ir.operators import Interface
from aot.shapes.partial_values import Facts, Known, lookup
from aot.shapes.types import Type


class NodeError(Exception):
    """onnx's inference refuses the node."""


#: The type of an operator's first result where more is known than onnx's inference uses; None: it
#: is onnx's to say. Raises NodeError.
solves: Interface[Callable[[ir.Node, Facts], Type | None]] = Interface("solve")


def infer_node(node: ir.Node, facts: Facts, model: ir.Model, child: Child) -> list[Type | None]:
    """Types of the outputs, None where they stay open. Raises NodeError where onnx does.

    `child` infers a model strictly: onnx may not survive this one.
    """
    rule = solves.of(node)
    solved = None if rule is None else rule(node, facts)
    return _by_onnx(node, facts, model, child) if solved is None else [solved]


def _by_onnx(node: ir.Node, facts: Facts, model: ir.Model, child: Child) -> list[Type | None]:
    single = onnx.ModelProto()
    single.ir_version = 10
    for domain, version in model.opset_imports.items():
        single.opset_import.append(onnx.helper.make_opsetid(domain, version))
    for function in model.functions.values():
        single.functions.append(ir.serde.serialize_function(function))
    graph = single.graph
    graph.name = "node"
    graph.node.append(ir.serde.serialize_node(node))
    seen: set[str] = set()
    for value in [*node.inputs, *_outer_values(node)]:
        if value is None or value.name in seen or value.dtype is None or not is_typed(value):
            continue
        seen.add(str(value.name))
        info = onnx.helper.make_tensor_value_info(value.name, int(value.dtype), shape_of(value))
        graph.input.append(info)
        known = lookup(value, facts)
        if known is not None and known.full:
            graph.initializer.append(_tensor(value, known))
    for value in node.outputs:
        graph.output.append(onnx.helper.make_empty_tensor_value_info(value.name or ""))
    try:
        result = child(single)
    except ProcessDied as e:
        raise NodeError(f"onnx's inference {e}: inputs or attributes it does not expect") from None
    except RuntimeError as e:
        raise NodeError(reason_of(e)) from None
    found = {o.name: o.type for o in [*result.graph.output, *result.graph.value_info]}
    return [_type_of(value, found.get(str(value.name))) for value in node.outputs]


def _type_of(value: ir.Value, proto: onnx.TypeProto | None) -> Type | None:
    if proto is None or proto.WhichOneof("value") is None:
        return None
    if not proto.HasField("tensor_type"):
        kind = str(proto.WhichOneof("value")).replace("_type", "")
        raise UnsupportedError(f'"{value.name}" is a {kind}: only dense tensors are supported')
    dtype = proto.tensor_type.elem_type
    if dtype:
        value.type = ir.TensorType(ir.DataType(dtype))
    if not dtype or not proto.tensor_type.HasField("shape"):
        return None
    dims = proto.tensor_type.shape.dim
    if not all(d.HasField("dim_value") for d in dims):
        value.shape = ir.Shape([d.dim_value if d.HasField("dim_value") else None for d in dims])
        return None
    return dtype, tuple(d.dim_value for d in dims)


def _tensor(value: ir.Value, known: Known) -> onnx.TensorProto:
    data: Array = known.data
    if dtype_of(value).numpy().kind in "biuf" and data.dtype == dtype_of(value).numpy():
        return onnx.numpy_helper.from_array(data, value.name)
    return onnx.helper.make_tensor(
        str(value.name), int(dtype_of(value)), data.shape, data.ravel().tolist()
    )


def _outer_values(node: ir.Node) -> list[ir.Value]:
    """What the subgraphs of a node read from outside."""
    inner = (n for graph in inner_graphs(node) for n in all_nodes(graph))
    return [v for n in inner for v in n.inputs if v is not None]
