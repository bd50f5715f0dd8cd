# SPDX-License-Identifier: Apache-2.0
"""A normalisation spelled out in float64 lost digits to float32 statistics (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import aot


def test_digits_of_float64(tmp_path: Path) -> None:
    consts = [
        numpy_helper.from_array(np.array([-1]), "axes"),
        numpy_helper.from_array(np.array(1e-2), "eps"),
    ]
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["m"]),
        helper.make_node("Sub", ["x", "m"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["q"]),
        helper.make_node("ReduceMean", ["q", "axes"], ["v"]),
        helper.make_node("Add", ["v", "eps"], ["e"]),
        helper.make_node("Sqrt", ["e"], ["r"]),
        helper.make_node("Div", ["d", "r"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, [3, 8]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], consts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.random.default_rng(0).standard_normal([3, 8])
    y = np.asarray(aot.compile(model, tmp_path / "o", name="n").load()(x))
    d = x - x.mean(-1, keepdims=True)
    want = d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-2)
    assert np.abs(y - want).max() < 1e-12
