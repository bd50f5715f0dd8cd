# SPDX-License-Identifier: Apache-2.0
"""Operators on quantised values, ONNX's and onnxruntime's, become float operators between Q and
DQ."""

from __future__ import annotations

import numpy as np
import pytest

from quant_graphs import (
    S8,
    S16,
    S32,
    U8,
    Net,
    check,
    in_onnxruntime,
    only,
    quantised_values,
    scales,
)

MS = "com.microsoft"
ONE_STEP = 1.0


def spelled(net, dtype, step=ONE_STEP):
    counts, result = check(net.model(y=dtype), step=step, run=in_onnxruntime)
    assert not any(n.domain or n.op_type.startswith("QLinear") for n in result.graph)
    return counts, result


@pytest.mark.parametrize("dtype", [S8, U8])
@pytest.mark.parametrize("channels", [False, True])
def test_qlinear_conv(dtype, channels):
    net = Net(x=(dtype, (1, 4, 7, 6)))
    scale = scales(*(0.002 * (k + 1) for k in range(6))) if channels else scales(0.004)
    zeros = np.zeros(6 if channels else (), S8)
    inputs = [
        "x",
        scales(0.03),
        dtype(5),
        quantised_values(6, 2, 3, 3),
        scale,
        zeros,
        scales(0.05),
        dtype(9),
    ]
    bias = np.arange(-300, 300, 100, dtype=S32)
    net.add("QLinearConv", *inputs, bias, out="y", group=2, auto_pad="SAME_UPPER", strides=[2, 1])
    counts, result = spelled(net, dtype)
    assert counts["Conv"] == 1
    weights = only(result, "Conv").inputs[1].producer()
    assert ("axis" in weights.attributes) == channels
    unit = only(result, "Conv").inputs[2].producer().inputs[1].const_value.numpy()
    np.testing.assert_array_equal(unit, np.float32(0.03) * scale)


def test_qlinear_conv_with_channels_last():
    net = Net(x=(U8, (1, 7, 6, 4)))
    inputs = ["x", scales(0.03), U8(130), quantised_values(6, 4, 3, 3), scales(0.002), S8(0)]
    net.add("QLinearConv", *inputs, scales(0.05), U8(9), out="y", domain=MS, channels_last=1)
    counts, _ = spelled(net, U8)
    assert counts["Conv"] == 1 and counts["Transpose"] == 2


@pytest.mark.parametrize("columns", [False, True])
def test_qlinear_matmul(columns):
    net = Net(x=(S8, (2, 5, 8)))
    scale = scales(0.01, 0.02, 0.03) if columns else scales(0.02)
    zero = np.zeros(3 if columns else (), S8)
    inputs = ["x", scales(0.03), S8(5), quantised_values(8, 3), scale, zero, scales(0.2), S8(-9)]
    net.add("QLinearMatMul", *inputs, out="y")
    counts, _ = spelled(net, S8)
    assert counts == {"DequantizeLinear": 2, "MatMul": 1, "QuantizeLinear": 1}


def test_parameters_known_at_run_time_take_the_exact_body():
    net = Net(x=(S8, (2, 8)), s=(np.float32, ()))
    inputs = ["x", scales(0.03), S8(5), quantised_values(8, 3), "s", S8(0), scales(4), S8(-9)]
    net.add("QLinearMatMul", *inputs, out="y")
    counts, _ = check(net.model(y=S8), step=1, run=in_onnxruntime, native=frozenset(["::MatMul"]))
    assert counts["MatMul"] == 1 and not counts["DequantizeLinear"]


@pytest.mark.parametrize("op_type", ["Add", "Mul"])
def test_qlinear_binary_with_a_constant(op_type):
    net = Net(x=(U8, (2, 3, 4)))
    inputs = ["x", scales(0.03), U8(120), quantised_values(4, dtype=U8), scales(0.02), U8(100)]
    net.add(f"QLinear{op_type}", *inputs, scales(0.06), U8(90), out="y", domain=MS)
    counts, _ = spelled(net, U8)
    assert counts[op_type] == 1


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [("Sigmoid", {}), ("LeakyRelu", {"alpha": 0.3}), ("Softmax", {"axis": -1, "opset": 13})],
)
def test_qlinear_functions(op_type, attributes):
    net = Net(x=(S8, (3, 8)))
    inputs = ["x", scales(0.05), S8(-3), scales(1 / 128), S8(-10)]
    net.add(f"QLinear{op_type}", *inputs, out="y", domain=MS, **attributes)
    counts, _ = spelled(net, S8)
    assert counts == {"DequantizeLinear": 1, op_type: 1, "QuantizeLinear": 1}


def test_qlinear_softmax_of_opset_12_flattens():
    net = Net(x=(S8, (2, 3, 4)))
    inputs = ["x", scales(0.05), S8(-3), scales(1 / 256), S8(-128)]
    net.add("QLinearSoftmax", *inputs, out="y", domain=MS, axis=1, opset=12)
    _counts, result = spelled(net, S8)
    assert list(only(result, "Softmax").inputs[0].shape) == [2, 12]


