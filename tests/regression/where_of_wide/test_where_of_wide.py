# SPDX-License-Identifier: Apache-2.0
"""A Where whose two choices are 16-bit quantised values of equal parameters.

The Where that was put between conversions took the type of its condition, bool, and the model was
refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import aot


def test_where_of_wide_values_compiles_and_agrees(tmp_path: Path) -> None:
    constants = [
        numpy_helper.from_array(np.array(3e-4, np.float32), "scale"),
        numpy_helper.from_array(np.array(-7, np.int16), "zero"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["a", "scale", "zero"], ["x"]),
        helper.make_node("DequantizeLinear", ["b", "scale", "zero"], ["y"]),
        helper.make_node("Where", ["choice", "x", "y"], ["z"]),
        helper.make_node("Split", ["z"], ["first", "second"], axis=0, num_outputs=2),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [
            info("choice", TensorProto.BOOL, (1, 5, 1)),
            info("a", TensorProto.INT16, (4, 1, 3)),
            info("b", TensorProto.INT16, (4, 5, 3)),
        ],
        [info("first", TensorProto.FLOAT, (2, 5, 3)), info("second", TensorProto.FLOAT, (2, 5, 3))],
        constants,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(proto)
    net = aot.compile(proto, tmp_path / "o", name="net").load()
    a = np.arange(12, dtype=np.int16).reshape(4, 1, 3)
    b = np.full((4, 5, 3), 1000, np.int16)
    choice = np.array([True, False, True, False, True]).reshape(1, 5, 1)
    results = net(choice, a, b)
    z = (np.where(choice, a, b) + np.float32(7)) * np.float32(3e-4)
    np.testing.assert_array_equal(np.concatenate(results), z)
