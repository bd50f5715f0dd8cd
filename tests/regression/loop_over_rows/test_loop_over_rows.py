# SPDX-License-Identifier: Apache-2.0
"""A Loop over the rows of a tensor as long as a run says was refused.

A body is tried as it is, then with shapes computed anew in every step. What the first attempt
found wrong stayed noted when two nodes of the body were, so that the second was in vain; a Loop
without a trip count had no second one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import aot
from aot.errors import AotError
from aot.target import load_target
from aot.tools.build import build, configure, find_tools
from aot.tools.run import open_out, stream
from needs import need_module
from sanitizers import SANITIZED

HEAD = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N, 3] x, float[3] s0) => {outputs} {{
    shape = Shape(x)
    n = Gather(shape, zero)
    {loop}
}}"""
CONSTANTS = {
    "zero": np.int64(0),
    "one": np.int64(1),
    "first": np.zeros(1, np.int64),
    "next": np.ones(1, np.int64),
    "limit": np.float32(4),
    "three": np.int64(3),
}
BODIES = {
    "rows": (
        "(float[3] s, float[q, 3] y, float[3] r)",
        """s, y = Loop (n, , s0) <body = b (int64 i, bool g, float[3] a)
            => (bool g2, float[3] a2, float[3] o) {
          g2 = Identity(g)
          row = Gather(x, i)
          a2 = Add(a, row)
          most = ReduceMax<keepdims = 0>(x)
          o = Mul(a2, most)
        }>
        r = ReduceSum<keepdims = 0>(y, first)""",
    ),
    "while": (
        "(float[3] s)",
        """s = Loop (, , s0) <body = b (int64 i, bool g, float[3] a) => (bool g2, float[3] a2) {
          row = Gather(x, i)
          top = ReduceMax<keepdims = 0>(x)
          low = Less(top, limit)
          b = If (low) <then_branch = t () => (float[3] u) { u = Neg(row) },
                        else_branch = e () => (float[3] v) { v = Sub(row, a) }>
          a2 = Sub(a, b)
          all = ReduceSum<keepdims = 0>(a2)
          small = Less(all, limit)
          j = Add(i, one)
          more = Less(j, n)
          g2 = And(small, more)
        }>""",
    ),
    "decided": (
        "(float[3] s)",
        """s = Loop (n, , s0) <body = b (int64 i, bool g, float[3] a) => (bool g2, float[3] a2) {
          g2 = Identity(g)
          row = Gather(x, i)
          w = If (g) <then_branch = t () => (float[3] u) { u = Relu(row) },
                      else_branch = e () => (float[3] v) { v = Neg(row) }>
          most = ReduceMax<keepdims = 0>(x, first)
          b = Add(a, w)
          a2 = Sub(b, most)
        }>""",
    ),
    "first rows": (
        "(float[3] s)",
        """s = Loop (n, , s0) <body = b (int64 i, bool g, float[3] a) => (bool g2, float[3] a2) {
          g2 = Identity(g)
          at = Unsqueeze(i, first)
          end = Add(at, next)
          part = Slice(x, first, end, first)
          sum = ReduceSum<keepdims = 0>(part, first)
          a2 = Add(a, sum)
        }>""",
    ),
    "states as long as a run says": (
        "(float[p, 3] s, float[q, r, 3] y)",
        """yes = Constant<value = bool {1}>()
        s, y = Loop (n, yes, x) <body = b (int64 i, bool g, float[N, 3] a)
            => (bool g2, float[N, 3] a2, float[N, 3] o) {
          g2 = Identity(g)
          b = Neg(a)
          a2 = Add(b, s0)
          o = Relu(x)
        }>""",
    ),
    "what is appended": (
        "(float[p, 3] s, float[1, q] t)",
        """none = Slice(x, first, first)
        wide = Constant<value = float[1, 2] {5, 6}>()
        s, t = Loop (n, , none, wide) <body = b (int64 i, bool g, float[k, 3] a, float[1, m] c)
            => (bool g2, float[k2, 3] a2, float[1, m2] c2) {
          g2 = Identity(g)
          row = Gather(x, i)
          two = Unsqueeze(row, first)
          neg = Neg(two)
          a2 = Concat<axis = 0>(a, two, neg)
          c2 = Concat<axis = 1>(c, two)
        }>""",
    ),
    "what is appended and read": (
        "(float[p, 3] s)",
        """some = Slice(x, first, next)
        s = Loop (n, , some) <body = b (int64 i, bool g, float[k, 3] a)
            => (bool g2, float[k2, 3] a2) {
          g2 = Identity(g)
          row = Gather(x, i)
          all = ReduceSum<keepdims = 1>(a, first)
          new = Add(all, row)
          a2 = Concat<axis = 0>(a, new)
        }>""",
    ),
    "what is appended to some": (
        "(float[p, 3] s)",
        """none = Slice(x, first, first)
        s = Loop (n, , none) <body = b (int64 i, bool g, float[k, 3] a)
            => (bool g2, float[k2, 3] a2) {
          g2 = Identity(g)
          row = Gather(x, i)
          sum = ReduceSum<keepdims = 0>(row)
          zero_ = Constant<value = float {0}>()
          good = Greater(sum, zero_)
          a2 = If (good) <then_branch = t () => (float[k2, 3] p) {
                            two = Unsqueeze(row, first)
                            p = Concat<axis = 0>(two, a)
                          }, else_branch = e () => (float[k, 3] q) { q = Identity(a) }>
        }>""",
    ),
    "loops in steps": (
        "(float[3] s)",
        """s = Loop (three, , s0) <body = b (int64 i, bool g, float[3] a)
            => (bool g2, float[3] a2) {
          g2 = Identity(g)
          yes = Identity(g)
          y = Loop (i, yes) <body = c (int64 j, bool h) => (bool h2, float[3] o) {
            h2 = Identity(h)
            f = Cast<to = 1>(j)
            o = Add(a, f)
          }>
          top = ReduceMax<keepdims = 0>(x, first)
          sum = ReduceSum<keepdims = 0>(y, first)
          a2 = Add(sum, top)
        }>""",
    ),
}


