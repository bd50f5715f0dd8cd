# SPDX-License-Identifier: Apache-2.0
"""Blocks of ConvNeXt: normalised channels between convolutions, the same bits by threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import aot
import graphs

BACK, FRONT = [0, 2, 3, 1], [0, 3, 1, 2]


def block(channels: int, size: tuple[int, int], rng: np.random.Generator) -> onnx.ModelProto:
    wide = 3 * channels
    weights = {
        "a": rng.standard_normal((channels, 1, 7, 7)) / 7,
        "s": rng.standard_normal(channels),
        "b": rng.standard_normal(channels),
        "v": rng.standard_normal((channels, wide)) / channels**0.5,
        "c": rng.standard_normal(wide),
        "w": rng.standard_normal((wide, channels)) / wide**0.5,
        "g": rng.standard_normal((channels, 1, 1)),
    }
    nodes = [
        ("Conv", "x a", "d", {"group": channels, "pads": [3] * 4}),
        ("Transpose", "d", "t", {"perm": BACK}),
        ("LayerNormalization", "t s b", "n", {"epsilon": 1e-6}),
        ("MatMul", "n v", "h", {}),
        ("Add", "h c", "i", {}),
        ("Gelu", "i", "j", {}),
        ("MatMul", "j w", "k", {}),
        ("Transpose", "k", "f", {"perm": FRONT}),
        ("Mul", "f g", "l", {}),
        ("Add", "l x", "y", {}),
    ]
    shape = (1, channels, *size)
    constants = {k: v.astype(np.float32) for k, v in weights.items()}
    return graphs.model(nodes, {"x": shape}, {"y": shape}, constants)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
def test_the_bits_of_threads_and_slices(tmp_path: Path, target: str) -> None:
    rng = np.random.default_rng(7)
    model = block(21, (9, 7), rng)
    x = rng.standard_normal((1, 21, 9, 7)).astype(np.float32)
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    results = []
    for i, more in enumerate(({}, {"threads": 2}, {"slice_macs": 2000})):
        bundle = aot.compile(model, tmp_path / str(i), target=target, **more)
        kernels = [n["kernel"] for n in bundle.manifest["nodes"]]
        assert "aot_channelnorm_f32" in kernels
        assert not {"aot_transpose", "aot_gemm_f32", "aot_layernorm_f32"} & set(kernels)
        results.append(np.asarray(bundle.load()(x)))
    assert all(np.array_equal(r, results[0]) for r in results)
    np.testing.assert_allclose(results[0], want, rtol=1e-4, atol=1e-5)
