# SPDX-License-Identifier: Apache-2.0
"""`multi_class` 1, which skl2onnx writes for every LogisticRegression of many classes, was refused.

onnxruntime and onnx.reference compute the same with 0 and with 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import aot

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("post", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_against_both_oracles(post: str, tmp_path: Path) -> None:
    x = RNG.standard_normal((6, 4)).astype(np.float32)
    node = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        coefficients=[float(v) for v in RNG.standard_normal(12)],
        intercepts=[0.5, -0.25, 0.125],
        classlabels_ints=[4, 2, 9],
        multi_class=1,
        post_transform=post,
    )
    ends = [helper.make_tensor_value_info(n, k, None) for n, k in (("label", 7), ("scores", 1))]
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, [6, 4])], ends)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=8)
    ours = aot.compile(proto, tmp_path, name="net").load()(x)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for theirs in (session.run(None, {"x": x}), ReferenceEvaluator(proto).run(None, {"x": x})):
        assert np.array_equal(ours[0], theirs[0])
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5, atol=1e-6)