def graph(name: str) -> onnx.ModelProto:
    outputs, loop = BODIES[name]
    made = parser.parse_model(HEAD.format(outputs=outputs, loop=loop))
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in CONSTANTS.items()]
    made.graph.initializer.extend(tensors)
    return made


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", BODIES)
def test_bodies_read_rows_that_a_run_says(name: str, tmp_path: Path) -> None:
    ort = need_module("onnxruntime")
    model, out = graph(name), tmp_path / "out"
    aot.compile(model, out, name="net", target="x86-64", dims={"N": (1, 6)})
    target = load_target("x86-64")
    tools = find_tools(target.packages, target.compiler)
    configure(out, tools, None, out / "bundle", [f"-DCMAKE_C_FLAGS={SANITIZED}"])
    build(out, "net-trace")
    rng = np.random.default_rng(3)
    feeds = [[rng.normal(size=(n, 3)).astype(np.float32), np.ones(3, "f4")] for n in (6, 1, 3, 2)]
    session = ort.InferenceSession(model.SerializeToString())
    for (x, s0), results in zip(feeds, stream(open_out(out), feeds, tmp_path), strict=True):
        for ours, theirs in zip(results, session.run(None, {"x": x, "s0": s0}), strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_state_that_outgrows_its_bound_is_a_status(tmp_path: Path) -> None:
    """A step doubles the rows: the bound, of the first step's growth, holds for two steps."""
    outputs = "(float[p, 3] s)"
    loop = """some = Slice(x, first, next)
        s = Loop (n, , some) <body = b (int64 i, bool g, float[k, 3] a)
            => (bool g2, float[k2, 3] a2) {
          g2 = Identity(g)
          b = Relu(a)
          a2 = Concat<axis = 0>(a, b)
        }>"""
    made = parser.parse_model(HEAD.format(outputs=outputs, loop=loop))
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in CONSTANTS.items()]
    made.graph.initializer.extend(tensors)
    net = aot.compile(made, tmp_path, name="net", target="x86-64", dims={"N": (1, 4)}).load()
    given = np.ones(3, np.float32)
    assert np.asarray(net(np.ones((2, 3), np.float32), given)).shape == (4, 3)
    with pytest.raises(AotError, match="status 3"):
        net(np.ones((3, 3), np.float32), given)
