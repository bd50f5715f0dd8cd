# SPDX-License-Identifier: Apache-2.0
"""Col2Im of infinities gave NaN in elements that no infinite block touches (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import aot


def test_an_infinity_stays_where_its_block_lies(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    x = np.ones((1, 4, 4), np.float32)
    x[0, 0, 0], x[0, 3, 3] = np.inf, -np.inf
    consts = [numpy_helper.from_array(np.array(v), n) for n, v in (("i", [3, 3]), ("b", [2, 2]))]
    graph = helper.make_graph(
        [helper.make_node("Col2Im", ["x", "i", "b"], ["y"])],
        "g",
        [info("x", TensorProto.FLOAT, [1, 4, 4])],
        [info("y", TensorProto.FLOAT, [1, 1, 3, 3])],
        consts,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    y = np.asarray(aot.compile(model, tmp_path / "o", name="g").load()(x))
    expected = np.array([[np.inf, 2, 1], [2, 4, 2], [1, 2, -np.inf]], np.float32)
    assert np.array_equal(y, expected[None, None])
