# SPDX-License-Identifier: Apache-2.0
"""A GRU whose state has an infinity gave NaN in units that it does not reach: zeros that pad the
weights of two gates were multiplied with it and added to the third (found by fuzzing).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot

HIDDEN = 4


@pytest.mark.parametrize("after", [0, 1])
def test_an_infinity_stays_in_its_unit(after: int, tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    rng = np.random.default_rng(0)
    w, r = (rng.standard_normal((1, 3 * HIDDEN, n)).astype(np.float32) for n in (2, HIDDEN))
    r[0, 2 * HIDDEN :, 3] = 0.25  # no candidate is of the other sign
    r[0, : 2 * HIDDEN, 3] = 0.5  # both gates of all units become one
    h0 = np.array([[[0.5, -0.5, 0.25, np.inf]]], np.float32)
    names = ["x", "w", "r", "", "", "h"]
    node = helper.make_node(
        "GRU", names, ["y"], hidden_size=HIDDEN, linear_before_reset=after, name="gru"
    )
    graph = helper.make_graph(
        [node],
        "g",
        [info("x", TensorProto.FLOAT, [1, 1, 2]), info("h", TensorProto.FLOAT, [1, 1, HIDDEN])],
        [info("y", TensorProto.FLOAT, [1, 1, 1, HIDDEN])],
        [numpy_helper.from_array(v, k) for k, v in (("w", w), ("r", r))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    loaded = aot.compile(model, tmp_path / "o", name="g").load()
    y = np.asarray(loaded(np.ones((1, 1, 2), np.float32), h0))
    # The update gate is one and the candidate tanh(inf) = 1: 0 * 1 + 1 * h.
    assert np.array_equal(y.ravel(), h0.ravel())
