# SPDX-License-Identifier: Apache-2.0
"""A zero point of float8 that a run says was added, which ONNX and onnxruntime leave out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import aot
from aot.ir.dtypes import F8E4M3FN, F8E5M2, DType
from graphs import model


@pytest.mark.parametrize("dtype", [F8E4M3FN, F8E5M2], ids=str)
def test_it_is_ignored(dtype: DType, tmp_path: Path) -> None:
    kinds = {F8E4M3FN: TensorProto.FLOAT8E4M3FN, F8E5M2: TensorProto.FLOAT8E5M2}
    rows = [("QuantizeLinear", "x s z", "q"), ("DequantizeLinear", "q s", "y")]
    inputs: dict[str, list[int | str]] = {"x": [3, 7], "z": []}
    scale = {"s": np.array(0.5, np.float32)}
    proto = model(rows, inputs, {"y": None}, scale, {"z": kinds[dtype]}, opset=23)
    x = np.random.default_rng(0).standard_normal((3, 7)).astype(np.float32)
    one = np.ones((), dtype.numpy)
    want = ReferenceEvaluator(proto).run(None, {"x": x, "z": one})[0]
    got = aot.compile(proto, tmp_path / "out", name="n").load()(x, one.view(np.uint8))
    np.testing.assert_array_equal(got, want)
