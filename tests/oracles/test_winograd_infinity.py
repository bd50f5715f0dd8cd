# SPDX-License-Identifier: Apache-2.0
"""How far an infinity in the input of a 3x3 convolution reaches, as docs/oracles.md says."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot

ROW, COLUMN, REACH = 11, 9, 5
CHANNELS = 80  # more than EXACT_PRODUCTS of aot/ops/conv_winograd.py: 6 points


@pytest.mark.parametrize("accuracy", ["normal", "strict"])
def test_an_infinity_reaches_its_tile_or_its_windows(
    accuracy: Literal["normal", "strict"], tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, CHANNELS, 24, 24), np.float32)
    w = rng.standard_normal((CHANNELS, CHANNELS, 3, 3), np.float32)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        "net",
        [info("x", TensorProto.FLOAT, x.shape)],
        [info("y", TensorProto.FLOAT, (1, CHANNELS, 24, 24))],
        [numpy_helper.from_array(w, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x[0, 7, ROW, COLUMN] = np.inf
    made = aot.compile(proto, tmp_path / "o", name="net", target="x86-64-v3", accuracy=accuracy)
    kernels = {n["kernel"] for n in made.manifest["nodes"]}
    assert ("aot_winograd_f32_blocked" in kernels) == (accuracy == "normal")
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    y = np.asarray(made.load()(x))
    rows, columns = np.indices(x.shape[2:])
    near = np.maximum(abs(rows - ROW), abs(columns - COLUMN))
    far = near > (REACH if accuracy == "normal" else 1)
    np.testing.assert_allclose(y[..., far], expected[..., far], rtol=1e-3, atol=1e-3)
    assert np.isnan(y[..., (near > 1) & ~far]).any() == (accuracy == "normal")
    if accuracy == "strict":
        np.testing.assert_array_equal(np.isfinite(y), np.isfinite(expected))
