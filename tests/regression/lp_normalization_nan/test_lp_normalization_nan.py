# SPDX-License-Identifier: Apache-2.0
"""LpNormalization made zeros of a row with a NaN in it (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import aot


@pytest.mark.parametrize("p", [1, 2])
def test_a_nan_stays(p: int, tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3, 2]) for n in "xy"]
    node = helper.make_node("LpNormalization", ["x"], ["y"], axis=-1, p=p)
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    loaded = aot.compile(model, tmp_path / "o", name="n").load()
    y = np.asarray(loaded(np.array([[np.nan, 1.0], [0.0, 0.0], [0.0, 2.0]], np.float32)))
    assert np.isnan(y[0]).all() and y[1:].tolist() == [[0.0, 0.0], [0.0, 1.0]]
