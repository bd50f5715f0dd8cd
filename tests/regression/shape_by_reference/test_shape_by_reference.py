# SPDX-License-Identifier: Apache-2.0
"""Sizes computed from a static shape by operators that only onnx.reference computes were refused.

torchvision's RetinaNet computes the levels of its boxes by Log, Round and Reciprocal of sizes that
are constants: "no provable bound". Values known at compile time are computed whatever the operator.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from aot.ir.graph_nodes import shape_of
from aot.load import load
from graphs import model

#: Each chain makes 4.0 from `v` = [4.0], by the operators that its rows name.
CHAINS = {
    "Reciprocal": [("Reciprocal", "v", "a"), ("Reciprocal", "a", "r")],
    "Pow": [("Pow", "v two", "a"), ("Sqrt", "a", "r")],
    "Round": [("Round", "v", "r")],
    "Exp and Log": [("Log", "v", "a"), ("Exp", "a", "b"), ("Round", "b", "r")],
    "Clip": [("Clip", "v two nine", "r")],
    "ReduceMean": [("ReduceMean", "v", "r")],
    "Sign": [("Sign", "v", "a"), ("Mul", "a v", "r")],
    "Tanh": [("Tanh", "v", "a"), ("Round", "a", "b"), ("Mul", "b v", "r")],
    "Sigmoid": [("Sigmoid", "v", "a"), ("Round", "a", "b"), ("Mul", "b v", "r")],
    "Mean": [("Mean", "v v", "r")],
    "CumSum": [("CumSum", "v zero", "r")],
    "ArgMax": [("ArgMax", "v", "a"), ("Cast", "a", "b", {"to": 1}), ("Add", "b v", "r")],
}


@pytest.mark.parametrize("name", sorted(CHAINS))
def test_a_chain_from_a_shape(name: str) -> None:
    rows = [
        ("Shape", "x", "s", {"start": 1, "end": 2}),
        ("Cast", "s", "v", {"to": 1}),
        *CHAINS[name],
        ("Cast", "r", "n", {"to": 7}),
        ("Reshape", "n minus", "flat"),
        ("Expand", "row flat", "y"),
    ]
    constants = {
        "two": np.array(2, np.float32),
        "nine": np.array(9, np.float32),
        "zero": np.array(0, np.int64),
        "minus": np.array([-1], np.int64),
        "row": np.ones(1, np.float32),
    }
    proto = model(rows, {"x": (3, 4)}, {"y": None}, constants)
    (result,) = load(proto).graph.outputs
    assert shape_of(result) == (4,)


def test_what_is_not_known_stays_refused() -> None:
    from aot.errors import AotError

    rows = [
        ("Reciprocal", "x", "a"),
        ("Cast", "a", "n", {"to": 7}),
        ("ConstantOfShape", "n", "y"),
    ]
    proto = model(rows, {"x": (1,)}, {"y": None}, {})
    assert isinstance(proto, onnx.ModelProto)
    with pytest.raises(AotError, match="no provable bound"):
        load(proto)
