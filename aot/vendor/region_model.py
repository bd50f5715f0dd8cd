# SPDX-License-Identifier: Apache-2.0
"""Nodes of the graph as a model of ONNX, for vendors whose own compiler reads such models."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.deferred_import import ir, onnx

#: The version of the model's format: readers of models are seldom newer than two years.
IR_VERSION = 10


def onnx_of(
    nodes: Sequence[ir.Node], inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]
) -> bytes:
    """The file of a model of `nodes` (in the order they run), with inputs i0, i1 … and outputs o0,
    o1 …; constants that the nodes read are initialisers."""
    graph = onnx.GraphProto(name="region")
    names = {id(v): f"i{k}" for k, v in enumerate(inputs)}
    names |= {id(v): f"o{k}" for k, v in enumerate(outputs)}
    for value in inputs:
        assert value.dtype is not None and value.shape is not None
        shape = [int(str(d)) for d in value.shape]
        kind = onnx.helper.make_tensor_type_proto(int(value.dtype), shape)
        graph.input.append(onnx.ValueInfoProto(name=names[id(value)], type=kind))
    graph.output.extend(onnx.ValueInfoProto(name=names[id(v)]) for v in outputs)
    versions = {"": _version(nodes[0], "")}
    for node in nodes:
        for read in node.inputs:
            if read is not None and read.const_value is not None and id(read) not in names:
                names[id(read)] = f"c{len(names)}"
                constant = ir.to_proto(read.const_value)
                constant.name = names[id(read)]
                graph.initializer.append(constant)
        proto = ir.to_proto(node)
        # Regions that differ in names only become the same file.
        for field in ("name", "doc_string", "metadata_props"):
            proto.ClearField(field)
        results = [
            names.setdefault(id(v), f"v{len(names)}") if v.name else "" for v in node.outputs
        ]
        proto.input[:] = ["" if v is None else names[id(v)] for v in node.inputs]
        proto.output[:] = results
        graph.node.append(proto)
        versions[node.domain] = _version(node, node.domain)
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in sorted(versions.items())]
    made = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    data: bytes = made.SerializeToString(deterministic=True)
    return data


def _version(node: ir.Node, domain: str) -> int:
    """The opset of `domain` in the graph of a node; 1 where the graph imports none."""
    graph = node.graph
    return 1 if graph is None else int(graph.opset_imports.get(domain, 1))
