# SPDX-License-Identifier: Apache-2.0
"""Which of two convolutions the sum of their quantised values is computed with."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import aot
from aot.load import LoadOptions, load
from aot.normalise import normalise
from aot.ops.registry import load_all
from aot.partition.select import select
from aot.target import load_target
from quant_graphs import S8, SX, Net, convolved, quantised_values


@pytest.mark.parametrize("swapped", [False, True])
def test_the_larger_convolution_takes_the_sum(swapped):
    net = Net(x=(np.int8, (1, 4, 8, 8)))
    large = convolved(net, "x", pads=[1, 1, 1, 1])
    small = convolved(net, "x", weights=quantised_values(6, 4, 1, 1))
    read = [net.dq(net.q(v, SX, S8(-4)), SX, S8(-4)) for v in (large, small)]
    total = net.add("Add", *(reversed(read) if swapped else read))
    net.q(total, 2 * SX, S8(5), out="y")
    loaded = load(ir.from_proto(net.model(y=np.int8)), LoadOptions())
    chosen = select(normalise(loaded, LoadOptions()).graph, [load_all()])
    text = [line for line in chosen.text().splitlines() if "refused" not in line]
    fused = [i.match for i in chosen.items if "qconv_add" in i.pattern.name]
    assert len(fused) == 1, text
    assert fused[0].w.shape == (6, 4, 3, 3)


@pytest.mark.parametrize("kind", ["Conv", "MatMul"])
def test_sums_that_never_are_quantised_values(kind, tmp_path):
    """A product added to quantised values without a QuantizeLinear between: one rounding, in
    integers."""
    shape = (1, 16, 12, 12) if kind == "Conv" else (150, 24)
    net = Net(x=(S8, shape))
    x = net.dq("x", SX, S8(-4))
    if kind == "Conv":
        steps = np.linspace(0.002, 0.006, 16).astype(np.float32)
        w = net.dq(quantised_values(16, 16, 3, 3), steps, np.zeros(16, S8), axis=0)
        made = net.add("Conv", x, w, np.linspace(-1, 1, 16).astype(np.float32), pads=[1, 1, 1, 1])
    else:
        made = net.add("MatMul", x, net.dq(quantised_values(24, 24), 0.004, S8(0)))
    net.q(net.add("Relu", net.add("Add", x, made)), 0.07, S8(-128), out="y")
    model = net.model(y=S8)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    kernels = [n["kernel"] for n in bundle.manifest["nodes"]]
    assert any("qconv_epilogue" in k for k in kernels), kernels
    assert not any("f32" in k or "quantize" in k for k in kernels), kernels
    given = quantised_values(*shape)
    got = np.asarray(bundle.load()(given)).astype(int)
    want = onnx.reference.ReferenceEvaluator(model).run(None, {"x": given})[0].astype(int)
    assert np.abs(got - want).max() <= 1
    assert np.mean(got != want) <= 0.001


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v4-vnni"])
def test_weights_beyond_int8_in_a_sum(target, tmp_path):
    """uint8 weights with a zero point of which int8 cannot hold all: one call with dot products,
    elsewhere two, with the same quantised values."""
    rng, kernel = np.random.default_rng(0), (20, 16, 3, 3)
    net = Net(x=(S8, (1, 16, 9, 40)), r=(S8, (1, 20, 9, 40)))
    stored = rng.integers(0, 256, kernel).astype(np.uint8)
    w = net.dq(stored, 0.003, np.uint8(100))
    made = net.add("Conv", net.dq("x", SX, S8(-4)), w, np.zeros(20, np.float32), pads=[1] * 4)
    own = net.dq(net.q(made, 0.4, S8(-4)), 0.4, S8(-4))
    net.q(net.add("Add", own, net.dq("r", 0.3, S8(7))), 0.5, S8(5), out="y")
    model = net.model(y=S8)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out", target=target)
    kernels = [n["kernel"] for n in bundle.manifest["nodes"]]
    dots = target.endswith("vnni")
    assert ("aot_qadd_s8" in kernels) != dots, kernels
    assert ("aot_qconv_epilogue_s8__dot" in kernels) == dots, kernels
    if not load_target(target).runs_here():
        pytest.skip("this CPU lacks units of the target")
    given = {"x": quantised_values(1, 16, 9, 40), "r": quantised_values(1, 20, 9, 40)}
    got = np.asarray(bundle.load()(**given)).astype(int)
    want = onnx.reference.ReferenceEvaluator(model).run(None, given)[0].astype(int)
    assert np.abs(got - want).max() <= 1
    assert np.mean(got != want) <= 0.001
