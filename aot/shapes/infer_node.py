# SPDX-License-Identifier: Apache-2.0
"""Inference of one node: a model of its own, with all that is known about its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import (
    Array,
    all_nodes,
    attribute,
    dtype_of,
    inner_graphs,
    is_typed,
    shape_of,
)
from aot.ir.onnx_subprocess import Child, ProcessDied, reason_of
from aot.ir.operators import Interface
from aot.shapes.partial_values import Known, PartialValues, lookup
from aot.shapes.types import Type, TypedAs, need

WRAPPED_OPSET = 13
"""The opset whose operators those of com.microsoft follow: they have axes among the attributes."""


class NodeError(Exception):
    """onnx's inference refuses the node."""


#: The type of an operator's first result where more is known than onnx's inference uses; None: it
#: is onnx's to say. Raises NodeError.
solves: Interface[Callable[[ir.Node, PartialValues], Type | None]] = Interface("solve")


def infer_node(
    node: ir.Node, partial_values: PartialValues, model: ir.Model, child: Child
) -> list[Type | None]:
    """Types of the outputs, None where they stay open. Raises NodeError where onnx does.

    `child` infers a model strictly: onnx may not survive this one.
    """
    rule = solves.of(node)
    solved = None if rule is None else rule(node, partial_values)
    return _by_onnx(node, partial_values, model, child) if solved is None else [solved]


def _by_onnx(
    node: ir.Node, partial_values: PartialValues, model: ir.Model, child: Child
) -> list[Type | None]:
    """The types that onnx infers for a node, in a model of this node alone; None for an unknown
    one.

    Known values go along as initializers, since shapes may depend on them.
    """
    single = onnx.ModelProto()
    single.ir_version = 10
    for domain, version in model.opset_imports.items():
        # Only the domains, functions and values that the node may need: a small model is inferred
        # fast.
        single.opset_import.append(onnx.helper.make_opsetid(domain, version))
    single.functions.extend(
        ir.serde.serialize_function(function) for function in model.functions.values()
    )
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
        # Shapes may depend on values, as that of Reshape does.
        known = lookup(value, partial_values)
        if known is not None and known.full:
            graph.initializer.append(_tensor(value, known))
    graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(value.name or "") for value in node.outputs
    )
    found = _inferred(single, child)
    return [_type_of(value, found.get(str(value.name))) for value in node.outputs]


def _inferred(single: onnx.ModelProto, child: Child) -> dict[str, onnx.TypeProto]:
    """The types that `child` gives the values of a model by name. Raises NodeError."""
    try:
        result = child(single)
    except ProcessDied as e:
        raise NodeError(f"onnx's inference {e}: inputs or attributes it does not expect") from None
    except RuntimeError as e:
        raise NodeError(reason_of(e)) from None
    return {o.name: o.type for o in [*result.graph.output, *result.graph.value_info]}


def infer_as(
    node: ir.Node, other: TypedAs, types: Sequence[Type | None], child: Child
) -> list[Type | None]:
    """The type of the result of a node whose operands have `types`. Raises NodeError where onnx
    refuses the operator in its place, ValueError for an operand that is absent."""
    helper = onnx.helper
    places = range(len(types))[other.places] if isinstance(other.places, slice) else other.places
    operands = [need(types, place) for place in places]
    last = bool(attribute(node, "channels_last", other.last))
    # onnx infers shapes with the channels first.
    if last:
        kind, (batch, *space, channels) = operands[0]
        operands[0] = kind, (batch, channels, *space)
    infos = [helper.make_tensor_value_info(f"x{k}", *type_) for k, type_ in enumerate(operands)]
    formal = onnx.defs.get_schema(other.op_type, WRAPPED_OPSET).attributes
    alike = helper.make_node(other.op_type, [i.name for i in infos], ["y"])
    own = (a for name, a in node.attributes.items() if name in formal)
    alike.attribute.extend(ir.serde.serialize_attribute(a) for a in own)
    result = helper.make_empty_tensor_value_info("y")
    opset = helper.make_opsetid("", WRAPPED_OPSET)
    graph = helper.make_graph([alike], "node", infos, [result])
    single = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    found = _type_of(node.outputs[0], _inferred(single, child).get("y"))
    if found is None:
        return [None]
    batch, *rest = found[1]
    said = other.element
    element = said(types) if callable(said) else need(types, said)[0]
    return [(element, (batch, *rest[1:], rest[0]) if last else found[1])]


def _type_of(value: ir.Value, proto: onnx.TypeProto | None) -> Type | None:
    """(element type, shape) that onnx found for `value`, None if it is incomplete; parts are kept.

    UnsupportedError for anything but a dense tensor.
    """
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
    """A known value as a TensorProto."""
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
