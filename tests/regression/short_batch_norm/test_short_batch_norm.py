# SPDX-License-Identifier: Apache-2.0
"""A float16 BatchNormalization whose shift is beyond float16 gave infinities (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import aot


def test_a_shift_beyond_float16(tmp_path: Path) -> None:
    values = {"gamma": 4.0, "beta": 1.0, "mean": 30000.0, "var": 1.0}
    consts = [numpy_helper.from_array(np.full(3, v, np.float16), n) for n, v in values.items()]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, [1, 3, 2]) for n in "xy"]
    node = helper.make_node("BatchNormalization", ["x", *values], ["y"])
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], consts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.full([1, 3, 2], 30000.0, np.float16)
    x[..., 1] = 30016.0
    y = np.asarray(aot.compile(model, tmp_path / "o", name="n").load()(x))
    assert np.abs(y[..., 0] - 1.0).max() < 0.1 and np.abs(y[..., 1] - 65.0).max() < 0.2
