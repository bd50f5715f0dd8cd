# SPDX-License-Identifier: Apache-2.0
"""Constants of quantised graphs: weights as signed centred quantised values, biases as 32-bit
quantised values."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from quant_graphs import (
    S8,
    S32,
    SW,
    SX,
    U8,
    Net,
    check,
    convolved,
    data,
    f32,
    feeds_of,
    in_onnxruntime,
    made,
    normal,
    only,
    quantised_values,
    scales,
)


@pytest.mark.parametrize(
    ("weights", "zero", "want"),
    [
        (quantised_values(6, 4, 3, 3, dtype=U8), U8(128), 0),
        (quantised_values(6, 4, 3, 3, dtype=U8) // U8(2), U8(0), 0),
        (quantised_values(6, 4, 3, 3, dtype=U8), U8(100), -28),
        (quantised_values(6, 4, 3, 3) // S8(2), S8(20), 0),
    ],
)
def test_weights_are_signed_and_centred_where_they_fit(weights, zero, want):
    net = Net(x=(S8, (1, 4, 6, 6)))
    net.q(convolved(net, "x", weights=weights, zero=zero), 0.5, S8(4), out="y")
    _, result = check(net.model(y=S8), step=1)
    held = made(result, only(result, "Conv"), 1)
    assert data(held.inputs[0]).dtype == S8
    assert data(held.inputs[2]) == want


def test_weights_quantised_in_the_graph_become_quantised_values():
    net = Net(x=(S8, (1, 4, 6, 6)))
    weights, scale = f32(6, 4, 3, 3), np.linspace(0.01, 0.02, 6).astype(np.float32)
    held = net.add("QuantizeLinear", weights, scale, np.zeros(6, S8), axis=0)
    held = net.add("Clip", held, S8(-127), S8(127))
    numbers = net.add("DequantizeLinear", held, scale, np.zeros(6, S8), axis=0)
    net.q(net.add("Conv", net.dq("x", SX, S8(3)), numbers), 0.3, S8(4), out="y")
    _, result = check(net.model(y=S8), step=1)
    held = made(result, only(result, "Conv"), 1)
    want = np.clip(np.rint(weights / scale.reshape(6, 1, 1, 1)), -127, 127)
    np.testing.assert_array_equal(data(held.inputs[0]), want)


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
def test_weights_of_four_bits_are_unpacked(kind):
    net = Net(x=(S8, (3, 8)))
    low = -8 if kind == TensorProto.INT4 else 0
    numbers = np.arange(40) % 16 + low
    net.consts["w"] = helper.make_tensor("w", kind, [8, 5], numbers.tolist())
    net.consts["zw"] = helper.make_tensor("zw", kind, [], [low + 8])
    weights = net.add("DequantizeLinear", "w", scales(SW), "zw")
    net.q(net.add("MatMul", net.dq("x", SX, S8(3)), weights), 0.3, S8(4), out="y")
    _, result = check(net.model(y=S8), step=1)
    held = made(result, only(result, "MatMul"), 1)
    assert data(held.inputs[0]).dtype == S8 and data(held.inputs[2]) == 0
    np.testing.assert_array_equal(data(held.inputs[0]).ravel(), numbers - low - 8)


@pytest.mark.parametrize("spelling", ["Gemm", "Transpose"])
def test_transposed_weights_of_products_are_stored_transposed(spelling):
    net = Net(x=(S8, (3, 8)))
    weights, scale = quantised_values(5, 8), np.linspace(0.01, 0.02, 5).astype(np.float32)
    held = net.add("DequantizeLinear", weights, scale, np.zeros(5, S8), axis=0)
    x = net.dq("x", SX, S8(3))
    if spelling == "Gemm":
        product = net.add("Gemm", x, held, transB=1)
    else:
        product = net.add("MatMul", x, net.add("Transpose", held, perm=[1, 0]))
    net.q(product, 0.3, S8(4), out="y")
    counts, result = check(net.model(y=S8), step=1)
    node = next(n for n in result.graph if n.op_type in ("Gemm", "MatMul"))
    held = made(result, node, 1)
    np.testing.assert_array_equal(data(held.inputs[0]), weights.T)
    assert held.attributes["axis"].value == 1 and not counts["Transpose"]


def test_weights_of_float_operators_are_folded():
    net = Net(x=(np.float32, (3, 8)), q=(S8, (3, 8)))
    net.add("MatMul", "x", net.dq(quantised_values(8, 5), SW, S8(1)), out="a")
    net.add("MatMul", net.dq("q", SX, S8(0)), net.dq(quantised_values(8, 5), SW, S8(0)), out="b")
    counts, _ = check(net.model(a=np.float32, b=np.float32))
    assert counts == {"MatMul": 2, "DequantizeLinear": 1}


def test_weights_in_blocks_are_folded():
    net = Net(x=(np.float32, (3, 8)))
    numbers = (np.arange(40) % 16 - 8).tolist()
    net.consts["w"] = helper.make_tensor("w", TensorProto.INT4, [8, 5], numbers)
    scale = np.abs(f32(3, 5)) + np.float32(0.1)
    held = net.add("DequantizeLinear", "w", scale, axis=0, block_size=3)
    net.add("MatMul", "x", held, out="y")
    counts, _ = check(net.model(y=np.float32))
    assert counts == {"MatMul": 1}


def test_weights_beyond_the_budget_of_folding_stay_quantised_values():
    net = Net(x=(np.float32, (3, 8)))
    net.add("MatMul", "x", net.dq(quantised_values(8, 5), SW, S8(1)), out="y")
    counts, _ = check(net.model(y=np.float32), fold_bytes=100)
    assert counts == {"MatMul": 1, "DequantizeLinear": 1}


def test_weights_of_recurrent_operators_are_folded():
    net = Net(x=(S8, (4, 1, 3)))
    parts = [net.dq(quantised_values(1, 16, k), SW, S8(0)) for k in (3, 4)]
    net.add("LSTM", net.dq("x", SX, S8(0)), *parts, out=["y"], hidden_size=4)
    net.nodes[-1].output[0] = "y"
    counts, _ = check(net.model(y=np.float32))
    assert counts == {"LSTM": 1, "DequantizeLinear": 1}


@pytest.mark.parametrize("kind", ["float", "quantised", "other scale", "absent"])
def test_biases_that_are_multiples_become_quantised_values(kind):
    net = Net(x=(S8, (1, 4, 6, 6)))
    unit, steps = np.float32(SX) * np.float32(SW), np.arange(-600, 600, 200, dtype=S32)
    bias = {
        "float": lambda: [(steps * unit).astype(np.float32)],
        "quantised": lambda: [net.dq(steps, unit, S32(0))],
        "other scale": lambda: [net.dq(steps // 2, 2 * unit, S32(0))],
        "absent": list,
    }[kind]()
    net.q(convolved(net, "x", bias=bias), 0.5, S8(4), out="y")
    _, result = check(net.model(y=S8), step=1)
    held = made(result, only(result, "Conv"), 2)
    assert data(held.inputs[0]).dtype == S32 and data(held.inputs[1]) == unit
    assert data(held.inputs[0]).tolist() == ([0] * 6 if kind == "absent" else steps.tolist())


def test_a_bias_between_the_multiples_stays():
    net = Net(x=(S8, (1, 4, 6, 6)))
    bias = (np.arange(6) * np.float32(SX * SW) * 100.3).astype(np.float32)
    net.q(convolved(net, "x", bias=[bias]), 0.5, S8(4), out="y")
    _, result = check(net.model(y=S8), step=1)
    np.testing.assert_array_equal(data(only(result, "Conv").inputs[2]), bias)


def test_the_bias_added_to_a_product():
    net = Net(x=(S8, (3, 8)))
    scale = np.linspace(0.01, 0.02, 5).astype(np.float32)
    held = net.add("DequantizeLinear", quantised_values(8, 5), scale, np.zeros(5, S8), axis=1)
    product = net.add("MatMul", net.dq("x", SX, S8(3)), held)
    steps = np.array([-700, 0, 100, 300, 500])
    bias = (steps * (np.float32(SX) * scale)).astype(np.float32)
    net.q(net.add("Relu", net.add("Add", bias, product)), 0.3, S8(-128), out="y")
    counts, result = check(net.model(y=S8), step=1)
    assert not counts["Relu"]
    add = only(result, "Add")
    index = next(i for i in (0, 1) if add.inputs[i].producer().op_type == "DequantizeLinear")
    held = made(result, add, index)
    assert data(held.inputs[0]).tolist() == steps.tolist()
    assert held.attributes["axis"].value == 0


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("spelling", ["BatchNormalization", "Mul", "Add"])
def test_scales_behind_a_convolution_of_quantised_values_are_absorbed(channels, spelling):
    net = Net(x=(S8, (1, 4, 6, 6)))
    zero = np.zeros(6 if channels else (), S8)
    weights = np.maximum(quantised_values(6, 4, 3, 3), S8(-127))
    scale = np.linspace(0.01, 0.02, 6).astype(np.float32) if channels else scales(SW)
    held = net.add("DequantizeLinear", weights, scale, zero, axis=0)
    product = net.add("Conv", net.dq("x", SX, S8(3)), held, f32(6))
    factor = np.array([0.5, -0.7, 0, 1.5, -1, 1], np.float32)
    if spelling == "BatchNormalization":
        more = [f32(6), f32(6), np.ones(6, np.float32)]
        last = net.add("BatchNormalization", product, factor, *more)
    else:
        last = net.add(spelling, product, factor.reshape(6, 1, 1))
    net.q(last, 0.3, S8(4), out="y")
    counts, result = check(net.model(y=S8), step=1)
    assert counts["Conv"] == 1 and not counts["Mul"] and not counts["Add"]
    held = made(result, only(result, "Conv"), 1)
    transposed = {"Add": 1}.get(spelling, np.sign(factor).reshape(6, 1, 1, 1))
    np.testing.assert_array_equal(data(held.inputs[0]), weights * transposed)
    assert np.all(data(held.inputs[1]) > 0)


def test_quantised_values_without_a_negative_are_not_negated():
    net = Net(x=(S8, (1, 4, 6, 6)))
    weights = quantised_values(2, 4, 1, 1)
    weights[0, 0] = -128
    product = net.add("Conv", net.dq("x", SX, S8(3)), net.dq(weights, SW, S8(0)))
    net.q(net.add("Mul", product, np.array([[[-1]], [[2]]], np.float32)), 0.3, S8(4), out="y")
    counts, result = check(net.model(y=S8), step=1)
    assert not counts["Mul"] and only(result, "Conv").inputs[1].producer() is None, "float weights"


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8])
@pytest.mark.parametrize("form", ["blocks", "blocks transposed", "columns", "one scale"])
@pytest.mark.parametrize("zeros", [False, True])
def test_many_weights_of_few_bits_stay_packed(kind, form, zeros):
    net, transposed = Net(x=(np.float32, (3, 40))), form == "blocks transposed"
    low, shape = 0 if kind == TensorProto.UINT4 else -8, (7, 40) if transposed else (40, 7)
    fit = {"blocks": (3, 7), "blocks transposed": (7, 3), "columns": (7,), "one scale": ()}[form]
    numbers = np.arange(280) * 7 % 16 + low
    net.consts["w"] = helper.make_tensor("w", kind, shape, numbers.tolist())
    scale = np.linspace(0.1, 0.9, int(np.prod(fit))).astype(np.float32).reshape(fit)
    inputs, more = ["w", scale], {"axis": int(transposed or form == "columns")}
    if zeros:
        held = np.arange(scale.size) % 16 + low
        net.consts["z"] = helper.make_tensor("z", kind, fit, held.tolist())
        inputs.append("z")
    if form.startswith("blocks"):
        more["block_size"] = 16
    weights = net.add("DequantizeLinear", *inputs, **more)
    if transposed:
        weights = net.add("Transpose", weights, perm=[1, 0])
    net.add("MatMul", "x", weights, out="y")
    native = frozenset(["com.microsoft::MatMulNBits"])
    model, run = net.model(y=np.float32), in_onnxruntime
    result = normal(model, native=native, packed_from=280)
    assert only(result, "MatMulNBits").domain == "com.microsoft"
    proto, feeds = ir.to_proto(result), feeds_of(model)
    proto.opset_import[0].version = 21
    np.testing.assert_allclose(run(proto, feeds)[0], run(model, feeds)[0], rtol=1e-4, atol=1e-3)
    assert normal(model, native=native, packed_from=281).graph.num_nodes() == 1
    assert only(normal(model, native=native, packed_from=281), "MatMul")


@pytest.mark.parametrize(
    ("op_type", "constants", "kept"),
    [
        ("Add", quantised_values(8), True),
        ("Add", S8(5), False),
        ("Div", np.arange(1, 9, dtype=S8), False),
    ],
)
def test_constants_that_quantised_values_meet(op_type, constants, kept):
    net = Net(x=(S8, (3, 8)))
    made = net.add(op_type, net.dq("x", SX, S8(3)), net.dq(constants, SW, S8(0)))
    net.q(made, 1.0 if op_type == "Div" else 0.04, S8(4), out="y")
    counts, _ = check(net.model(y=S8))
    assert counts["DequantizeLinear"] == 1 + kept


def test_weights_of_transposed_convolutions_stay():
    net = Net(x=(S8, (1, 4, 5, 5)))
    weights = net.dq(quantised_values(4, 3, 2, 2), SW, S8(0))
    made = net.add("ConvTranspose", net.dq("x", SX, S8(3)), weights, strides=[2, 2])
    net.q(made, 0.3, S8(4), out="y")
    counts, _ = check(net.model(y=S8), step=1)
    assert counts == {"DequantizeLinear": 3, "ConvTranspose": 1, "QuantizeLinear": 1}
