# SPDX-License-Identifier: Apache-2.0
"""Sums of hundreds of products were one chain in recurrent layers and transposed convolutions and,
with `--accuracy strict`, in convolutions: they erred up to five times as much as onnxruntime's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot

K, N = 1536, 48
NODES = {
    "Conv": ("Conv(x, w)", (1, K, 1, 8), (N, K, 1, 1)),
    "ConvTranspose": ("ConvTranspose(x, w)", (1, K, 1, 8), (K, N, 1, 1)),
    "RNN": ('RNN<activations = ["Relu"], hidden_size = 48>(x, w, r)', (8, 1, K), (1, N, K)),
}


def error(found: Any, exact: Any) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2)))


@pytest.mark.parametrize(
    ("kind", "accuracy"),
    [("Conv", "strict"), ("ConvTranspose", "normal"), ("RNN", "normal"), ("RNN", "strict")],
)
def test_a_long_sum_is_cut(kind: str, accuracy: Any, tmp_path: Path) -> None:
    node, x_shape, w_shape = NODES[kind]
    rng = np.random.default_rng(5)
    rows = np.abs(rng.standard_normal((8, K), np.float32))
    weights = rng.standard_normal((K, N), np.float32)
    w = (weights if kind == "ConvTranspose" else weights.T).reshape(w_shape)
    size = ",".join(map(str, x_shape))
    head = '<ir_version: 8, opset_import: ["" : 20]>'
    proto = onnx.parser.parse_model(f"{head} g (float[{size}] x) => (float y) {{ y = {node} }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    # With no recurrent weights a step's state is the sum of its own products.
    given = {"w": w, "r": np.zeros((1, N, N), np.float32)}
    named = [onnx.numpy_helper.from_array(a, n) for n, a in given.items()]
    proto.graph.initializer.extend(i for i in named if i.name in proto.graph.node[0].input)
    x = np.ascontiguousarray(rows if kind == "RNN" else rows.T).reshape(x_shape)
    found = np.asarray(aot.compile(proto, tmp_path / "o", name="n", accuracy=accuracy).load()(x))
    y = found.reshape(8, N) if kind == "RNN" else found.reshape(N, 8).T
    exact = rows.astype(np.float64) @ weights.astype(np.float64)
    products = rows[:, :, None] * weights
    chain = np.add.accumulate(products, axis=1, dtype=np.float32)[:, -1]
    if kind == "RNN":
        exact, chain = np.maximum(exact, 0), np.maximum(chain, 0)
    assert error(y, exact) < 0.45 * error(chain, exact)
