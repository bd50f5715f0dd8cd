# SPDX-License-Identifier: Apache-2.0
"""Small quantised models, and how far normalisation may move what they compute."""

from __future__ import annotations

import collections

import numpy as np
import onnx_ir as ir
from onnx import checker, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from aot.load import LoadOptions, load
from aot.normalise import normalise
from needs import need_module

RNG = np.random.default_rng(11)
S8, U8, S16, S32 = np.int8, np.uint8, np.int16, np.int32
SX, SW = 0.03, 0.02


def node(op_type, inputs, output, domain="", **attributes):
    outputs = output if isinstance(output, list) else [output]
    return helper.make_node(op_type, inputs, outputs, domain=domain, **attributes)


def quantised_values(*shape, dtype=S8):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, int(info.max) + 1, shape).astype(dtype)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def scales(*values):
    data = np.array(values, np.float32)
    return data if data.size > 1 else data.reshape(())


class Net:
    """A graph in the making: nodes, constants by name, inputs and outputs with their types."""

    def __init__(self, **inputs):
        self.nodes, self.consts, self.outputs = [], {}, []
        self.inputs = {k: (np.dtype(t), s) for k, (t, s) in inputs.items()}

    def const(self, data, name=None):
        name = name or f"c{len(self.consts)}"
        self.consts[name] = data if hasattr(data, "SerializeToString") else np.asarray(data)
        return name

    def add(self, op_type, *inputs, out=None, domain="", **attributes):
        out = out or f"v{len(self.nodes)}"
        names = [i if isinstance(i, str) else self.const(i) for i in inputs]
        self.nodes.append(node(op_type, names, out, domain, **attributes))
        return out

    def q(self, x, scale, zero, out=None, **more):
        return self.add("QuantizeLinear", x, scales(scale), zero, out=out, **more)

    def dq(self, x, scale, zero, out=None, **more):
        return self.add("DequantizeLinear", x, scales(*np.ravel(scale)), zero, out=out, **more)

    def model(self, opset=21, **outputs):
        infos = [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(t), s)
            for k, (t, s) in self.inputs.items()
        ]
        outs = [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(np.dtype(t)), None)
            for k, t in outputs.items()
        ]
        tensors = []
        for name, data in self.consts.items():
            made = (
                data
                if hasattr(data, "raw_data")
                else numpy_helper.from_array(np.asarray(data), name)
            )
            made.name = name
            tensors.append(made)
        graph = helper.make_graph(self.nodes, "g", infos, outs, tensors)
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def feeds_of(model, seed=0):
    rng, feeds = np.random.default_rng(seed), {}
    for value in model.graph.input:
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if dtype.kind not in "iub":  # bfloat16 is of another kind than NumPy's floats
            feeds[value.name] = np.asarray(2 * rng.standard_normal(shape)).astype(dtype)
        elif dtype == np.bool_:
            feeds[value.name] = rng.integers(0, 2, shape).astype(np.bool_)
        else:
            ends = np.iinfo(dtype)
            feeds[value.name] = rng.integers(ends.min, int(ends.max) + 1, shape).astype(dtype)
    return feeds


def in_reference(proto, feeds):
    return ReferenceEvaluator(proto).run(None, feeds)


def in_onnxruntime(proto, feeds):
    ort = need_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = proto.SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def in_either(proto, feeds):
    """onnx.reference pads pooled quantised values with NaN and has no GlobalLpPool; onnxruntime
    knows older opsets only."""
    if not any(n.op_type in ("MaxPool", "GlobalLpPool") for n in proto.graph.node):
        return in_reference(proto, feeds)
    for entry in proto.opset_import:
        if not entry.domain:
            entry.version = 21
    return in_onnxruntime(proto, feeds)


def normal(model, **options):
    chosen = LoadOptions(**options)
    result = normalise(load(model, chosen), chosen)
    proto = ir.to_proto(result)
    checker.check_model(proto, full_check=True)
    return result


def check(model, *, step=0.0, run=in_reference, varied=4, **options):
    """Normalise; what is computed must agree up to `step`. (operators and their count, model)

    The data must give `varied` different results: saturated quantised values show nothing.
    """
    result = normal(model, **options)
    feeds = feeds_of(model)
    renamed = {v.metadata_props["aot.onnx_name"]: v.name for v in result.graph.inputs}
    want = run(model, feeds)
    got = in_either(ir.to_proto(result), {renamed[k]: v for k, v in feeds.items()})
    for a, b in zip(want, got, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        wide = a.astype(np.float64), b.astype(np.float64)
        assert np.unique(wide[0]).size >= varied
        np.testing.assert_allclose(wide[1], wide[0], rtol=2e-5, atol=max(step, 2e-5))
    return collections.Counter(n.op_type for n in result.graph), result


def only(result, op_type):
    (found,) = [n for n in result.graph if n.op_type == op_type]
    return found


def values(result):
    """Every value that a node computes, by the name in the file."""
    made = (o for n in result.graph for o in n.outputs)
    return {v.metadata_props.get("aot.onnx_name", v.name): v for v in made}


def data(value):
    return value.const_value.numpy()


def convolved(net, x, **more):
    """A quantised convolution of 4 to 6 channels up to its float result."""
    zx = more.pop("zx", S8(3))
    zero = more.pop("zero", np.zeros((), S8))
    weights = net.dq(more.pop("weights", quantised_values(6, 4, 3, 3)), SW, zero)
    bias = more.pop("bias", [])
    return net.add("Conv", net.dq(x, SX, zx), weights, *bias, **more)


def made(result, node, index):
    """The DequantizeLinear of an input."""
    found = node.inputs[index].producer()
    assert found is not None and found.op_type == "DequantizeLinear"
    return found


def i64(*numbers):
    return np.array(numbers, np.int64)
