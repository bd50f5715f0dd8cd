# SPDX-License-Identifier: Apache-2.0
"""Nodes as a model of ONNX, and onnxruntime's own answer to whether it computes one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from aot.vendor import BackendError, NodeRef, UnsupportedError, ValueRef, one_line

try:
    import onnxruntime
except ImportError as error:
    what = f"backend ort: {error}"
    raise BackendError(what, hint="pip install onnxruntime") from error

#: The version of the model's format, which every onnxruntime that can be asked for reads.
IR_VERSION = 10
#: The version of onnxruntime's C interface: the second number of its version.
INTERFACE = int(onnxruntime.__version__.split(".")[1])


def network(
    nodes: Sequence[NodeRef], inputs: Sequence[ValueRef], outputs: Sequence[ValueRef]
) -> bytes:
    """The file of a model of `nodes` (in the order they run), with inputs i0, i1 … and outputs o0,
    o1 …; constants that the nodes read are initialisers."""
    graph = onnx.GraphProto(name="region")
    names = {id(v.ir): f"i{k}" for k, v in enumerate(inputs)}
    names |= {id(v.ir): f"o{k}" for k, v in enumerate(outputs)}
    graph.input.extend(_typed(v, names) for v in inputs)
    graph.output.extend(onnx.ValueInfoProto(name=names[id(v.ir)]) for v in outputs)
    versions = {"": _version(nodes[0], "")}
    for node in nodes:
        for value in node.ir.inputs:
            if value is not None and value.const_value is not None and id(value) not in names:
                names[id(value)] = f"c{len(names)}"
                constant = ir.to_proto(value.const_value)
                constant.name = names[id(value)]
                graph.initializer.append(constant)
        proto = ir.to_proto(node.ir)
        for field in ("name", "doc_string", "metadata_props"):
            proto.ClearField(field)
        results = [
            names.setdefault(id(v), f"v{len(names)}") if v.name else "" for v in node.ir.outputs
        ]
        proto.input[:] = ["" if v is None else names[id(v)] for v in node.ir.inputs]
        proto.output[:] = results
        graph.node.append(proto)
        versions[node.ir.domain] = _version(node, node.ir.domain)
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in sorted(versions.items())]
    made = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    data: bytes = made.SerializeToString(deterministic=True)
    return data


def alone(node: NodeRef) -> tuple[bytes, tuple[ValueRef, ...]]:
    """(the model of one node, what it reads at run time)."""
    given = {id(v): ValueRef(v) for v in node.ir.inputs if v is not None and v.const_value is None}
    inputs = tuple(given.values())
    return network([node], inputs, [ValueRef(v) for v in node.ir.outputs if v.name]), inputs


@lru_cache(64)
def session(model: bytes) -> Any:
    """A session of a model. UnsupportedError says why onnxruntime makes none."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    except Exception as error:
        text = one_line(str(error)).removeprefix("[ONNXRuntimeError] : ")
        raise UnsupportedError(f"onnxruntime {onnxruntime.__version__}: {text}") from error


def computed(node: NodeRef) -> list[np.ndarray[Any, Any]]:
    """The results of a node for inputs that are all zero. UnsupportedError if there are none."""
    model, inputs = alone(node)
    zeros = {f"i{k}": np.zeros(v.shape, v.dtype.numpy) for k, v in enumerate(inputs)}
    made = session(model)
    try:
        found: list[np.ndarray[Any, Any]] = made.run(None, zeros)
    except Exception as error:
        raise UnsupportedError(f"onnxruntime: {one_line(str(error))}") from error
    return found


def _typed(value: ValueRef, names: dict[int, str]) -> onnx.ValueInfoProto:
    """The declaration of an input."""
    return onnx.helper.make_tensor_value_info(names[id(value.ir)], value.dtype.onnx, value.shape)


def _version(node: NodeRef, domain: str) -> int:
    """The opset of `domain` in the graph of a node; 1 where the graph imports none."""
    graph = node.ir.graph
    return 1 if graph is None else int(graph.opset_imports.get(domain, 1))
