# SPDX-License-Identifier: Apache-2.0
"""Inference of one node: a model of its own, with all that is known about its inputs."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from aot.errors import UnsupportedError
from aot.ir.graph_nodes import Array, all_nodes, attribute, inner_graphs, is_typed, shape_of
from aot.ir.onnx_subprocess import Child, ProcessDied, reason_of
from aot.shapes.partial_values import Facts, Known, lookup
from aot.shapes.types import Type

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir


class NodeError(Exception):
    """onnx's inference refuses the node."""


def infer_node(node: ir.Node, facts: Facts, model: ir.Model, child: Child) -> list[Type | None]:
    """Types of the outputs, None where they stay open. Raises NodeError where onnx does.

    `child` infers a model strictly: onnx may not survive this one.
    """
    solved = _reshape(node, facts) or _unpool(node, facts) or _normalizer(node)
    if solved is not None:
        return [solved]
    return _by_onnx(node, facts, model, child)


def _reshape(node: ir.Node, facts: Facts) -> Type | None:
    """A Reshape of which at most one target dimension is unknown."""
    if node.op_type != "Reshape" or node.domain or len(node.inputs) < 2:
        return None
    data, wanted = node.inputs[0], lookup(node.inputs[1], facts)
    if data is None or wanted is None or data.dtype is None:
        return None
    old = shape_of(data)
    zero = bool(attribute(node, "allowzero", 0))
    dims = [
        old[i] if s == 0 and not zero and i < len(old) else s for i, s in enumerate(wanted.items())
    ]
    open_axes = [i for i, s in enumerate(dims) if s is None or s == -1]
    if len(open_axes) > 1:
        return None
    if open_axes:
        rest = prod(s for s in dims if s is not None and s != -1)
        if rest == 0 or prod(old) % rest:
            text = [("?" if s is None else s) for s in dims]
            raise NodeError(f"cannot reshape {list(old)} to {text}")
        dims[open_axes[0]] = prod(old) // rest
    shape = tuple(s for s in dims if s is not None)
    if prod(shape) != prod(old):
        raise NodeError(f"cannot reshape {list(old)} to {list(shape)}")
    return int(data.dtype), shape


def _unpool(node: ir.Node, facts: Facts) -> Type | None:
    """A MaxUnpool whose output_shape is known."""
    if node.op_type != "MaxUnpool" or node.domain or len(node.inputs) < 3:
        return None
    data, wanted = node.inputs[0], lookup(node.inputs[2], facts)
    if data is None or wanted is None or data.dtype is None:
        return None
    shape = tuple(s for s in wanted.items() if s is not None and s >= 0)
    return (int(data.dtype), shape) if len(shape) == len(shape_of(data)) else None


def _normalizer(node: ir.Node) -> Type | None:
    """A StringNormalizer that removes no words."""
    data = node.inputs[0] if node.inputs else None
    if node.op_type != "StringNormalizer" or node.domain or data is None or data.dtype is None:
        return None
    return None if attribute(node, "stopwords", None) else (int(data.dtype), shape_of(data))


def _by_onnx(node: ir.Node, facts: Facts, model: ir.Model, child: Child) -> list[Type | None]:
    import onnx
    import onnx_ir as ir
    from onnx import helper

    single = onnx.ModelProto()
    single.ir_version = 10
    for domain, version in model.opset_imports.items():
        single.opset_import.append(helper.make_opsetid(domain, version))
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
        info = helper.make_tensor_value_info(value.name, int(value.dtype), shape_of(value))
        graph.input.append(info)
        known = lookup(value, facts)
        if known is not None and known.full:
            graph.initializer.append(_tensor(value, known))
    for value in node.outputs:
        graph.output.append(helper.make_empty_tensor_value_info(value.name or ""))
    try:
        result = child(single)
    except ProcessDied as e:
        raise NodeError(f"onnx's inference {e}: inputs or attributes it does not expect") from None
    except RuntimeError as e:
        raise NodeError(reason_of(e)) from None
    found = {o.name: o.type for o in [*result.graph.output, *result.graph.value_info]}
    return [_type_of(value, found.get(str(value.name))) for value in node.outputs]


def _type_of(value: ir.Value, proto: onnx.TypeProto | None) -> Type | None:
    import onnx_ir as ir

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
    from onnx import helper, numpy_helper

    assert value.dtype is not None
    data: Array = known.data
    if value.dtype.numpy().kind in "biuf" and data.dtype == value.dtype.numpy():
        return numpy_helper.from_array(data, value.name)
    return helper.make_tensor(str(value.name), int(value.dtype), data.shape, data.ravel().tolist())


def _outer_values(node: ir.Node) -> list[ir.Value]:
    """What the subgraphs of a node read from outside."""
    inner = (n for graph in inner_graphs(node) for n in all_nodes(graph))
    return [v for n in inner for v in n.inputs if v is not None]
