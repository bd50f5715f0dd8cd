# SPDX-License-Identifier: Apache-2.0
"""A number added to a product of computed quantised values, an activation behind it, stopped the
compiler.

The check for a bias that is a row asked for the last extent of a value that has no axes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import aot
from graphs import model


@pytest.mark.sample(3)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
@pytest.mark.parametrize("constant", [True, False])
def test_a_bias_of_one_number(shape: tuple[int, ...], constant: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-100, 100, s).astype(np.int8) for s in ((3, 17), (17, 5)))
    b = np.full(shape, 0.3, np.float32)
    named = {"s": np.float32(0.01), "z": np.int8(0), "t": np.float32(0.004)}
    rows = [
        ("DequantizeLinear", "x s z", "xf"),
        ("DequantizeLinear", "w s z", "wf"),
        ("MatMul", "xf wf", "dot"),
        ("Add", "dot b", "sum"),
        ("Relu", "sum", "act"),
        ("QuantizeLinear", "act t z", "y"),
    ]
    inputs = {"x": list(x.shape), "w": list(w.shape)} | ({} if constant else {"b": list(shape)})
    consts = {k: np.asarray(v) for k, v in named.items()} | ({"b": b} if constant else {})
    proto = model(rows, inputs, {"y": None}, consts, dict.fromkeys("xwy", TensorProto.INT8))
    feeds = {"x": x, "w": w} | ({} if constant else {"b": b})
    want = ReferenceEvaluator(proto).run(None, feeds)[0]
    got = aot.compile(proto, tmp_path / "out", name="n").load()(*feeds.values())
    assert got.shape == want.shape
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
