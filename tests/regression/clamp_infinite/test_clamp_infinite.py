# SPDX-License-Identifier: Apache-2.0
"""Min with minus infinity, and Max with infinity, were taken for no bound (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot

LARGEST = float(np.finfo(np.float32).max)
CASES = [("Min", -np.inf, -np.inf), ("Max", np.inf, np.inf), ("Clip", -LARGEST, -LARGEST)]


@pytest.mark.parametrize("op, bound, want", CASES)
def test_every_number_becomes_the_bound(op: str, bound: float, want: float, tmp_path: Path) -> None:
    inputs = ["x", "", "c"] if op == "Clip" else ["x", "c"]
    nodes = [helper.make_node(op, inputs, ["a"])]
    nodes.append(helper.make_node("Max" if want < 0 else "Min", ["a", "one"], ["y"]))
    consts = [numpy_helper.from_array(np.float32(v), n) for n, v in (("c", bound), ("one", 1.0))]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xya"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], consts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.array([-2.0, 0.5, 7.0], np.float32)
    y, a = aot.compile(model, tmp_path / "o", name="n").load()(x)
    assert (np.asarray(a) == np.float32(want)).all() and (np.asarray(y) == 1.0).all()


def test_the_largest_number_of_float16_is_a_bound(tmp_path: Path) -> None:
    """Clip to it keeps infinities away; the old default bounds of Clip are float32's."""
    consts = [numpy_helper.from_array(np.float16(v), n) for n, v in (("lo", -65504), ("hi", 65504))]
    x = np.array([-np.inf, 0.5, np.inf], np.float16)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, [3]) for n in "xy"]
    nodes = [helper.make_node("Clip", ["x", "lo", "hi"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], consts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    y = aot.compile(model, tmp_path / "o", name="n").load()(x)
    assert np.array_equal(
        np.asarray(y[0] if isinstance(y, list | tuple) else y), [-65504, 0.5, 65504]
    )
