# SPDX-License-Identifier: Apache-2.0
"""Attention took a query of NaN for one without keys and gave zeros (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

import aot


def test_a_nan_stays(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    ends = [info(n, TensorProto.FLOAT, [1, 1, 3, 4]) for n in "qkvy"]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    graph = helper.make_graph([node], "g", ends[:3], ends[3:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=12)
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 1, 3, 4)).astype(np.float32)
    loaded = aot.compile(model, tmp_path / "o", name="n").load()
    whole = np.asarray(loaded(q, k, v))
    q[0, 0, 1, 2] = np.nan
    y = np.asarray(loaded(q, k, v))
    assert np.isnan(y[0, 0, 1]).all()
    assert (y[0, 0, [0, 2]] == whole[0, 0, [0, 2]]).all()
