# SPDX-License-Identifier: Apache-2.0
"""Operators without a kernel become the nodes ONNX defines them by."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from aot.errors import UnsupportedError
from aot.load import LoadOptions, load
from aot.normalise import normalise
from aot.ops.spectral import matrix
from aot.options import Options
from aot.pipeline import compile_model


def swiglu(kind: int = TensorProto.FLOAT):
    x = helper.make_tensor_value_info("x", kind, [2, 6])
    y = helper.make_tensor_value_info("y", kind, [2, 3])
    cut = np.array([3, 3], np.int64)
    nodes = [
        helper.make_node("Split", ["x", "cut"], ["a", "b"], axis=1),
        helper.make_node("SwiGLU", ["a", "b"], ["y"], name="gate"),
    ]
    constant = helper.make_tensor("cut", TensorProto.INT64, [2], cut)
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], [constant]))


def operators(native: frozenset[str] | None) -> list[str]:
    options = LoadOptions(native=native)
    return [n.op_type for n in normalise(load(swiglu(), options), options).graph]


def test_unknown_operator_becomes_its_body() -> None:
    assert operators(frozenset({"::Split", "::Swish", "::Mul"}))[-2:] == ["Swish", "Mul"]
    assert "Sigmoid" in operators(frozenset({"::Split", "::Sigmoid", "::Mul"}))


def test_native_operator_stays() -> None:
    assert "SwiGLU" in operators(frozenset({"::SwiGLU", "::Split"}))
    assert "SwiGLU" in operators(None)


def test_names_say_where_the_nodes_come_from() -> None:
    compiled = compile_model(swiglu(), Options(target="x86-64"))
    assert compiled.program.outputs == ("y",)
    onnx_names = {s.match.root.onnx_name for s in compiled.partition.items}
    assert "gate (SwiGLU)" in onnx_names


def test_no_body_is_refused_by_its_own_name() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 4])
    r = helper.make_tensor_value_info("r", TensorProto.FLOAT, [3, 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2, 2, 2])
    node = helper.make_node("MaxRoiPool", ["x", "r"], ["y"], name="pool", pooled_shape=[2, 2])
    model = helper.make_model(helper.make_graph([node], "g", [x, r], [y]))
    with pytest.raises(UnsupportedError, match=r"pool \(MaxRoiPool\): no backend"):
        compile_model(model, Options(target="x86-64"))


SCAN = """
<ir_version: 10, opset_import: ["" : 25]>
g (float[2] s0, float[2,3] x, float[3,2] z, float[2] k) => (float[2] s, float[2,3] y) {
    s, y = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [0, 1],
        scan_output_axes = [1], scan_output_directions = [1], body = step (
        float[2] a, float[2] b, float[2] c) => (float[2] d, float[2] e)
        { t = Mul(a, k)  u = Add(t, b)  d = Sub(u, c)  e = Add(d, t) }> (s0, x, z)
}
"""
LOOP = """
<ir_version: 10, opset_import: ["" : 25]>
g (float[2] s0) => (float[2] s, float[3,2] y) {
    n = Constant <value = int64 {3}> ()
    go = Constant <value = bool {1}> ()
    s, y = Loop <body = step (int64 i, bool c, float[2] a) => (bool d, float[2] b, float[2] e)
        { d = Identity(c)  f = Cast <to = 1> (i)  b = Add(a, f)  e = Mul(b, b) }> (n, go, s0)
}
"""


def scanned(s0, x, z, k):
    """What SCAN computes (onnx.reference knows no directions)."""
    a, y = s0, np.zeros((2, 3), np.float32)
    for t in range(3):
        d = a * k + x[:, t] - z[2 - t]
        y[:, 2 - t] = d + a * k
        a = d
    return [a, y]


@pytest.mark.parametrize("text", [SCAN, LOOP])
def test_steps_compute_what_the_loop_does(text: str) -> None:
    import onnx
    import onnx_ir as ir
    from onnx.reference import ReferenceEvaluator

    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(3)
    feeds = {
        v.name: rng.uniform(-1, 1, [d.dim_value for d in v.type.tensor_type.shape.dim]).astype("f")
        for v in model.graph.input
    }
    options = LoadOptions(native=frozenset())
    flat = normalise(load(model, options), options)
    assert not {"Scan", "Loop"} & {n.op_type for n in flat.graph}
    want = scanned(**feeds) if text is SCAN else ReferenceEvaluator(model).run(None, feeds)
    got = ReferenceEvaluator(ir.to_proto(flat)).run(None, feeds)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("n", [5, 8])
@pytest.mark.parametrize("length", [5, 8, 11])
@pytest.mark.parametrize("parts", [1, 2])
def test_matrices_transform_as_numpy_does(n: int, length: int, parts: int) -> None:
    rng = np.random.default_rng(n * length)
    x = rng.normal(size=(n, parts))
    z = x[:, 0] + 1j * x[:, 1] if parts == 2 else x[:, 0]

    def through(inverse: bool, onesided: bool) -> np.ndarray:
        m = matrix(n, parts, length, inverse, onesided)
        y = np.einsum("jp,jpkw->kw", x, m)
        return y[:, 0] if y.shape[1] == 1 else y[:, 0] + 1j * y[:, 1]

    np.testing.assert_allclose(through(False, False), np.fft.fft(z, length), atol=1e-12)
    np.testing.assert_allclose(through(True, False), np.fft.ifft(z, length), atol=1e-12)
    if parts == 1:
        np.testing.assert_allclose(through(False, True), np.fft.rfft(z, length), atol=1e-12)
    else:
        half = z[: length // 2 + 1]
        np.testing.assert_allclose(through(True, True), np.fft.irfft(half, length), atol=1e-12)
