# SPDX-License-Identifier: Apache-2.0
"""A value that a vendor's region converts for itself and that the next region reads so, too: the
fallback of the first region did not write it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import aot
from aot.tools.run import execute, open_out


def test_the_fallback_writes_what_its_region_converts(tmp_path: Path) -> None:
    rng, node = np.random.default_rng(0), helper.make_node
    kernels = [(128, 3, 3, 3), (128, 128, 3, 3), (128, 128, 3, 3)]
    weights = [(rng.standard_normal(s) / 30).astype(np.float32) for s in kernels]
    nodes = [
        node("Conv", ["x", "w0"], ["a"], pads=[1] * 4),
        node("Conv", ["a", "w1"], ["b"], pads=[1] * 4),
        node("Cos", ["b"], ["c"]),
        node("Conv", ["c", "w2"], ["d"], pads=[1] * 4),
        node("Add", ["d", "a"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [1, 3, 5, 5])],
        [helper.make_tensor_value_info("y", 1, [1, 128, 5, 5])],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    x = rng.standard_normal((1, 3, 5, 5)).astype(np.float32)
    out = tmp_path / "out"
    aot.compile(model, out, target="x86-64-v3", backends=["dnnl"], configure=False)
    for words in (["-S", out / "bundle", "-B", out, "-DAOT_DNNL=OFF"], ["--build", out]):
        subprocess.run(["cmake", *words], check=True, capture_output=True)
    (got,) = execute(open_out(out), [x])
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
