# SPDX-License-Identifier: Apache-2.0
"""Bounds of floats were computed without rounding: 10 * 0.7f is 6.99999988, but 7 as a float32.

A size that was computed so could be one more than the bound that memory was planned for.
"""

from __future__ import annotations

import numpy as np

from aot.load import LoadOptions, load
from graphs import model


def test_a_size_that_a_product_rounds_up() -> None:
    rows = [
        ("Shape", "x", "s"),
        ("Cast", "s", "f", {"to": 1}),
        ("Mul", "f factor", "m"),
        ("Floor", "m", "whole"),
        ("Cast", "whole", "n", {"to": 7}),
        ("Expand", "one n", "y"),
    ]
    factor = np.array([0.7], np.float32)
    consts = {"factor": factor, "one": np.ones(1, np.float32)}
    graph = model(rows, {"x": ["N"]}, {"y": None}, consts)
    bound = load(graph, LoadOptions(dims={"N": (1, 10)})).graph.outputs[0].shape
    most = max(int(np.floor(np.float32(n) * factor)[0]) for n in range(1, 11))
    assert most == 7
    assert bound is not None and list(bound) == [most]
