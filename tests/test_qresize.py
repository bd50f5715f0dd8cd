# SPDX-License-Identifier: Apache-2.0
"""Resizing of codes on integers against onnx.reference in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from needs import need_module
from quant_graphs import S8, Net

RNG = np.random.default_rng(7)
KERNELS = {"aot_qresize_s8", "aot_from_blocked", "aot_to_blocked"}


def resized(model: onnx.ModelProto, x: np.ndarray, tmp_path: Path) -> np.ndarray:
    """What the compiled model makes of x; only the resizing runs, on codes."""
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    assert {n["kernel"].split("__")[0] for n in bundle.manifest["nodes"]} <= KERNELS
    return np.asarray(bundle.load()(x))


@pytest.mark.parametrize(("mode", "same"), [("linear", 1), ("linear", 0), ("cubic", 0)])
def test_codes_are_those_of_float32(mode: str, same: int, tmp_path: Path) -> None:
    """One rounding of exact sums; where the real result is a half, those of onnxruntime."""
    shape = (1, 6, 20, 24)
    net = Net(x=(S8, shape))
    sizes = np.array([1, 6, 40, 48] if same else [1, 6, 33, 31], np.int64)
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": "half_pixel"}
    y = net.add("Resize", net.dq("x", 0.037, S8(5)), "", "", sizes, **attrs)
    net.q(y, 0.037 if same else 0.0313, S8(5), out="y")
    model = net.model(y=S8)
    x = RNG.integers(-128, 128, shape).astype(np.int8)
    got = resized(model, x, tmp_path).astype(int)
    want = rounded(model, x)
    assert np.abs(got - want).max() <= 1
    assert np.mean(got != want) <= 0.001


def rounded(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """What onnxruntime computes, node by node."""
    need_module("onnxruntime")
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {"x": x})[0].astype(int)
