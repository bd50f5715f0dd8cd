# SPDX-License-Identifier: Apache-2.0
"""A convolution whose result an Add or Mul repeats took the sum's shape for its own.

It read beyond the image (portable C, accel_sim), or the library refused it when the bundle began
(dnnl): gates of squeeze-and-excitation are such. So did a MatMul of one column.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import aot
from graphs import model

#: Extents of x, w and the other operand: repeated along an image, channels, a batch, a new axis.
SHAPES = {
    "image": ([1, 2, 1, 1], (2, 2, 1, 1), [1, 2, 4, 2]),
    "channels": ([1, 2, 4, 4], (1, 2, 1, 1), [1, 3, 4, 4]),
    "batch": ([1, 2, 4, 4], (3, 2, 3, 3), [5, 3, 2, 2]),
    "axis": ([1, 2, 4, 4], (3, 2, 3, 3), [2, 1, 3, 2, 2]),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("backend", ["", "accel_sim", "dnnl"])
@pytest.mark.parametrize("ops", ["Add", "Relu Add", "Sigmoid Mul"])
@pytest.mark.parametrize("what", SHAPES)
def test_a_product_that_is_repeated(backend: str, ops: str, what: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, w, r = (rng.standard_normal(s).astype(np.float32) for s in SHAPES[what])
    *act, join = ops.split()
    rows = [("Conv", "x w", "v0"), *((a, "v0", "v1") for a in act), (join, f"v{len(act)} r", "y")]
    proto = model(rows, {"x": list(x.shape), "r": list(r.shape)}, {"y": None}, {"w": w})
    want = ReferenceEvaluator(proto).run(None, {"x": x, "r": r})[0]
    backends = (backend,) if backend else ()
    got = aot.compile(proto, tmp_path / "out", name="n", backends=backends).load()(x, r)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.sample(4)
@pytest.mark.parametrize("backend", ["", "accel_sim", "cblas", "dnnl"])
@pytest.mark.parametrize("ops", ["Add", "Add Relu", "Relu Mul"])
@pytest.mark.parametrize("op, rows", [("MatMul", [5]), ("MatMul", [2, 5]), ("Gemm", [5])])
def test_a_column_that_is_repeated(
    backend: str, ops: str, op: str, rows: list[int], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    x, w, r = (
        rng.standard_normal(s).astype(np.float32) for s in ((*rows, 33), (33, 1), (*rows, 4))
    )
    chain = [(op, "x w", "v0")]
    for i, name in enumerate(ops.split()):
        ends = f"v{i} r" if name in ("Add", "Mul") else f"v{i}"
        chain.append((name, ends, f"v{i + 1}"))
    chain[-1] = (*chain[-1][:2], "y")
    proto = model(chain, {"x": list(x.shape), "r": list(r.shape)}, {"y": None}, {"w": w})
    want = ReferenceEvaluator(proto).run(None, {"x": x, "r": r})[0]
    backends = (backend,) if backend else ()
    got = aot.compile(proto, tmp_path / "out", name="n", backends=backends).load()(x, r)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
