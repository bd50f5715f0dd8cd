# SPDX-License-Identifier: Apache-2.0
"""ReduceL2 and ReduceLogSumExp over no axes squared, and took the exponential of, what is as large
already: infinity where the result is the element itself (found by fuzzing).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import aot

WANT: dict[str, Any] = {
    "ReduceL1": np.abs,
    "ReduceL2": np.abs,
    "ReduceLogSum": np.log,
    "ReduceLogSumExp": lambda x: x,
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("op", WANT)
@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.FLOAT])
def test_an_element_is_its_own_norm(op: str, kind: int, tmp_path: Path) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    most = 30000.0 if dtype == np.float16 else 1e30
    x = np.array([[0.5, most], [2.0, 1.0 if "LogSum" in op else -most]], dtype)
    nodes = [
        helper.make_node(op, ["x"], ["y"], noop_with_empty_axes=1, keepdims=0),
        helper.make_node(op, ["x"], ["t"], noop_with_empty_axes=1),
        helper.make_node("Neg", ["t"], ["z"]),
    ]
    ends = [helper.make_tensor_value_info(n, kind, [2, 2]) for n in "xyz"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    y, z = map(np.asarray, aot.compile(model, tmp_path / "o", name="g").load()(x))
    want = WANT[op](x)
    assert np.isfinite(want).all()
    assert np.allclose(y, want, rtol=2e-3) and np.array_equal(z, -y)
