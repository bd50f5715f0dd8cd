# SPDX-License-Identifier: Apache-2.0
"""What a Slice with a negative step, or a Gather of descending indices, reads lies before its first
element: parts of a Concat were computed after it (found by fuzzing).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot

N = 64


def backwards(op: str) -> tuple[onnx.NodeProto, list[onnx.TensorProto]]:
    """A node that turns t around, and its constants."""
    if op == "Gather":
        data = {"i": np.arange(N - 1, -1, -1)}
    else:
        data = {"i": np.array([-1]), "e": np.array([-N - 1]), "a": np.array([0])}
        data["s"] = np.array([-1])
    node = helper.make_node(op, ["t", *data], ["r"])
    return node, [numpy_helper.from_array(v.astype(np.int64), k) for k, v in data.items()]


@pytest.mark.parametrize("op", ["Slice", "Gather"])
def test_what_is_read_backwards_is_kept(op: str, tmp_path: Path) -> None:
    node, consts = backwards(op)
    nodes = [
        helper.make_node("Exp", ["x"], ["low"]),
        helper.make_node("Abs", ["x"], ["high"]),
        helper.make_node("Concat", ["low", "high"], ["t"], axis=0),
        helper.make_node("ReduceSum", ["t"], ["sum"], keepdims=1),
        helper.make_node("Expand", ["sum", "wide_shape"], ["wide"]),
        helper.make_node("CumSum", ["wide", "axis"], ["climb"]),
        helper.make_node("Expand", ["sum", "shape"], ["short"]),
        helper.make_node("CumSum", ["short", "axis"], ["rise"]),
        helper.make_node("Add", ["climb", "rise"], ["both"]),
        helper.make_node("ReduceMax", ["both"], ["top"], keepdims=0),
        node,
        helper.make_node("Mul", ["r", "top"], ["y"]),
    ]
    consts.append(numpy_helper.from_array(np.array([N // 2]), "shape"))
    consts.append(numpy_helper.from_array(np.array([6, N // 2]), "wide_shape"))
    consts.append(numpy_helper.from_array(np.array(0), "axis"))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [N]) for n in "xy"]
    ends[0].type.tensor_type.shape.dim[0].dim_value = N // 2
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], consts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.linspace(-2, 2, N // 2).astype(np.float32)
    t = np.concatenate([np.exp(x), np.abs(x)])
    total = float(t.sum())
    top = 6 * total + N // 2 * total  # the ends of both climbs
    for objective in ("ram", "latency"):
        out = tmp_path / objective
        y = np.asarray(aot.compile(model, out, name="g", objective=objective).load()(x))
        assert np.allclose(y, t[::-1] * top, rtol=1e-3)


def test_a_part_read_backwards_is_written_first(tmp_path: Path) -> None:
    """The parts of a Concat that lie before the first element that a Slice takes."""
    numbers = {"b": [-7], "e": [-100], "a": [0], "s": [-2]}
    nodes = [
        helper.make_node("Exp", ["z"], ["short"]),
        helper.make_node("Mul", ["x", "half"], ["small"]),
        helper.make_node("LayerNormalization", ["small", "x"], ["low"], axis=0),
        helper.make_node("Tile", ["short", "three"], ["high"]),
        helper.make_node("Concat", ["low", "high"], ["both"], axis=0),
        helper.make_node("Slice", ["both", *numbers], ["y"]),
    ]
    info = helper.make_tensor_value_info
    ends = [info("x", TensorProto.FLOAT, [5]), info("z", TensorProto.FLOAT, [3])]
    results = [info("y", TensorProto.FLOAT, [4]), info("both", TensorProto.FLOAT, [14])]
    consts = [numpy_helper.from_array(np.array(v), k) for k, v in numbers.items()]
    consts += [numpy_helper.from_array(np.array(0.5, np.float32), "half")]
    consts += [numpy_helper.from_array(np.array([3]), "three")]
    graph = helper.make_graph(nodes, "g", ends, results, consts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x, z = np.arange(5, dtype=np.float32), np.arange(3, dtype=np.float32)
    y, both = map(np.asarray, aot.compile(model, tmp_path / "o", name="g").load()(x, z))
    low = (x - x.mean()) / x.std() * x
    assert np.allclose(both, np.concatenate([low, *[np.exp(z)] * 3]), rtol=1e-3)
    assert np.array_equal(y, both[7::-2])
