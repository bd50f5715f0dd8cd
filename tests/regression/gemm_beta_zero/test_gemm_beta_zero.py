# SPDX-License-Identifier: Apache-2.0
"""Gemm with beta 0 multiplied a C of NaN by it instead of leaving it out (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot


@pytest.mark.parametrize("constant", [True, False])
def test_c_is_not_read(constant: bool, tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    a, c = np.ones((2, 3), np.float32), np.full((2, 4), np.nan, np.float32)
    b = np.arange(12, dtype=np.float32).reshape(3, 4)
    ends = [info("a", TensorProto.FLOAT, [2, 3]), info("c", TensorProto.FLOAT, [2, 4])]
    consts = [numpy_helper.from_array(b, "b"), numpy_helper.from_array(c, "c")]
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["a", "b", "c"], ["y"], beta=0.0)],
        "g",
        ends[:1] if constant else ends,
        [info("y", TensorProto.FLOAT, [2, 4])],
        consts if constant else consts[:1],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    loaded = aot.compile(model, tmp_path / "o", name="g").load()
    y = loaded(a) if constant else loaded(a, c)
    assert np.array_equal(np.asarray(y), a @ b)
