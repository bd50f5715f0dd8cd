# SPDX-License-Identifier: Apache-2.0
"""Indices of another rank than the data were accepted, and read past its end (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

import aot
from aot.errors import ModelError


def model(op: str, data: list[int], index: list[int], updates: list[int]) -> object:
    info = helper.make_tensor_value_info
    ends = [info("x", TensorProto.FLOAT, data), info("i", TensorProto.INT64, index)]
    if op.startswith("Scatter"):
        ends.append(info("u", TensorProto.FLOAT, updates))
    node = helper.make_node(op, [e.name for e in ends], ["y"], name="moved")
    out = info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", ends, [out])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(
    ("op", "data", "index", "updates", "reason"),
    [
        ("GatherElements", [1, 1, 1], [3, 1], [], "another rank"),
        ("GatherElements", [2, 3], [2, 4], [], "longer than the data"),
        ("ScatterElements", [2, 3], [3], [3], "another rank"),
        ("ScatterElements", [2, 3], [1, 2], [2, 1], "another shape than the indices"),
        ("ScatterND", [2, 3], [4, 1], [4, 2], "should be [4, 3]"),
        ("ScatterND", [2, 3], [4, 3], [4], "beyond the axes"),
    ],
)
def test_indices_that_do_not_fit_are_refused(
    op: str, data: list[int], index: list[int], updates: list[int], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as caught:
        aot.compile(model(op, data, index, updates), tmp_path / "o")
    assert reason in str(caught.value)
