# SPDX-License-Identifier: Apache-2.0
"""A linear Resize of 8-bit integers, as quantised models have between QLinear operators, was
refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot
from aot.errors import AotError
from needs import need_module


def resized(dtype: int, factor: float) -> onnx.ModelProto:
    """Two channels of 5 x 7 integers, `factor` times as high and twice as wide."""
    nodes = [helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear", name="wider")]
    ends = [
        helper.make_tensor_value_info("x", dtype, [1, 2, 5, 7]),
        helper.make_tensor_value_info("y", dtype, [1, 2, int(5 * factor), 14]),
    ]
    scales = numpy_helper.from_array(np.array([1, 1, factor, 2], np.float32), "s")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [scales])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", ["uint8", "int8"])
def test_results_lose_their_fraction(name: str, tmp_path: Path) -> None:
    ort = need_module("onnxruntime")
    model = resized(TensorProto.UINT8 if name == "uint8" else TensorProto.INT8, 4.0)
    limits = np.iinfo(name)
    x = np.random.default_rng(5).integers(limits.min, limits.max + 1, (1, 2, 5, 7)).astype(name)
    want = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    assert np.array_equal(aot.compile(model, tmp_path / "o").load()(x), want)


def test_weights_that_float32_rounds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AotError, match="uint8 with weights that are no multiples of 1/256"):
        aot.compile(resized(TensorProto.UINT8, 1.3), tmp_path / "o")
