# SPDX-License-Identifier: Apache-2.0
"""Numbers of a file that onnx's own tables or this compiler's could not hold.

An axis of -2^63 was cut to 32 bits by onnx's inference and met a tuple; an opset of 2^31 met a C
function; an arena of 4 GiB met the linker; 65 axes met NumPy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from aot.errors import AotError, TargetError
from graphs import model
from load_graphs import refused


@pytest.mark.parametrize("axis", [-(1 << 63), (1 << 62), 1 << 32, 2, -3])
@pytest.mark.parametrize("op", ["Gather", "LayerNormalization", "Softmax", "ArgMax"])
def test_axis(op: str, axis: int) -> None:
    consts = {"i": np.array([0])} if op == "Gather" else {"s": np.ones(3, np.float32)}
    names = "" if op in ("Softmax", "ArgMax") else next(iter(consts))
    built = model(
        [(op, f"x {names}", "y", {"axis": axis})],
        {"x": [2, 3]},
        {"y": None},
        consts if names else {},
    )
    if op == "ArgMax":
        built.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    refused(built, op)


@pytest.mark.parametrize("version", [1 << 31, (1 << 63) - 1, -1])
def test_opset(version: int) -> None:
    built = model([("Relu", "x", "y")], {"x": [2]}, {"y": [2]}, opset=version)
    refused(built, str(version), kind=AotError)


@pytest.mark.parametrize(
    ("shape", "part"), [([1] * 65, "65 axes"), ([0, 1 << 62], "limit"), ([0, 1 << 31], "limit")]
)
def test_shapes_nobody_can_hold(shape: list[int], part: str) -> None:
    refused(model([("Relu", "x", "y")], {"x": shape}, {"y": None}), part, '"x"')


def test_an_arena_that_cannot_be_linked(tmp_path: Path) -> None:
    rows = [("Exp", "x", "a"), ("ReduceSum", "a", "s"), ("Div", "a s", "y")]
    with pytest.raises(TargetError, match="arena needs 4294967360 bytes") as caught:
        aot.compile(model(rows, {"x": [1 << 30]}, {"y": None}), tmp_path / "out")
    assert "peak" in str(caught.value) and not (tmp_path / "out").exists()


def test_an_attribute_that_refers_to_no_function() -> None:
    built = model([("Softmax", "x", "y")], {"x": [2, 3]}, {"y": None})
    built.graph.node[0].attribute.add(name="axis", ref_attr_name="where", type=2)
    refused(built, 'refers to "where"', "outside a function")


def test_a_function_that_hides_an_operator() -> None:
    built = model([("Relu", "x", "y")], {"x": [2]}, {"y": [2]})
    imports = [onnx.helper.make_opsetid("", 21)]
    body = [onnx.helper.make_node("Neg", ["a"], ["b"])]
    built.functions.append(onnx.helper.make_function("", "Relu", ["a"], ["b"], body, imports))
    refused(built, '"Relu"', "name of an operator")
