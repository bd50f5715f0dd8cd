# SPDX-License-Identifier: Apache-2.0
"""A convolution by Winograd's algorithm that threads share: the sum of two rounded products in its
output transform was contracted one way in the part and the other way in the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import aot
import graphs

SHAPES = {"a": (40, 96, 3, 5), "b": (64, 40, 5, 5)}


def test_the_bits_of_a_bundle_without_threads(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weights = {
        k: (rng.standard_normal(s) / np.prod(s[1:]) ** 0.5).astype(np.float32)
        for k, s in SHAPES.items()
    }
    nodes = [
        ("Conv", "x a", "h", {"pads": [1, 2, 1, 2]}),
        ("Relu", "h", "i", {}),
        ("Conv", "i b", "y", {"pads": [2, 2, 2, 2]}),
    ]
    model = graphs.model(nodes, {"x": (1, 96, 18, 17)}, {"y": (1, 64, 18, 17)}, weights)
    x = rng.standard_normal((1, 96, 18, 17)).astype(np.float32)
    results = []
    for threads in (1, 2):
        out = tmp_path / str(threads)
        bundle = aot.compile(model, out, target="x86-64-v3", threads=threads)
        kernels = [n["kernel"] for n in bundle.manifest["nodes"]]
        assert kernels.count("aot_winograd_f32_blocked") == 2
        results.append(np.asarray(bundle.load()(x)))
    assert np.array_equal(*results)
