# SPDX-License-Identifier: Apache-2.0
"""The channels of quantised images were shuffled among groups by way of an array of 16 places,
which more than 16 channels overran."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import aot
from needs import need_module
from quant_graphs import Net, i64, quantised_values


def shuffled(channels: int) -> Net:
    """A convolution, its channels shuffled among two groups, and a depthwise convolution."""
    net = Net(x=("int8", [1, channels, 3, 5]))

    def layer(x: str, side: int, group: int, out: str | None = None) -> str:
        weights = net.dq(
            quantised_values(channels, channels // group, side, side), 0.01, np.int8(0)
        )
        sums = net.add(
            "Conv", net.dq(x, 0.05, np.int8(3)), weights, pads=[side // 2] * 4, group=group
        )
        return net.q(sums, 0.5, np.int8(3), out)

    split = net.add("Reshape", layer("x", 1, 1), i64(1, 2, channels // 2, 3, 5))
    turned = net.add("Transpose", split, perm=[0, 2, 1, 3, 4])
    layer(net.add("Reshape", turned, i64(1, channels, 3, 5)), 3, channels, out="y")
    return net


def test_more_channels_than_a_vector_has_lanes(tmp_path: Path) -> None:
    ort = need_module("onnxruntime")
    x, model = quantised_values(1, 90, 3, 5), shuffled(90).model(y="int8")
    plain = ort.SessionOptions()
    plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    want = ort.InferenceSession(model.SerializeToString(), plain).run(None, {"x": x})[0]
    got = aot.compile(model, tmp_path / "o").load()(x)
    assert np.abs(got.astype(int) - want).max() <= 1
