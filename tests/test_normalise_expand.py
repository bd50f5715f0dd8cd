# SPDX-License-Identifier: Apache-2.0
"""Operators without a kernel become the nodes ONNX defines them by."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from aot.errors import UnsupportedError
from aot.load import LoadOptions, load
from aot.normalise import normalise
from aot.options import Options
from aot.pipeline import compile_model


def swiglu(kind: int = TensorProto.FLOAT):
    x = helper.make_tensor_value_info("x", kind, [2, 6])
    y = helper.make_tensor_value_info("y", kind, [2, 3])
    cut = np.array([3, 3], np.int64)
    nodes = [
        helper.make_node("Split", ["x", "cut"], ["a", "b"], axis=1),
        helper.make_node("SwiGLU", ["a", "b"], ["y"], name="gate"),
    ]
    constant = helper.make_tensor("cut", TensorProto.INT64, [2], cut)
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], [constant]))


def operators(native: frozenset[str] | None) -> list[str]:
    options = LoadOptions(native=native)
    return [n.op_type for n in normalise(load(swiglu(), options), options).graph]


def test_unknown_operator_becomes_its_body() -> None:
    assert operators(frozenset({"::Split", "::Swish", "::Mul"}))[-2:] == ["Swish", "Mul"]
    assert "Sigmoid" in operators(frozenset({"::Split", "::Sigmoid", "::Mul"}))


def test_native_operator_stays() -> None:
    assert "SwiGLU" in operators(frozenset({"::SwiGLU", "::Split"}))
    assert "SwiGLU" in operators(None)


def test_names_say_where_the_nodes_come_from() -> None:
    compiled = compile_model(swiglu(), Options(target="x86-64"))
    assert compiled.program.outputs == ("y",)
    onnx_names = {s.match.root.onnx_name for s in compiled.partition.items}
    assert "gate (SwiGLU)" in onnx_names


def test_no_body_is_refused_by_its_own_name() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    node = helper.make_node("RandomUniformLike", ["x"], ["y"], name="dice")
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]))
    with pytest.raises(UnsupportedError, match=r"dice \(RandomUniformLike\): no backend"):
        compile_model(model, Options(target="x86-64"))
