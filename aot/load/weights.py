# SPDX-License-Identifier: Apache-2.0
"""Big constants step aside while protobuf tools work on the graph, and return uncopied."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aot.ir.deferred_import import ir, onnx
from aot.load.check import STANDARD_DOMAINS, all_graphs, subgraphs, tensors
from aot.load.external import is_external, mapped
from aot.load.inputs import user_inputs
from aot.load.sparse import dense
from aot.load.tensors import element_count, ir_tensor
from aot.shapes.limits import SMALL_ELEMENTS


@dataclass(frozen=True, slots=True)
class Weight:
    """A big constant: its type for the tools, its tensor for the compiler."""

    name: str
    dtype: int
    shape: tuple[int, ...]
    tensor: ir.TensorProtocol


def split(model: onnx.ModelProto, folder: Path | None) -> tuple[onnx.ModelProto, list[Weight]]:
    """A copy of `model` without big constants (nor initialisers among its inputs), and those.

    External data is checked here; small external tensors are read, big ones stay in their file.
    """
    # Field by field, because a copy of the whole message would copy the weights first.
    light = onnx.ModelProto()
    light.ir_version = model.ir_version
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.metadata_props.extend(model.metadata_props)
    light.producer_name, light.domain = model.producer_name, model.domain
    graph, old = light.graph, model.graph
    graph.name = old.name or "graph"
    graph.input.extend(user_inputs(old))
    graph.output.extend(old.output)
    weights: list[Weight] = []
    for tensor in old.initializer:
        if element_count(tensor) > SMALL_ELEMENTS:
            weights.append(_weight(tensor, tensor.name, folder))
        else:
            graph.initializer.append(tensor)
    graph.initializer.extend(dense(sparse) for sparse in old.sparse_initializer)
    for node in old.node:
        big = constant_tensor(node)
        if big is not None and element_count(big) > SMALL_ELEMENTS:
            weights.append(_weight(big, node.output[0], folder))
        elif big is not None:
            graph.initializer.append(big)
            graph.initializer[-1].name = node.output[0]
        else:
            graph.node.append(node)
    _spell_sparse(light)
    for tensor in tensors(light):
        if is_external(tensor):
            _internalise(tensor, folder)
    return light, weights


def _spell_sparse(light: onnx.ModelProto) -> None:
    """Give sparse constants within bodies and functions their zeros."""
    nodes = [n for owner in (light.graph, *light.functions) for n in owner.node]
    inner = [g for n in nodes for b in subgraphs(n) for g in all_graphs(b)]
    for graph in inner:
        graph.initializer.extend(dense(s) for s in graph.sparse_initializer)
        del graph.sparse_initializer[:]
    for node in (n for owner in (*inner, *light.functions) for n in owner.node):
        sparse = _sparse_value(node)
        if sparse is not None:
            value = dense(sparse)
            del node.attribute[:]
            node.attribute.add(name="value", type=4).t.CopyFrom(value)


def _sparse_value(node: onnx.NodeProto) -> onnx.SparseTensorProto | None:
    """The tensor of a Constant node that holds a sparse one."""
    if node.op_type != "Constant" or node.domain not in STANDARD_DOMAINS:
        return None
    values = [a.sparse_tensor for a in node.attribute if a.name == "sparse_value"]
    return values[0] if len(values) == len(node.attribute) == 1 else None


def constant_tensor(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant node that holds one."""
    if node.op_type != "Constant" or node.domain or len(node.attribute) != 1:
        return None
    sparse = _sparse_value(node)
    if sparse is not None and len(node.output) == 1:
        return dense(sparse, node.output[0])
    value = node.attribute[0]
    return value.t if value.name == "value" and len(node.output) == 1 else None


def _weight(tensor: onnx.TensorProto, name: str, folder: Path | None) -> Weight:
    """A constant of the model by `name`, mapped from its file if it is external."""
    data = mapped(tensor, folder, name) if is_external(tensor) else ir_tensor(tensor)
    return Weight(name, tensor.data_type, tuple(tensor.dims), data)


def _internalise(tensor: onnx.TensorProto, folder: Path | None) -> None:
    """Read, in place, an external tensor into the message."""
    data = mapped(tensor, folder, tensor.name).tobytes()
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    tensor.raw_data = data


def stand_in(graph: onnx.GraphProto, weights: list[Weight]) -> None:
    """Let typed inputs take the places of the weights."""
    graph.input.extend(
        onnx.helper.make_tensor_value_info(w.name, w.dtype, w.shape) for w in weights
    )


def attach(graph: ir.Graph, weights: list[Weight]) -> None:
    """Put the constants back, in place, where `stand_in` left inputs."""
    if not weights:
        return
    tensors_by_name = {w.name: w.tensor for w in weights}
    values = list(graph.inputs)
    places = [v for v in values if v.name in tensors_by_name]
    graph.inputs.clear()
    graph.inputs.extend(v for v in values if v.name not in tensors_by_name)
    for value in places:
        value.const_value = tensors_by_name[str(value.name)]
        graph.register_initializer(value)
