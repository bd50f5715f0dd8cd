# SPDX-License-Identifier: Apache-2.0
"""Parts of a graph in half precision become float32 between two Casts, where that is asked for."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto as T
from onnx.reference import ReferenceEvaluator

import aot
from aot.load import LoadOptions, load
from aot.normalise import normalise
from normalise_graphs import f32, gelu, model_of, node

KINDS = {T.FLOAT16: np.dtype(np.float16), T.BFLOAT16: np.dtype(ml_dtypes.bfloat16)}


def network(kind=T.FLOAT16, weights=True):
    """Conv, Relu, Add, Reshape, ReduceMax, then Greater and a Reshape of the maximum, z."""
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("Add", ["r", "one"], ["y"]),
        node("Reshape", ["y", "shape"], ["flat"]),
        node("ReduceMax", ["flat", "axis"], ["z"]),
        node("Greater", ["z", "one"], ["more"]),
        node("Reshape", ["z", "minus"], ["v"]),
    ]
    dtype = KINDS[kind]
    constants = {"one": np.ones((), dtype), "shape": np.array([1, -1]), "axis": np.array([1])}
    constants["minus"] = np.array([-1])
    inputs = {"x": (kind, (1, 3, 6, 6))}
    if weights:
        constants["w"] = f32(8, 3, 1, 1).astype(dtype)
    else:
        inputs["w"] = (kind, (8, 3, 1, 1))
    return model_of(nodes, inputs, ["y", "z", "more", "v"], constants)


def normalised(model, **options):
    """The nodes as (operator, element type of the result), and the graph."""
    chosen = LoadOptions(**options)
    graph = normalise(load(model, chosen), chosen).graph
    return [(n.op_type, n.outputs[0].dtype.name) for n in graph], graph


@pytest.mark.parametrize("kind", KINDS)
def test_the_part_between_movers_is_float32(kind):
    kinds, graph = normalised(network(kind), wide_halves=True)
    half = T.DataType.Name(kind)
    assert kinds[:2] == [("Cast", "FLOAT"), ("Conv", "FLOAT")]
    assert {op for op, dtype in kinds if dtype == half} == {"Cast", "Reshape", "ReduceMax"}
    assert {op for op, dtype in kinds if dtype == "FLOAT"} > {"Conv", "Relu", "Add"}
    assert kinds.count(("Cast", half)) == 1  # y, whose maximum is an element of it
    assert [v.dtype.name for v in graph.outputs] == [half, half, "BOOL", half]


def test_without_constant_weights_or_the_option_nothing_changes():
    for model, wide in ((network(weights=False), True), (network(), False)):
        kinds, _ = normalised(model, wide_halves=wide)
        assert "FLOAT" not in {dtype for _, dtype in kinds}


def test_a_transposed_table_is_widened_without_a_cast():
    x = (T.FLOAT16, (1, 4100))
    nodes = [node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["m"])]
    nodes += [node("Relu", ["m"], ["y"]), node("Gather", ["w", "i"], ["e"])]
    w = np.zeros((8300, 4100), np.float16)  # more bytes than folding may add
    constants = {"w": w, "i": np.array([3])}
    kinds, _ = normalised(model_of(nodes, {"x": x}, ["y", "e"], constants), wide_halves=True)
    assert [op for op, _ in kinds].count("Cast") == 2 and "Transpose" not in dict(kinds)


def operators(nodes, constants, outputs=("y",), x=(T.FLOAT16, (2, 8))):
    """The nodes behind a MatMul of x by weights, c, normalised with wide parts."""
    first = [node("MatMul", ["x", "w"], ["c"])]
    constants = {"w": f32(8, 8).astype(np.float16), **constants}
    return normalised(model_of([*first, *nodes], {"x": x}, outputs, constants), wide_halves=True)[0]


def test_a_value_that_others_read_is_rounded_for_all():
    """An output that is infinite in half precision is infinite for Mul, too."""
    found = operators([node("Relu", ["c"], ["r"]), node("Mul", ["r", "r"], ["y"])], {}, ["r", "y"])
    assert [op for op, _ in found] == ["Cast", "MatMul", "Relu", "Cast", "Cast", "Mul", "Cast"]


def test_operators_that_jump_read_half_precision():
    nodes = [node("Sin", ["c"], ["s"]), node("Mod", ["s", "k"], ["y"], fmod=1)]
    found = operators(nodes, {"k": np.array(0.5, np.float16)})
    assert found[-3:] == [("Sin", "FLOAT"), ("Cast", "FLOAT16"), ("Mod", "FLOAT16")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["erf_last_half", "erf_first_half", "tanh"])
@pytest.mark.parametrize("off", [False, True])
def test_a_gelu_has_the_constants_of_its_type(kind, form, off):
    """The root of two (over pi) that float16 or bfloat16 has; its neighbour is another number."""
    nodes, constants = gelu(form)
    constants = {k: v.astype(KINDS[kind]) for k, v in constants.items()}
    root = {"erf_last_half": "root", "erf_first_half": "inv", "tanh": "k"}[form]
    if off:
        constants[root] = np.nextafter(constants[root], constants["three"])
    first = [node("MatMul", ["a0", "w"], ["x"])]
    constants["w"] = f32(8, 8).astype(KINDS[kind])
    model = model_of([*first, *nodes], {"a0": (kind, (2, 8))}, ["y"], constants)
    assert ("Gelu" in dict(normalised(model, wide_halves=True)[0])) != off


def test_quantised_networks_keep_kernels_of_integers():
    ends = ["k", "z"]
    nodes = [
        node("QuantizeLinear", ["c", *ends], ["q"]),
        node("DequantizeLinear", ["q", *ends], ["d"]),
        node("MatMul", ["d", "w"], ["m"]),
        node("Relu", ["m"], ["r"]),
        node("QuantizeLinear", ["r", *ends], ["y"]),
    ]
    found = operators(nodes, {"k": np.array(0.5, np.float16), "z": np.int8(0)})
    assert "FLOAT" not in {dtype for _, dtype in found}


@pytest.mark.parametrize(
    ("options", "wide"),
    [({}, True), ({"accuracy": "strict"}, False), ({"objective": "ram"}, False)],
)
def test_results_are_those_of_float32_rounded_once(tmp_path, options, wide):
    model = network()
    x = f32(1, 3, 6, 6).astype(np.float16)
    net = aot.compile(model, tmp_path / "out", name="net", **options).build().load()
    y, z, *_ = net(x=x)
    w = next(t for t in model.graph.initializer if t.name == "w")
    w = np.frombuffer(w.raw_data, np.float16).reshape(8, 3).astype(np.float32)
    exact = np.maximum(np.einsum("oc,nchw->nohw", w, x.astype(np.float32)), 0) + 1
    if wide:
        near = np.abs(y.astype(np.float32) - exact) <= 2**-11 * np.abs(exact) * 1.01
        assert near.all()
    else:
        want = ReferenceEvaluator(model).run(None, {"x": x})[0]
        np.testing.assert_allclose(y.astype(np.float32), want.astype(np.float32), rtol=2e-3)
    assert z.shape == (1, 1)
