# SPDX-License-Identifier: Apache-2.0
"""Quantised graphs in their one form: parameters, clamps, moves, signs."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto

from aot.ir.graph_nodes import OFFSET_KEY
from aot.load import LoadOptions, load
from aot.normalise import normalise
from quant_graphs import (
    S8,
    S16,
    S32,
    SW,
    SX,
    U8,
    Net,
    check,
    convolved,
    data,
    f32,
    i64,
    made,
    normal,
    only,
    quantised_values,
    scales,
    values,
)

# Parameters


def test_parameters_have_one_spelling():
    net = Net(x=(np.float32, (2, 3)))
    held = net.add("QuantizeLinear", "x", np.array([0.1], np.float32), axis=-1, output_dtype=3)
    net.add("DequantizeLinear", held, np.array([0.1], np.float32), out="y", axis=0)
    _, result = check(net.model(y=np.float32))
    for node in result.graph:
        assert not node.attributes
        assert [list(i.shape) for i in node.inputs[1:]] == [[], []]
        assert data(node.inputs[2]) == 0 and data(node.inputs[2]).dtype == S8


def test_parameters_per_channel_keep_their_axis():
    net = Net(x=(np.float32, (2, 3, 5)))
    scale = scales(0.1, 0.2, 0.3)
    held = net.add("QuantizeLinear", "x", scale, np.array([1, 2, 3], S8), axis=-2)
    net.add("DequantizeLinear", held, scale, np.array([1, 2, 3], S8), out="y")
    _, result = check(net.model(y=np.float32))
    assert [n.attributes["axis"].value for n in result.graph] == [1, 1]


# Moves

MOVES = {
    "Concat": ([("Concat", ["d", "d"], {"axis": 1})], {}),
    "DepthToSpace": ([("DepthToSpace", ["d"], {"blocksize": 2})], {}),
    "Expand": ([("Expand", ["d", "c"], {})], {"c": i64(2, 4, 6, 6)}),
    "Flatten": ([("Flatten", ["d"], {})], {}),
    "Gather": ([("Gather", ["d", "c"], {"axis": 1})], {"c": i64(2, 0, 2)}),
    "GlobalMaxPool": ([("GlobalMaxPool", ["d"], {})], {}),
    "Max": ([("Max", ["d", "d"], {})], {}),
    "MaxPool": ([("MaxPool", ["d"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})], {}),
    "Pad": ([("Pad", ["d", "c"], {})], {"c": i64(0, 0, 1, 1, 0, 0, 1, 2)}),
    "Pad edge": ([("Pad", ["d", "c"], {"mode": "edge"})], {"c": i64(0, 0, 1, 1, 0, 0, 1, 2)}),
    "ReduceMax": ([("ReduceMax", ["d", "c"], {"keepdims": 0})], {"c": i64(1)}),
    "Reshape": ([("Reshape", ["d", "c"], {})], {"c": i64(2, -1)}),
    "Resize": (
        [("Resize", ["d", "", "c"], {"mode": "nearest"})],
        {"c": np.array([1, 1, 2, 2], np.float32)},
    ),
    "Slice": ([("Slice", ["d", "c", "e", "a"], {})], {"c": i64(1), "e": i64(4), "a": i64(2)}),
    "Tile": ([("Tile", ["d", "c"], {})], {"c": i64(1, 2, 1, 1)}),
    "Transpose": ([("Transpose", ["d"], {"perm": [0, 2, 3, 1]})], {}),
    "Where": ([("Where", ["c", "d", "d"], {})], {"c": np.array([True, False] * 3)}),
    "all in a row": (
        [
            ("Transpose", ["d"], {"perm": [0, 2, 3, 1]}),
            ("Reshape", ["m0", "c"], {}),
            ("MaxPool", ["m1"], {"kernel_shape": [2], "strides": [2]}),
            ("Gather", ["m2", "g"], {"axis": 1}),
        ],
        {"c": i64(1, 8, 18), "g": i64(0, 3, 1)},
    ),
}


def moving(name, dtype, zero):
    """DequantizeLinear of an input, the moves, QuantizeLinear with the same parameters."""
    steps, consts = MOVES[name]
    net = Net(x=(dtype, (1, 4, 6, 6)))
    net.consts.update(consts)
    last = net.dq("x", 0.05, dtype(zero), out="d")
    for index, (op_type, inputs, attributes) in enumerate(steps):
        last = net.add(op_type, *inputs, out=f"m{index}", **attributes)
    net.q(last, 0.05, dtype(zero), out="y")
    return net.model(y=dtype)


@pytest.mark.parametrize("dtype", [S8, U8])
@pytest.mark.parametrize("name", sorted(MOVES))
def test_moves_between_equal_parameters_work_on_quantised_values(name, dtype):
    counts, _ = check(moving(name, dtype, 7), varied=2)
    assert not counts["QuantizeLinear"] and not counts["DequantizeLinear"]


@pytest.mark.parametrize("name", ["Concat", "Expand", "Gather", "Reshape", "Slice", "all in a row"])
def test_moves_of_16_bits(name):
    counts, _result = check(moving(name, S16, 0))
    pooled = counts["MaxPool"]  # ONNX has no pool of 16 bits
    assert bool(counts["QuantizeLinear"]) == bool(pooled)


def test_quantisation_rises_above_moves():
    net = Net(x=(np.float32, (1, 2, 6, 6)))
    a = net.add("Transpose", "x", perm=[0, 2, 3, 1])
    b = net.add("MaxPool", a, kernel_shape=[2, 2])
    net.q(b, 0.05, S8(3), out="q")
    net.dq("q", 0.05, S8(3), out="y")
    counts, result = check(net.model(y=np.float32))
    assert next(iter(result.graph)).op_type == "QuantizeLinear"
    assert counts == dict.fromkeys(
        ("QuantizeLinear", "Transpose", "MaxPool", "DequantizeLinear"), 1
    )


def test_quantisation_does_not_rise_above_a_slice_of_a_shared_value():
    net = Net(x=(np.float32, (4, 6)))
    net.add("Relu", "x", out="r")
    net.add("Slice", "r", i64(0), i64(1), i64(0), out="s")
    net.q("s", 0.05, U8(0), out="q")
    net.dq("q", 0.05, U8(0), out="y")
    net.add("Neg", "r", out="z")
    _, result = check(net.model(y=np.float32, z=np.float32))
    shape = list(only(result, "QuantizeLinear").outputs[0].shape)
    assert shape == [1, 6]


def test_parts_of_a_concatenation_are_requantised():
    net = Net(x=(S8, (2, 3)), z=(S8, (2, 3)))
    a, b = net.dq("x", 0.05, S8(1)), net.dq("z", 0.04, S8(1))
    net.q(net.add("Concat", a, b, axis=1), 0.05, S8(1), out="y")
    counts, _ = check(net.model(y=S8))
    assert counts == {"DequantizeLinear": 1, "Concat": 1, "QuantizeLinear": 1}


def test_padding_with_a_number_that_is_no_code_stays():
    net = Net(x=(S8, (2, 3)))
    net.add("Pad", net.dq("x", 0.05, S8(1)), i64(0, 1, 0, 1), np.float32(0.333), out="y")
    _counts, result = check(net.model(y=np.float32))
    assert only(result, "Pad").inputs[0].producer() is only(result, "DequantizeLinear")


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_the_largest_number_is_the_largest_code(op_type):
    net = Net(x=(S8, (4, 9)))
    net.add(op_type, net.dq("x", 0.05, S8(1)), out="y", axis=1)
    counts, _ = check(net.model(y=np.int64), varied=2)
    assert counts == {op_type: 1}


def test_a_table_of_quantised_values_is_looked_up_as_quantised_values():
    net = Net(x=(np.int64, (4,)))
    table = net.dq(quantised_values(9, 6), 0.05, S8(1))
    net.add("Gather", table, np.array([1, 2, 5, 3], np.int64), out="g")
    net.add("Add", "g", f32(6), out="a")
    net.add("Gather", table, "i", out="y")
    net.add("Mod", "x", np.int64(9), out="i")
    net.nodes = [*net.nodes[:3], net.nodes[4], net.nodes[3]]
    _, result = check(net.model(a=np.float32, y=np.float32))
    looked = [n for n in result.graph if n.op_type == "Gather"]
    assert looked and all(n.inputs[0].dtype == ir.DataType.INT8 for n in looked)


# Clamps


@pytest.mark.parametrize(
    ("low", "high", "zero", "kept"),
    [(0, None, -128, False), (0, None, -100, True), (0, 6, -128, False), (0, 3, -128, True)],
)
def test_clamps_that_saturation_implies_vanish(low, high, zero, kept):
    net = Net(x=(np.float32, (3, 9)))
    clamped = net.add("Clip", "x", np.float32(low), *([np.float32(high)] if high else []))
    net.q(clamped, 6 / 255, S8(zero), out="y")
    counts, _ = check(net.model(y=S8))
    assert bool(counts["Clip"] + counts["Relu"]) == kept


def test_relu_of_numbers_without_a_sign_vanishes():
    net = Net(x=(U8, (3, 9)))
    net.add("Relu", net.dq("x", 0.1, U8(0)), out="y")
    counts, _ = check(net.model(y=np.float32))
    assert counts == {"DequantizeLinear": 1}


@pytest.mark.parametrize(("dtype", "ends"), [(U8, (0, 127)), (S8, (-127, 127)), (S8, (-8, 7))])
def test_clips_of_quantised_values_become_clips_of_numbers(dtype, ends):
    net = Net(x=(np.float32, (3, 90)))
    held = net.q("x", 0.02, dtype(0))
    clipped = net.add("Clip", held, dtype(ends[0]), dtype(ends[1]))
    net.dq(clipped, 0.02, dtype(0), out="y")
    counts, result = check(net.model(y=np.float32))
    assert counts == {"Clip": 1, "QuantizeLinear": 1, "DequantizeLinear": 1}
    assert only(result, "Clip").inputs[0] is result.graph.inputs[0]


# Signs


def test_unsigned_quantised_values_become_signed_but_at_the_borders():
    net = Net(x=(U8, (1, 4, 8, 8)))
    first = net.q(net.add("Relu", convolved(net, "x", zx=U8(128))), 0.2, U8(0), out="first")
    pooled = net.add("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2], out="pooled")
    second = net.dq(pooled, 0.2, U8(0))
    weights = net.dq(quantised_values(5, 6, 1, 1), SW, S8(0))
    net.q(net.add("Conv", second, weights), 0.5, U8(100), out="y")
    counts, result = check(net.model(y=U8), step=1)
    found = values(result)
    for name in ("first", "pooled"):
        assert found[name].dtype == ir.DataType.INT8
        assert found[name].metadata_props[OFFSET_KEY] == "128"
    assert result.graph.inputs[0].dtype == result.graph.outputs[0].dtype == ir.DataType.UINT8
    assert OFFSET_KEY not in result.graph.outputs[0].metadata_props
    last = result.graph.outputs[0].producer()
    back = last.inputs[0].producer()
    assert (last.op_type, back.op_type) == ("QuantizeLinear", "DequantizeLinear")
    assert (data(last.inputs[2]), data(back.inputs[2])) == (100, -28)
    conv = next(n for n in result.graph if n.op_type == "Conv")
    assert made(result, conv, 0).inputs[0].dtype == ir.DataType.INT8
    assert data(made(result, conv, 0).inputs[2]) == 0
    assert counts["Relu"] == 0


def test_padding_and_joining_change_with_their_quantised_values():
    net = Net(x=(np.float32, (1, 2, 4, 4)))
    held = net.q("x", 0.05, U8(0))
    padded = net.add("Pad", held, i64(0, 0, 1, 1, 0, 0, 1, 1))
    joined = net.add("Concat", padded, quantised_values(1, 1, 6, 6, dtype=U8), axis=1)
    net.dq(joined, 0.05, U8(0), out="y")
    _, result = check(net.model(y=np.float32))
    assert all(v.dtype != ir.DataType.UINT8 for v in values(result).values())
    assert data(only(result, "Pad").inputs[2]) == -128


def test_quantised_values_others_compute_with_stay_unsigned():
    net = Net(x=(np.float32, (2, 4)))
    held = net.q("x", 0.05, U8(9))
    net.add("Cast", held, out="c", to=TensorProto.INT32)
    net.dq(held, 0.05, U8(9), out="y")
    _, result = check(net.model(c=S32, y=np.float32))
    assert only(result, "QuantizeLinear").outputs[0].dtype == ir.DataType.UINT8


def test_an_inner_value_that_is_also_an_output():
    net = Net(x=(np.float32, (1, 4, 6, 6)))
    held = net.q("x", SX, U8(99), out="held")
    net.q(convolved(net, held, zx=U8(99)), 0.4, U8(9), out="y")
    _, result = check(net.model(held=U8, y=U8), step=1)
    assert [v.dtype for v in result.graph.outputs] == [ir.DataType.UINT8] * 2
    conv = only(result, "Conv")
    assert made(result, conv, 0).inputs[0].dtype == ir.DataType.INT8


# Readers and padding


def test_every_reader_has_its_own_dequantisation():
    net = Net(x=(S8, (1, 4, 6, 6)))
    numbers = net.dq("x", SX, S8(3))
    weights = net.dq(quantised_values(4, 4, 1, 1), SW, S8(0))
    held = net.q(net.add("Conv", numbers, weights), 0.3, S8(1))
    net.q(net.add("Add", numbers, net.dq(held, 0.3, S8(1))), 0.3, S8(1), out="y")
    net.add("Neg", numbers, out="z")
    _, result = check(net.model(y=S8, z=np.float32), step=1)
    for node in result.graph:
        if node.op_type == "DequantizeLinear":
            assert len(list(node.outputs[0].uses())) == 1


def test_activations_spelled_as_products_are_recognised_on_shared_quantised_values():
    net = Net(x=(S8, (3, 8)))
    numbers = net.dq("x", 0.05, S8(3))
    net.q(net.add("Mul", numbers, net.add("Sigmoid", numbers)), 0.05, S8(-90), out="y")
    counts, _ = check(net.model(y=S8))
    assert counts == {"DequantizeLinear": 1, "Swish": 1, "QuantizeLinear": 1}


@pytest.mark.parametrize("requantised", [False, True])
def test_padding_with_the_zero_point_becomes_the_convolution_s(requantised):
    net = Net(x=(U8, (1, 4, 6, 6)))
    held, zero = "x", U8(100)
    if requantised:
        padded = net.add("Pad", net.dq(held, SX, zero), i64(0, 0, 1, 1, 0, 0, 1, 1))
        held = net.q(padded, SX, zero)
    else:
        held = net.add("Pad", held, i64(0, 0, 1, 1, 0, 0, 1, 1), zero)
    net.q(convolved(net, held, zx=zero, strides=[2, 2]), 0.5, U8(90), out="y")
    counts, result = check(net.model(y=U8), step=1)
    assert not counts["Pad"]
    assert list(only(result, "Conv").attributes["pads"].value) == [1, 1, 1, 1]


def test_padding_with_another_code_stays():
    net = Net(x=(S8, (1, 4, 6, 6)))
    held = net.add("Pad", "x", i64(0, 0, 1, 1, 0, 0, 1, 1), S8(9))
    net.q(convolved(net, held), 0.5, S8(4), out="y")
    counts, _ = check(net.model(y=S8), step=1)
    assert counts["Pad"] == 1


def test_quantising_an_input_stays_one_operator():
    net = Net(x=(np.float32, (1, 144)))
    held = net.q(net.add("Reshape", "x", i64(1, 4, 6, 6)), SX, S8(3))
    net.q(convolved(net, held), 0.5, S8(4), out="y")
    counts, result = check(net.model(y=S8), step=1)
    assert next(iter(result.graph)).op_type == "QuantizeLinear"
    assert counts["QuantizeLinear"] == 2


def test_normalising_twice_changes_nothing():
    net = Net(x=(U8, (1, 4, 8, 8)))
    held = net.q(net.add("Relu", convolved(net, "x", zx=U8(128))), 0.2, U8(0))
    net.q(net.add("GlobalAveragePool", net.dq(held, 0.2, U8(0))), 0.2, U8(0), out="y")
    first = normal(net.model(y=U8))
    second = normalise(load(ir.to_proto(first)), LoadOptions())
    assert [n.op_type for n in first.graph] == [n.op_type for n in second.graph]
