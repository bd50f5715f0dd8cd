# SPDX-License-Identifier: Apache-2.0
"""Row by row, a constant with a number per channel was read behind its end: bytes were added to the
address of a table of floats, and products of all channels but the first were wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import aot

X, Y = (1, 3, 12, 5), (1, 4, 12, 5)


def test_product_before_a_convolution(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = (X, (1, 3, 1, 1), (4, 3, 1, 1))
    x, factor, w = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    nodes = [helper.make_node("Mul", ["x", "f"], ["m"]), helper.make_node("Conv", ["m", "w"], "y")]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", X), ("y", Y))]
    known = [numpy_helper.from_array(a, n) for a, n in ((factor, "f"), (w, "w"))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], known)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m")
    bundle = aot.compile(tmp_path / "m", tmp_path / "out", objective="ram", accuracy="strict")
    assert bundle.manifest["memory"]["by_rows"]
    want = np.einsum("oc,nchw->nohw", w[:, :, 0, 0], x * factor)
    np.testing.assert_allclose(np.asarray(bundle.build().load()(x)), want, rtol=1e-5, atol=1e-5)
