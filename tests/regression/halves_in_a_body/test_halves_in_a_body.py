# SPDX-License-Identifier: Apache-2.0
"""A body with operators of float16 ended in a KeyError: only the outer graph names its opset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import numpy_helper, parser

import aot

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (bool c, float16[2, 3] x) => (float16[2, 4] y) {
    y = If (c) <then_branch = t () => (float16[2, 4] u) {
        p = MatMul(x, w)
        u = Relu(p)
    }, else_branch = e () => (float16[2, 4] v) {
        q = MatMul(x, w)
        v = Neg(q)
    }>
}"""


def test_both_branches_are_right(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    w, x = (draw.standard_normal(s).astype(np.float16) for s in ((3, 4), (2, 3)))
    model = parser.parse_model(TEXT)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    loaded = aot.compile(model, tmp_path / "o", name="n").load()
    product = x.astype(np.float32) @ w.astype(np.float32)
    for chosen, want in ((True, np.maximum(product, 0)), (False, -product)):
        got = np.asarray(loaded(np.array(chosen), x)).astype(np.float32)
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
