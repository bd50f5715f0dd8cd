# SPDX-License-Identifier: Apache-2.0
"""Every string of a model must be UTF-8: protobuf only finds out when one is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from aot.errors import ModelError
from aot.ir.deferred_import import onnx


def check_strings(model: onnx.ModelProto) -> None:
    """ModelError if a name, domain, note or text attribute is not valid UTF-8."""
    try:
        for text in _model(model):
            if isinstance(text, bytes):
                text.decode("utf-8")
    except UnicodeDecodeError as e:
        what = "a name or text of the model is not valid UTF-8"
        bad = bytes(e.object[:40])
        raise ModelError(f"{what}: {bad!r}", hint="the file may be damaged") from None


def _model(model: onnx.ModelProto) -> Iterator[Any]:
    """Yield every text of a model; texts that are bytes are those not decoded yet."""
    yield from (model.domain, model.producer_name, model.producer_version, model.doc_string)
    for opset in model.opset_import:
        yield opset.domain
    yield from _pairs(model.metadata_props)
    yield from _graph(model.graph)
    for function in model.functions:
        yield from (function.name, function.domain, function.overload, function.doc_string)
        yield from (*function.input, *function.output, *function.attribute)
        for opset in function.opset_import:
            yield opset.domain
        yield from _pairs(function.metadata_props)
        yield from _nodes(function.node)


def _pairs(entries: Iterable[onnx.StringStringEntryProto]) -> Iterator[Any]:
    """Yield keys and values."""
    for entry in entries:
        yield entry.key
        yield entry.value


def _graph(graph: onnx.GraphProto) -> Iterator[Any]:
    """Yield every text of a graph."""
    yield from (graph.name, graph.doc_string)
    for tensor in graph.initializer:
        yield from _tensor(tensor)
    for sparse in graph.sparse_initializer:
        yield from _tensor(sparse.values)
        yield from _tensor(sparse.indices)
    for infos in (graph.input, graph.output, graph.value_info):
        for info in infos:
            yield from (info.name, info.doc_string)
            for dim in info.type.tensor_type.shape.dim:
                yield dim.dim_param
                yield dim.denotation
            yield info.type.denotation
            yield from _pairs(info.metadata_props)
    yield from _pairs(graph.metadata_props)
    yield from _nodes(graph.node)


def _tensor(tensor: onnx.TensorProto) -> Iterator[Any]:
    """Yield every text of a tensor."""
    yield from (tensor.name, tensor.doc_string)
    if tensor.external_data:
        yield from _pairs(tensor.external_data)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[Any]:
    """Yield every text of nodes and their attributes."""
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, node.overload, node.doc_string)
        yield from node.input
        yield from node.output
        if node.metadata_props:
            yield from _pairs(node.metadata_props)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name, attribute.doc_string)
            yield attribute.s
            yield from attribute.strings
            if attribute.HasField("t"):
                yield from _tensor(attribute.t)
            for tensor in attribute.tensors:
                yield from _tensor(tensor)
            if attribute.HasField("g"):
                yield from _graph(attribute.g)
            for graph in attribute.graphs:
                yield from _graph(graph)
