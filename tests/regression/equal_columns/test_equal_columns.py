# SPDX-License-Identifier: Apache-2.0
"""Equal columns of a matrix product must give equal bits, wherever they stand.

A softmax over large equal logits used to favour the last panel of columns, which added up in
another order than the others (light_resnet50: all probability on 40 of 1000 classes).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aot
from graphs import model


@pytest.mark.sample(3)
@pytest.mark.parametrize("columns", [1000, 40, 70])
@pytest.mark.parametrize("rows", [1, 5])
def test_equal_columns_give_equal_bits(columns: int, rows: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    depth = 777
    w = np.repeat(rng.uniform(1e3, 1e8, (depth, 1)).astype(np.float32), columns, axis=1)
    proto = model([("MatMul", "x w", "y")], {"x": [rows, depth]}, {"y": None}, {"w": w})
    bundle = aot.compile(proto, tmp_path / "out", target="host", name="net")
    bundle.build()
    x = rng.uniform(0, 1e4, (rows, depth)).astype(np.float32)
    y = bundle.load()(x)
    assert y.shape == (rows, columns)
    np.testing.assert_array_equal(y, np.repeat(y[:, :1], columns, axis=1))
