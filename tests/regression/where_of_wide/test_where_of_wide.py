# SPDX-License-Identifier: Apache-2.0
"""A Where whose two choices are 16-bit quantised values of equal parameters.

The Where that was put between conversions took the type of its condition, bool. Where another pass
made types be checked again, unrolling a Loop for one, the model was refused.
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
        numpy_helper.from_array(np.array(1), "trips"),
        numpy_helper.from_array(np.array(True), "going"),
    ]
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "state"], ["next"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            info("step", TensorProto.INT64, ()),
            info("go", TensorProto.BOOL, ()),
            info("state", TensorProto.FLOAT, (5,)),
        ],
        [info("on", TensorProto.BOOL, ()), info("next", TensorProto.FLOAT, (5,))],
    )
    nodes = [
        helper.make_node("DequantizeLinear", ["a", "scale", "zero"], ["x"]),
        helper.make_node("DequantizeLinear", ["b", "scale", "zero"], ["y"]),
        helper.make_node("Where", ["choice", "x", "y"], ["z"]),
        helper.make_node("Concat", ["x", "z"], ["all"], axis=2),
        helper.make_node("Split", ["all"], ["first", "second"], axis=1, num_outputs=2),
        helper.make_node("Loop", ["trips", "going", "c"], ["d"], body=body),
        helper.make_node("Sqrt", ["d"], ["e"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [
            info("choice", TensorProto.BOOL, (1, 6, 3, 4)),
            info("a", TensorProto.INT16, (1, 6, 3, 4)),
            info("b", TensorProto.INT16, (6, 1, 1)),
            info("c", TensorProto.FLOAT, (5,)),
        ],
        [
            info("first", TensorProto.FLOAT, (1, 3, 6, 4)),
            info("second", TensorProto.FLOAT, (1, 3, 6, 4)),
            info("e", TensorProto.FLOAT, (5,)),
        ],
        constants,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(proto)
    net = aot.compile(proto, tmp_path / "o", name="net").load()
    a = np.arange(72, dtype=np.int16).reshape(1, 6, 3, 4)
    b = np.arange(1000, 1006, dtype=np.int16).reshape(6, 1, 1)
    choice = a % 3 == 0
    *results, root = net(choice, a, b, np.full(5, 8, np.float32))
    both = np.concatenate([a, np.where(choice, a, b)], axis=2)
    expected = (both + np.float32(7)) * np.float32(3e-4)
    np.testing.assert_array_equal(np.concatenate(results, axis=1), expected)
    np.testing.assert_array_equal(root, np.full(5, 4, np.float32))