@pytest.mark.parametrize("last", [0, 1])
def test_qlinear_pools(last):
    shape = (1, 6, 6, 4) if last else (1, 4, 6, 6)
    ends = [scales(0.05), U8(120), scales(0.04), U8(110)]
    net = Net(x=(U8, shape))
    pooled = net.add(
        *("QLinearAveragePool", "x", *ends),
        domain=MS,
        kernel_shape=[3, 3],
        pads=[1, 1, 0, 0],
        strides=[2, 2],
        channels_last=last,
    )
    ends = [scales(0.04), U8(110), scales(0.03), U8(100)]
    net.add("QLinearGlobalAveragePool", pooled, *ends, out="y", domain=MS, channels_last=last)
    counts, _ = spelled(net, U8)
    assert counts["AveragePool"] == counts["GlobalAveragePool"] == 1
    # One from and one to the order of the file; the two between the pools cancel.
    assert counts["Transpose"] + counts["Reshape"] == 2 * last


def test_qlinear_concat():
    net = Net(a=(S8, (2, 3)), b=(S8, (2, 4)))
    parts = ["a", scales(0.05), S8(1), "b", scales(0.02), S8(2)]
    net.add("QLinearConcat", scales(0.04), S8(3), *parts, out="y", domain=MS, axis=1)
    counts, _ = spelled(net, S8)
    assert counts["Concat"] == 1


@pytest.mark.parametrize("keepdims", [0, 1])
def test_qlinear_reduce_mean(keepdims):
    net = Net(x=(S8, (4, 3, 5)))
    ends = [scales(0.05), S8(3), scales(0.03), S8(4)]
    more = {"domain": MS, "axes": [0, -1], "keepdims": keepdims}
    net.add("QLinearReduceMean", "x", *ends, out="y", **more)

    def by_definition(model, feeds):
        mean = ((feeds["x"] - np.float64(3)) * 0.05).mean((0, 2), keepdims=bool(keepdims))
        return [np.clip(np.rint(mean / 0.03) + 4, -128, 127).astype(S8)]

    counts, _ = check(net.model(y=S8), step=ONE_STEP, run=by_definition, varied=2)
    assert counts["ReduceMean"] == 1


def test_qlinear_where():
    net = Net(c=(np.bool_, (2, 8)), a=(S8, (2, 8)))
    inputs = [
        "c",
        "a",
        scales(0.05),
        S8(1),
        quantised_values(8),
        scales(0.02),
        S8(2),
        scales(0.04),
        S8(3),
    ]
    net.add("QLinearWhere", *inputs, out="y", domain=MS)
    counts, _ = spelled(net, S8)
    assert counts["Where"] == 1


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("quantised", [False, True])
def test_qgemm(transposed, quantised):
    net = Net(x=(S8, (3, 8)))
    weights = quantised_values(5, 8) if transposed else quantised_values(8, 5)
    scale = scales(*(0.01 * (k + 1) for k in range(5)))
    inputs = ["x", scales(0.03), S8(4), weights, scale, np.zeros(5, S8)]
    inputs += [np.arange(-200, 300, 100, dtype=S32)]
    inputs += [scales(0.3), S8(7)] if quantised else []
    net.add("QGemm", *inputs, out="y", domain=MS, transB=transposed, alpha=0.5)
    step = 1.0 if quantised else 1e-4
    _counts, result = spelled(net, S8 if quantised else np.float32, step)
    gemm = only(result, "Gemm")
    assert "transB" not in gemm.attributes and "alpha" not in gemm.attributes
    if quantised:
        bias = gemm.inputs[2].producer().inputs[0].const_value.numpy()
        assert bias.dtype == S32 and bias.tolist() == [-200, -100, 0, 100, 200]
    else:
        assert not gemm.inputs[1].producer(), "only float operators read the weights"


def test_products_of_dynamically_quantised_inputs():
    net = Net(x=(np.float32, (3, 8)))
    inputs = [quantised_values(8, 5), scales(0.03), S8(0), np.arange(5, dtype=np.float32)]
    net.add("DynamicQuantizeMatMul", "x", *inputs, out="y", domain=MS)
    counts, _ = check(net.model(y=np.float32), run=in_onnxruntime, step=1e-4)
    assert counts["MatMulInteger"] == counts["DynamicQuantizeLinear"] == 1


def test_matmul_integer_to_float():
    net = Net(x=(U8, (3, 8)))
    column = scales(0.1, 0.2, 0.3, 0.4, 0.5)
    inputs = [quantised_values(8, 5), scales(0.03), column, U8(120), np.zeros(5, S8)]
    net.add("MatMulIntegerToFloat", "x", *inputs, out="y", domain=MS)
    counts, _ = check(net.model(y=np.float32), run=in_onnxruntime, step=1e-3)
    assert counts["MatMulInteger"] == 1


def test_quantise_and_dequantise_of_onnxruntime_are_the_standard_ones():
    net = Net(x=(np.float32, (3, 8)))
    held = net.add("QuantizeLinear", "x", scales(0.001), S16(5), domain=MS)
    net.add("DequantizeLinear", held, scales(0.001), S16(5), out="y", domain=MS)
    counts, _result = spelled(net, np.float32, 1e-5)
    assert counts == {"QuantizeLinear": 1, "DequantizeLinear": 1}
