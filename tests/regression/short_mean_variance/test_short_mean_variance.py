# SPDX-License-Identifier: Apache-2.0
"""MeanVarianceNormalization of float16 over one inner axis was refused (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

import aot


def test_any_axes_of_short_floats(tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, [2, 5, 3]) for n in "xy"]
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"], axes=[1])
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.random.default_rng(0).standard_normal([2, 5, 3]).astype(np.float16)
    y = np.asarray(aot.compile(model, tmp_path / "o", name="n").load()(x))
    wide = x.astype(np.float64)
    want = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True)
    assert y.dtype == np.float16 and np.abs(y - want).max() < 2e-3
