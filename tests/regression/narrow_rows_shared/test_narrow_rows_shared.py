# SPDX-License-Identifier: Apache-2.0
"""Several rows times weights of 4 bits, whose columns threads or steps share: a part's rows were
written behind each other, as if the result had the columns of the part alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

import aot

K, N = 128, 333


@pytest.mark.parametrize("options", [{"threads": 2}, {"slice_macs": 200000}])
def test_columns_that_are_shared(options: dict[str, int], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    weights = {
        "q": rng.integers(0, 256, (N, K // 32, 16)).astype(np.uint8),
        "s": rng.standard_normal(N * K // 32).astype(np.float32),
    }
    row = {"K": K, "N": N, "bits": 4, "block_size": 32}
    node = helper.make_node("MatMulNBits", ["x", "q", "s"], ["y"], domain="com.microsoft", **row)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, [37, K])],
        [helper.make_tensor_value_info("y", 1, [37, N])],
        [numpy_helper.from_array(a, name) for name, a in weights.items()],
    )
    domains = [helper.make_opsetid(d, v) for d, v in (("", 17), ("com.microsoft", 1))]
    model = helper.make_model(graph, opset_imports=domains, ir_version=9)
    x = rng.standard_normal((37, K)).astype(np.float32)
    results = []
    for i, more in enumerate(({}, options)):
        bundle = aot.compile(model, tmp_path / str(i), target="host", **more)  # type: ignore[arg-type]
        assert [n["kernel"] for n in bundle.manifest["nodes"]] == ["aot_gemm_f32_narrow"]
        results.append(bundle.load()(x))
    assert np.array_equal(*results)
