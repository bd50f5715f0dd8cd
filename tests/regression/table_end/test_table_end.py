# SPDX-License-Identifier: Apache-2.0
"""A table of 16-bit quantised values one off beside its last code wrapped around (found by
fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import aot


def test_every_code_of_a_saturated_table(tmp_path: Path) -> None:
    consts = [("s", np.float32(6.237602e-05)), ("z", np.int16(0)), ("t", np.float32(5.2435341e-05))]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("HardSwish", ["a"], ["b"]),
        helper.make_node("QuantizeLinear", ["b", "t", "z"], ["y"]),
    ]
    x = np.arange(-32768, 32768).astype(np.int16)
    ends = [helper.make_tensor_value_info(n, TensorProto.INT16, x.shape) for n in "xy"]
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in consts]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    y = np.asarray(aot.compile(model, tmp_path / "o", name="n").load()(x)).astype(np.int64)
    real = x.astype(np.float64) * consts[0][1]
    want = np.rint(real * np.clip(real / 6 + 0.5, 0, 1) / consts[2][1]).clip(-32768, 32767)
    assert np.abs(y - want).max() <= 1
