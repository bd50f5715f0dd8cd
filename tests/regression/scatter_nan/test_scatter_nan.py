# SPDX-License-Identifier: Apache-2.0
"""ScatterND with reduction min or max dropped a NaN among the updates (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import aot


@pytest.mark.parametrize("reduction", ["min", "max"])
def test_a_nan_stays(reduction: str, tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    ends = [info("x", TensorProto.FLOAT, [3]), info("i", TensorProto.INT64, [3, 1])]
    ends.append(info("u", TensorProto.FLOAT, [3]))
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)
    graph = helper.make_graph([node], "g", ends, [info("y", TensorProto.FLOAT, [3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    loaded = aot.compile(model, tmp_path / "o", name="n").load()
    x = np.array([1.0, np.nan, 2.0], np.float32)
    u = np.array([np.nan, 5.0, 7.0], np.float32)
    y = np.asarray(loaded(x, np.array([[0], [1], [2]]), u))
    assert np.isnan(y[:2]).all() and y[2] == (2.0 if reduction == "min" else 7.0)
