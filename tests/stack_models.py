# SPDX-License-Identifier: Apache-2.0
"""Models with kernels that no operator's declared case reaches, for tests/stack_calls.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

sys.path[:0] = [str(Path(__file__).resolve().parent / "ops")]

import test_dynamic  # noqa: E402

import decoders  # noqa: E402
import shared_weights  # noqa: E402
from quant_graphs import S8, S32, Net, quantised_values  # noqa: E402


def ranged() -> Iterator[tuple[onnx.ModelProto, dict[str, tuple[int, int]]]]:
    """Models with ranges of dimensions: a decoder whose caches grow."""
    yield decoders.gpt2(), {decoders.PAST: (0, 15), decoders.LENGTH: (1, 4)}


def models() -> Iterator[onnx.ModelProto]:
    """Extents that the data decide, weights that nodes share, depthwise convolutions of quantised
    values."""
    yield from shared_weights.models()
    for rows in (1, 5):
        table, weights = (shared_weights.f32(n, 36) for n in (70, 36))
        yield shared_weights.halved(rows, table, weights)
    for build in test_dynamic.GRAPHS:
        graph = test_dynamic.Graph()
        build(graph)
        yield graph.model()
    for kernel, stride, channels in ((3, 1, 8), (3, 2, 8), (5, 1, 16), (3, 1, 6)):
        for low in (-20, -128):
            yield depthwise(kernel, stride, channels, low)


def depthwise(kernel: int, stride: int, channels: int, low: int) -> onnx.ModelProto:
    """One filter per channel, weights from `low` on: narrow quantised values have kernels of their
    own."""
    net = Net(x=(S8, (1, channels, 9, 12)))
    weights = np.maximum(quantised_values(channels, 1, kernel, kernel), S8(low))
    made = net.add(
        "Conv",
        net.dq("x", 0.03, S8(3)),
        net.dq(weights, 0.02, S8(0)),
        net.dq(np.arange(channels, dtype=S32), 0.0006, S32(0)),
        group=channels,
        strides=[stride, stride],
        pads=[kernel // 2] * 4,
    )
    net.q(made, 0.05, S8(-4), out="y")
    return net.model(y=S8)
