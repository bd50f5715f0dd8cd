# SPDX-License-Identifier: Apache-2.0
"""Transformed weights: a library has at most twice its weights and 1 MB of constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot


@pytest.mark.parametrize(("channels", "points"), [(80, {6}), (256, {4})])
def test_the_faster_weights_within_the_limit(
    channels: int, points: set[int], tmp_path: Path
) -> None:
    # Six points take four times the bytes of the weights; of 80 channels, within the megabyte.
    shape, nodes, weights = (1, channels, 32, 32), [], []
    for i in range(2):
        data = np.full((channels, channels, 3, 3), 0.5 + i, np.float32)
        weights.append(numpy_helper.from_array(data, f"w{i}"))
        nodes.append(helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"x{i + 1}"], pads=[1] * 4))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x0", "x2")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m")
    made = aot.compile(tmp_path / "m", tmp_path / "out", target="x86-64-v3", configure=False)
    size, given = made.manifest["memory"]["constants_bytes"], 2 * channels * channels * 36
    assert size <= 2 * given + (1 << 20)
    assert {n["instance"]["T"] for n in made.manifest["nodes"] if "T" in n["instance"]} == points
