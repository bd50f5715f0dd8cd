# SPDX-License-Identifier: Apache-2.0
"""Models for tests of normalisation, which must not change what they compute."""

from __future__ import annotations

import collections

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto as T, checker, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from aot.load import LoadOptions, load
from aot.normalise import normalise

RNG = np.random.default_rng(7)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def model_of(nodes, inputs, outputs, constants=None, opset=None):
    """A ModelProto; inputs are {name: shape} float or {name: (dtype, shape)}."""
    infos = []
    for name, spec in inputs.items():
        dtype, shape = spec if spec and isinstance(spec[-1], tuple) else (T.FLOAT, spec)
        infos.append(helper.make_tensor_value_info(name, dtype, shape))
    outs = [helper.make_tensor_value_info(o, T.FLOAT, None) for o in outputs]
    for info in outs:
        info.type.tensor_type.elem_type = 0
    consts = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", infos, outs, consts)
    version = opset or onnx.defs.onnx_opset_version()
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)


def random_inputs(model):
    feeds = {}
    constants = {i.name for i in model.graph.initializer}
    for info in model.graph.input:
        if info.name in constants:
            continue
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if dtype == np.float32:
            feeds[info.name] = f32(*shape)
        else:
            feeds[info.name] = RNG.integers(0, 3, shape).astype(dtype)
    return feeds


def run(model, **options):
    """Normalise, check validity and equality with the original; (op counts, model)."""
    feeds = random_inputs(model)
    expected = ReferenceEvaluator(model).run(None, feeds)
    chosen = LoadOptions(**options)
    result = normalise(load(model, chosen), chosen)
    proto = ir.to_proto(result)
    checker.check_model(proto, full_check=True)
    renamed = {v.name: feeds[v.metadata_props["aot.onnx_name"]] for v in result.graph.inputs}
    found = ReferenceEvaluator(proto).run(None, renamed)
    assert [v.metadata_props["aot.onnx_name"] for v in result.graph.outputs] == [
        o.name for o in model.graph.output
    ]
    for want, got in zip(expected, found, strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    return collections.Counter(n.op_type for n in result.graph), result


def node(*args, **attributes):
    return helper.make_node(*args, **attributes)


def only(result, op_type):
    (found,) = [n for n in result.graph if n.op_type == op_type]
    return found


def gelu(form):
    half, one, root = np.float32(0.5), np.float32(1), np.float32(np.sqrt(2))
    tanh = {"k": np.float32(np.sqrt(2 / np.pi)), "c": np.float32(0.044715), "three": np.float32(3)}
    constants = {"half": half, "one": one, "root": root, **tanh}
    if form == "erf_last_half":
        nodes = [
            node("Div", ["x", "root"], ["a"]),
            node("Erf", ["a"], ["b"]),
            node("Add", ["b", "one"], ["d"]),
            node("Mul", ["x", "d"], ["e"]),
            node("Mul", ["e", "half"], ["y"]),
        ]
    elif form == "erf_first_half":
        constants["inv"] = np.float32(np.sqrt(0.5))
        nodes = [
            node("Mul", ["x", "half"], ["h"]),
            node("Mul", ["x", "inv"], ["a"]),
            node("Erf", ["a"], ["b"]),
            node("Add", ["one", "b"], ["d"]),
            node("Mul", ["h", "d"], ["y"]),
        ]
    else:
        nodes = [
            node("Pow", ["x", "three"], ["p"]),
            node("Mul", ["p", "c"], ["q"]),
            node("Add", ["x", "q"], ["s"]),
            node("Mul", ["s", "k"], ["t"]),
            node("Tanh", ["t"], ["u"]),
            node("Add", ["u", "one"], ["v"]),
            node("Mul", ["x", "half"], ["h"]),
            node("Mul", ["h", "v"], ["y"]),
        ]
    return nodes, constants
