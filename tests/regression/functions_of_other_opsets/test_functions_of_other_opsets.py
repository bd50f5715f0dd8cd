# SPDX-License-Identifier: Apache-2.0
"""A function of another opset than the model's, called with an initialiser, failed an assertion.

onnx's inliner converts such a body, and knew no types of initialisers. Operators that are the same
in both opsets, as ONNX demands, need no conversion.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import aot

X = np.array([[0.5, -1], [2, 0.25]], np.float32)
W = np.array([[1, 2], [3, 4]], np.float32)
LARGE = np.random.default_rng(6).standard_normal((2, 4096)).astype(np.float32)
INPUT, CALL = "float[2,2] x", "y = own.F(x, w)"
SMALL = "<float[2,2] w = {1, 2, 3, 4}>"
SUM = "F (a, w) => (o) { o = Add(a, w) }"
#: Name: (the model's opset, the function's, the model's own nodes, functions).
MODELS = {
    "18 in 21": (21, 18, CALL, SUM),
    "17 in 23": (23, 17, CALL, SUM),
    "21 in 18": (18, 21, CALL, SUM),
    "a function that calls one": (
        *(23, 17, "y = own.G(x, w)"),
        f'{SUM} <domain: "own", opset_import: ["" : 18, "own" : 1]> '
        "G (a, w) => (o) { o = own.F(w, a) }",
    ),
    "an argument of unknown type": (21, 18, "h = com.microsoft.QuickGelu(x) y = own.F(h, w)", SUM),
    "within a branch, of its initialiser": (
        *(21, 17),
        "s = ReduceMax<keepdims = 0>(x) z = Constant<value = float {0.5}>() c = Greater(s, z)"
        "y = If(c)<then_branch = t () => (float[2,2] p) <float[2,2] v = {1, 2, 3, 4}>"
        "{ p = own.F(x, v) }, else_branch = e () => (float[2,2] q) { q = own.F(x, x) }>",
        SUM,
    ),
    "a body within of another opset's operator": (
        *(22, 21, CALL),
        "F (a, w) => (o) { s = ReduceMax<keepdims = 0>(a) t = ReduceMax<keepdims = 0>(w)"
        "c = Less(s, t) b = If(c)<then_branch = t () => (p) { p = Elu(w) },"
        "else_branch = e () => (q) { q = Mul(a, w) }> o = Add(a, b) }",
    ),
}


def model(opset: int, functions: int, nodes: str, bodies: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : {opset}, "own" : 1, "com.microsoft" : 1]>'
        f"g ({INPUT}) => (float[2,2] y) {SMALL} {{ {nodes} }}"
        f'<domain: "own", opset_import: ["" : {functions}]> {bodies}'
    )


@pytest.mark.parametrize("name", MODELS)
def test_an_initialiser_as_argument(name: str, tmp_path: Path) -> None:
    got = aot.compile(model(*MODELS[name]), tmp_path / "o", name="n").load()(X)
    x = X / (1 + np.exp(-1.702 * X)) if "unknown" in name else X
    assert np.allclose(got, x + W, rtol=1e-5, atol=1e-6)


def test_a_large_one(tmp_path: Path) -> None:
    proto = model(21, 18, CALL, "F (a, w) => (o) { o = Mul(a, w) }")
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(LARGE, "w"))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[1].dim_value = 4096
    x = np.ones((2, 4096), np.float32)
    assert (aot.compile(proto, tmp_path / "o", name="n").load()(x) == LARGE).all()


def test_only_the_function_imports_operators_of_onnx(tmp_path: Path) -> None:
    proto = model(*MODELS["18 in 21"])
    del proto.opset_import[0]
    assert (aot.compile(proto, tmp_path / "o", name="n").load()(X) == X + W).all()
