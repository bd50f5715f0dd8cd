# SPDX-License-Identifier: Apache-2.0
"""Loops and Ifs as exporters write them: step numbers declared as vectors, stale shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T, helper, parser

import aot
from aot.tools.run import open_out, stream
from load_graphs import info, node
from needs import need_module

HEAD = '<ir_version: 10, opset_import: ["" : 17]>\n'
X = np.arange(24, dtype=np.float32).reshape(4, 6)

#: A step takes what its number and its condition, both declared as [1], pick from `x`.
PICKED = """agraph (float[4, 6] x, int64 m, float[6] s0) => (float[6] s, float[n, 1] y) {
    axes = Constant<value = int64[1] {1}>()
    yes = Constant<value = bool[1] {1}>()
    rows = Constant<value = int64[4] {2, 0, 3, 1}>()
    four = Constant<value = int64 {4}>()
    k = Min(m, four)
    s, y = Loop (k, yes, s0) <body = b (int64[1] i, bool[1] go, float[6] a)
        => (bool[1] go2, float[6] a2, float[1] o) {
      no = Not(go)
      go2 = Not(no)
      place = Gather<axis = 0>(rows, i)
      row = Gather<axis = 0>(x, place)
      part = Gather<axis = 1>(row, i)
      f = Cast<to = 1>(go2)
      o = Squeeze(part, axes)
      g = Mul(row, f)
      h = Squeeze(g, zero)
      a2 = Add(a, h)
    }>
}"""


def picked(steps: int | None) -> onnx.ModelProto:
    """`steps` is the trip count as a constant of shape [1]; None: an input."""
    text = PICKED
    if steps is not None:
        text = text.replace(", int64 m", "")
        text = text.replace("yes = ", f"m = Constant<value = int64[1] {{{steps}}}>()\n    yes = ")
    made = parser.parse_model(HEAD + text)
    made.graph.initializer.append(helper.make_tensor("zero", T.INT64, [1], [0]))
    return made


def results(model: onnx.ModelProto, folder: Path, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    aot.compile(model, folder, name="net", target="x86-64").build()
    (found,) = stream(open_out(folder), [list(feed.values())])
    return found


@pytest.mark.parametrize("steps", [3, None])
def test_a_body_may_take_its_step_number_and_condition_as_vectors(steps, tmp_path):
    feed = {"x": X} | ({} if steps else {"m": np.array(3)}) | {"s0": np.ones(6, np.float32)}
    ort = need_module("onnxruntime")
    theirs = ort.InferenceSession(picked(steps).SerializeToString()).run(None, feed)
    for ours, wanted in zip(results(picked(steps), tmp_path, feed), theirs, strict=True):
        np.testing.assert_array_equal(ours, wanted)


def test_a_list_that_a_loop_fills_by_its_step_number(tmp_path):
    inner = [
        node("Gather", ["starts", "i"], ["from"]),
        node("Add", ["i", "one"], ["next"]),
        node("Gather", ["starts", "next"], ["to"]),
        node("Slice", ["x", "from", "to", "one"], ["part"]),
        node("SequenceInsert", ["held", "part"], ["more"]),
        node("Identity", ["yes"], ["go2"]),
    ]
    held = helper.make_tensor_sequence_value_info("held", T.FLOAT, None)
    more = helper.make_tensor_sequence_value_info("more", T.FLOAT, None)
    ends = [info("i", [1], T.INT64), info("go", [], T.BOOL), held]
    body = helper.make_graph(inner, "b", ends, [info("go2", [], T.BOOL), more])
    nodes = [
        node("SequenceEmpty", [], ["empty"], dtype=T.FLOAT),
        node("Loop", ["one", "yes", "empty"], ["parts"], body=body),
        node("SequenceAt", ["parts", "first"], ["part0"]),
        node("Neg", ["part0"], ["y"]),
    ]
    constants = [
        helper.make_tensor("starts", T.INT64, [3], [0, 2, 6]),
        helper.make_tensor("one", T.INT64, [1], [1]),
        helper.make_tensor("first", T.INT64, [], [0]),
        helper.make_tensor("yes", T.BOOL, [], [True]),
    ]
    graph = helper.make_graph(nodes, "g", [info("x", [4, 6])], [info("y", None)], constants)
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (ours,) = results(built, tmp_path, {"x": X})
    np.testing.assert_array_equal(ours, -X[:, :2])


@pytest.mark.parametrize("known", [True, False])
def test_shapes_that_a_branch_declares_of_its_results_may_be_stale(known, tmp_path):
    condition = "Shape(x)\n k = Gather<axis = 0>(q, zero)\n c = Equal(k, zero)"
    if not known:
        condition = "ReduceMax<keepdims = 0>(x)\n k = Cast<to = 7>(q)\n c = Equal(k, zero)"
    made = parser.parse_model(
        HEAD
        + f"""agraph (float[4, 6] x) => (float[a, b] y) {{
            zero = Constant<value = int64 {{0}}>()
            q = {condition}
            r = If (c) <then_branch = t () => (float[9, 9] u) {{ u = Neg(x) }},
                        else_branch = e () => (float[8, 6] v) {{ v = Exp(x) }}>
            y = Add(r, x)
        }}"""
    )
    (ours,) = results(made, tmp_path, {"x": X / 24})
    np.testing.assert_allclose(ours, np.exp(X / 24) + X / 24 if known else 0 * X, 1e-6)
