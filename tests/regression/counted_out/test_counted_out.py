# SPDX-License-Identifier: Apache-2.0
"""A Loop that may make 2^31 - 1 steps, which a counter in its condition ends, as tf2onnx writes a
recurrent layer: what it stacked was said to have that many rows, and was refused as too large."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import aot
from aot.errors import AotError


def layer(kind: str = "int32") -> onnx.ModelProto:
    """State h = tanh(h / 2 + x[i]) for every i of x; its rows, and the last."""
    return parser.parse_model(f"""
<ir_version: 8, opset_import: ["" : 17]>
layer (float[n, 3] x) => (float[n, 3] rows, float[3] last) {{
    most = Constant<value = int64 {{2147483647}}>()
    zero = Constant<value = {kind} {{0}}>()
    one = Constant<value = {kind} {{1}}>()
    half = Constant<value = float {{0.5}}>()
    shape = Shape<end = 1>(x)
    size = Squeeze(shape)
    steps = Cast<to = {onnx.TensorProto.DataType.Value(kind.upper())}>(size)
    start = Constant<value = float[3] {{0, 0, 0}}>()
    any = Less(zero, steps)
    time, other, last, rows = Loop (most, any, zero, zero, start)
        <body = step (int64 i, bool go, {kind} t, {kind} k, float[3] h)
            => (bool more, {kind} t2, {kind} k2, float[3] h2, float[3] row) {{
        row_in = Gather(x, i)
        a = Mul(h, half)
        b = Add(a, row_in)
        h2 = Tanh(b)
        row = Identity(h2)
        t2 = Add(t, one)
        k2 = Add(k, one)
        left = Less(t2, steps)
        right = Less(k2, steps)
        more = And(left, right)
    }}>
}}
""")


@pytest.mark.parametrize("dims", [{"n": 5}, {"n": (0, 6)}])
def test_a_counter_bounds_what_is_stacked(dims: dict[str, object], tmp_path: Path) -> None:
    net = aot.compile(layer(), tmp_path, name="net", dims=dims).build().load()
    reference = ReferenceEvaluator(layer())
    for count in (5,) if dims["n"] == 5 else (6, 1, 4):
        x = np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32)
        for found, want in zip(net(x), reference.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-5, atol=1e-6)


def test_a_counter_that_wraps_around_bounds_nothing(tmp_path: Path) -> None:
    """int8: 127 + 1 is -128, which is less than 200 cast to int16."""
    text = layer("int8")
    for node in text.graph.node:
        if node.op_type == "Cast":
            node.attribute[0].i = onnx.TensorProto.INT16
    body = next(n for n in text.graph.node if n.op_type == "Loop").attribute[0].g
    for node in list(body.node):
        if node.op_type == "Less":
            wide = onnx.helper.make_node("Cast", [node.input[0]], [f"{node.input[0]}w"], to=5)
            node.input[0] = wide.output[0]
            body.node.insert(list(body.node).index(node), wide)
    del text.graph.node[[n.op_type for n in text.graph.node].index("Less")]
    loop = next(n for n in text.graph.node if n.op_type == "Loop")
    loop.input[1] = ""
    with pytest.raises(AotError):
        aot.compile(text, tmp_path, dims={"n": 200})
