# SPDX-License-Identifier: Apache-2.0
"""A product added to itself is no product with a residual.

The wildcard of `Conv(x, w) + r` was bound to that same convolution, whose sum the fused kernel
never stores: the compiler stopped with a KeyError.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import aot
from graphs import model

RNG = np.random.default_rng(0)
WEIGHTS = {
    "w": RNG.standard_normal((4, 3, 3, 3)).astype(np.float32),
    "m": RNG.standard_normal((6, 4)).astype(np.float32),
}


@pytest.mark.parametrize(
    "rows",
    [
        [("Conv", "x w", "c"), ("Add", "c c", "y")],
        [("Conv", "x w", "c"), ("Add", "c c", "d"), ("Relu", "d", "y")],
        [("MatMul", "x m", "c"), ("Add", "c c", "y")],
    ],
)
def test_a_product_added_to_itself(tmp_path: Path, rows: list[tuple]) -> None:
    out = [1, 4, 3, 4] if rows[0][0] == "Conv" else [1, 3, 5, 4]
    used = {name: w for name, w in WEIGHTS.items() if name in rows[0][1].split()}
    proto = model(rows, {"x": [1, 3, 5, 6]}, {"y": out}, used)
    x = RNG.standard_normal((1, 3, 5, 6)).astype(np.float32)
    got = aot.compile(proto, tmp_path / "out").load()(x)
    want = ReferenceEvaluator(proto).run(None, {"x": x})[0]
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
