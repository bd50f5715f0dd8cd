# SPDX-License-Identifier: Apache-2.0
"""Attention took a query of NaN for one without keys and gave zeros (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

import aot
from graphs import model


def test_scores_of_infinities_have_no_softmax(tmp_path: Path) -> None:
    """Spelled out, without a mask: zeros, as if a mask had left out every key."""
    rows = [
        ("MatMul", "q k", "s"),
        ("Mul", "s half", "t"),
        ("Softmax", "t", "p"),
        ("MatMul", "p v", "y"),
    ]
    shapes = {"q": [1, 1, 3, 4], "k": [1, 1, 4, 3], "v": [1, 1, 3, 4]}
    proto = model(rows, shapes, {"y": None}, {"half": np.array(0.5, np.float32)})
    q, k, v = (np.ones(s, np.float32) for s in shapes.values())
    q[0, 0, 1, 2] = -np.inf
    y = np.asarray(aot.compile(proto, tmp_path / "o", name="n").load()(q, k, v))
    assert np.isnan(y[0, 0, 1]).all()
    assert (y[0, 0, [0, 2]] == 1).all()


def test_a_nan_stays(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    ends = [info(n, TensorProto.FLOAT, [1, 1, 3, 4]) for n in "qkvy"]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    graph = helper.make_graph([node], "g", ends[:3], ends[3:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=12)
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 1, 3, 4)).astype(np.float32)
    loaded = aot.compile(proto, tmp_path / "o", name="n").load()
    whole = np.asarray(loaded(q, k, v))
    q[0, 0, 1, 2] = np.nan
    y = np.asarray(loaded(q, k, v))
    assert np.isnan(y[0, 0, 1]).all()
    assert (y[0, 0, [0, 2]] == whole[0, 0, [0, 2]]).all()
