# SPDX-License-Identifier: Apache-2.0
"""Each pass: what the graph becomes, and that it still computes the same."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto as T, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from aot.load import LoadOptions, load
from aot.normalise import normalise
from aot.vendor.cases import i64
from needs import need_module
from normalise_graphs import f32, gelu, model_of, node, only, run


def test_identity_dropout_and_same_type_cast_vanish():
    nodes = [
        node("Identity", ["x"], ["a"]),
        node("Dropout", ["a"], ["b"]),
        node("Cast", ["b"], ["c"], to=T.FLOAT),
        node("Relu", ["c"], ["y"]),
    ]
    counts, _ = run(model_of(nodes, {"x": (2, 3)}, ["y"]))
    assert counts == {"Relu": 1}


def test_input_given_as_output_and_constant_output_keep_their_names():
    nodes = [node("Relu", ["x"], ["y"])]
    counts, result = run(model_of(nodes, {"x": (2,)}, ["x", "y", "c"], {"c": f32(3)}))
    assert counts == {"Relu": 1, "Identity": 2}
    assert len({v.name for v in result.graph.outputs}) == 3


def test_shape_arithmetic_folds_into_one_reshape():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "axis0"], ["n1"]),
        node("Concat", ["n1", "minus1"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["r"]),
        node("Unsqueeze", ["r", "axis0"], ["u"]),
        node("Squeeze", ["u", "axis0"], ["y"]),
    ]
    ints = {
        "zero": np.int64(0),
        "axis0": np.array([0], np.int64),
        "minus1": np.array([-1], np.int64),
    }
    counts, result = run(model_of(nodes, {"x": (2, 3, 4)}, ["y"], ints))
    assert counts == {"Reshape": 1}
    assert only(result, "Reshape").inputs[1].const_value.numpy().tolist() == [2, 12]


@pytest.mark.parametrize("opset", [14, 15, 28])
def test_batch_norm_folds_into_conv(opset):
    nodes = [
        node("Conv", ["x", "w"], ["c"], auto_pad="SAME_UPPER", strides=[2, 2]),
        node("BatchNormalization", ["c", "g", "b", "m", "v"], ["y"]),
    ]
    constants = {"w": f32(5, 3, 3, 3), "g": f32(5), "b": f32(5), "m": f32(5), "v": abs(f32(5))}
    counts, result = run(model_of(nodes, {"x": (1, 3, 7, 6)}, ["y"], constants, opset))
    assert counts == {"Conv": 1}
    conv = only(result, "Conv")
    assert list(conv.attributes["pads"].value) == [1, 0, 1, 1]
    assert "auto_pad" not in conv.attributes
    assert conv.outputs[0].name == "y"


def test_batch_norm_is_kept_for_a_backend_that_asks():
    nodes = [node("BatchNormalization", ["x", "g", "b", "m", "v"], ["y"])]
    constants = {"g": f32(5), "b": f32(5), "m": f32(5), "v": abs(f32(5))}
    model = model_of(nodes, {"x": (1, 5, 2)}, ["y"], constants)
    assert run(model, keeps=frozenset({"BatchNormalization"}))[0] == {"BatchNormalization": 1}
    assert run(model)[0] == {"Mul": 1, "Add": 1}


def in_onnxruntime(proto, feeds):
    ort = need_module("onnxruntime")
    proto.opset_import[0].version = 21
    proto.ir_version = 9
    for info in proto.graph.output:
        info.type.tensor_type.elem_type = T.FLOAT
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


@pytest.mark.parametrize("group", [1, 2])
def test_batch_norm_folds_into_conv_transpose(group):
    nodes = [
        node("ConvTranspose", ["x", "w", "cb"], ["c"], strides=[2, 2], group=group),
        node("BatchNormalization", ["c", "g", "b", "m", "v"], ["y"]),
    ]
    constants = {"w": f32(4, 3, 2, 2), "cb": f32(3 * group)}
    constants |= {"g": f32(3 * group), "b": f32(3 * group), "m": f32(3 * group)}
    constants["v"] = abs(f32(3 * group))
    model = model_of(nodes, {"x": (1, 4, 3, 3)}, ["y"], constants, opset=21)
    feeds = {"x": f32(1, 4, 3, 3)}
    (want,) = in_onnxruntime(model, feeds)
    result = normalise(load(model))
    assert [n.op_type for n in result.graph] == ["ConvTranspose"]
    (got,) = in_onnxruntime(ir.to_proto(result), feeds)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_scale_shift_and_negation_fold_into_conv():
    nodes = [
        node("Conv", ["x", "w", "cb"], ["c"]),
        node("Mul", ["c", "s"], ["d"]),
        node("Sub", ["t", "d"], ["e"]),
        node("Div", ["e", "three"], ["f"]),
        node("Neg", ["f"], ["y"]),
    ]
    constants = {"w": f32(4, 3, 1, 1), "cb": f32(4), "s": f32(4, 1, 1), "t": f32(1, 4, 1, 1)}
    constants["three"] = np.float32(3)
    counts, _ = run(model_of(nodes, {"x": (2, 3, 4, 4)}, ["y"], constants))
    assert counts == {"Conv": 1}


def test_a_shared_conv_is_not_scaled():
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Mul", ["c", "s"], ["d"]),
        node("Add", ["c", "d"], ["y"]),
    ]
    constants = {"w": f32(4, 3, 1, 1), "s": f32(4, 1, 1)}
    counts, _ = run(model_of(nodes, {"x": (1, 3, 2, 2)}, ["y"], constants))
    assert counts == {"Conv": 1, "Mul": 1, "Add": 1}


def test_two_scale_layers_before_an_activation_become_one():
    nodes = [
        node("BatchNormalization", ["x", "g", "b", "m", "v"], ["n"]),
        node("Mul", ["n", "s"], ["o"]),
        node("Add", ["o", "t"], ["p"]),
        node("Relu", ["p"], ["y"]),
    ]
    constants = {"g": f32(5), "b": f32(5), "m": f32(5), "v": abs(f32(5))}
    constants |= {"s": f32(5, 1, 1), "t": f32(5, 1, 1)}
    counts, _ = run(model_of(nodes, {"x": (1, 5, 3, 3)}, ["y"], constants))
    assert counts == {"Mul": 1, "Add": 1, "Relu": 1}


def test_pads_merge_into_conv():
    nodes = [node("Pad", ["x", "p"], ["a"]), node("Conv", ["a", "w"], ["y"], pads=[1, 0, 0, 0])]
    constants = {"w": f32(4, 3, 3, 3), "p": np.array([0, 0, 1, 2, 0, 0, 3, 4], np.int64)}
    counts, result = run(model_of(nodes, {"x": (1, 3, 5, 5)}, ["y"], constants))
    assert counts == {"Conv": 1}
    assert list(only(result, "Conv").attributes["pads"].value) == [2, 2, 3, 4]


@pytest.mark.parametrize(("op", "fill"), [("LpPool", 0), ("MaxPool", -np.inf)])
def test_pads_merge_into_pools_that_pad_with_the_same_number(op, fill):
    nodes = [
        node("Pad", ["x", "p", "v"], ["a"]),
        node(op, ["a"], ["y"], kernel_shape=[3, 3], strides=[2, 1]),
        node("Pad", ["x", "p", "one"], ["b"]),
        node(op, ["b"], ["z"], kernel_shape=[3, 3]),
    ]
    constants = {"p": np.array([0, 0, 1, 2, 0, 0, 1, 0], np.int64)}
    constants |= {"v": np.float32(fill), "one": np.float32(1)}
    counts, result = run(model_of(nodes, {"x": (1, 3, 5, 5)}, ["y", "z"], constants))
    assert counts == {"Pad": 1, op: 2}
    merged = [n for n in result.graph if n.op_type == op and n.inputs[0].is_graph_input()]
    assert list(merged[0].attributes["pads"].value) == [1, 2, 1, 0]


def test_channel_padding_stays():
    nodes = [node("Pad", ["x", "p"], ["a"]), node("Conv", ["a", "w"], ["y"])]
    constants = {"w": f32(4, 4, 1, 1), "p": np.array([0, 0, 0, 0, 0, 1, 0, 0], np.int64)}
    counts, _ = run(model_of(nodes, {"x": (1, 3, 5, 5)}, ["y"], constants))
    assert counts == {"Pad": 1, "Conv": 1}


@pytest.mark.parametrize(
    ("alpha", "beta", "trans_b", "bias"),
    [(1.0, 1.0, 1, (4,)), (0.5, 2.0, 1, (1, 4)), (0.25, 0.5, 0, ()), (1.0, 1.0, 0, (3, 4))],
)
def test_gemm_has_one_form(alpha, beta, trans_b, bias):
    nodes = [node("Gemm", ["x", "w", "b"], ["y"], alpha=alpha, beta=beta, transB=trans_b)]
    constants = {"w": f32(4, 5) if trans_b else f32(5, 4), "b": f32(*bias)}
    counts, result = run(model_of(nodes, {"x": (3, 5)}, ["y"], constants))
    assert counts == {"Gemm": 1}
    gemm = only(result, "Gemm")
    assert not set(gemm.attributes) & {"alpha", "beta", "transB"}
    assert tuple(gemm.inputs[1].shape) == (5, 4)
    assert tuple(gemm.inputs[2].shape) in {(4,), (3, 4)}


def test_transposes_around_elementwise_operators_cancel():
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[0, 3, 1, 2]),
        node("Add", ["a", "c"], ["b"]),
        node("Relu", ["b"], ["d"]),
        node("Transpose", ["d"], ["y"], perm=[0, 2, 3, 1]),
    ]
    counts, _ = run(model_of(nodes, {"x": (1, 4, 5, 3)}, ["y"], {"c": f32(3, 1, 1)}))
    assert counts == {"Add": 1, "Relu": 1}


def test_transposes_pass_concat_pad_slice_softmax_and_reductions():
    ints = {
        "p": np.array([0, 1, 0, 0, 0, 2], np.int64),
        "starts": np.array([1], np.int64),
        "ends": np.array([9], np.int64),
        "axes": np.array([1], np.int64),
        "last": np.array([1], np.int64),
    }
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[0, 2, 1]),
        node("Transpose", ["z"], ["b"], perm=[0, 2, 1]),
        node("Concat", ["a", "b"], ["c"], axis=-1),
        node("Pad", ["c", "p"], ["d"]),
        node("Slice", ["d", "starts", "ends", "axes"], ["e"]),
        node("Softmax", ["e"], ["f"], axis=1),
        node("Transpose", ["f"], ["g"], perm=[0, 2, 1]),
        node("Transpose", ["f"], ["h"], perm=[2, 0, 1]),
        node("ReduceSum", ["h", "last"], ["y2"], keepdims=0),
        node("Relu", ["g"], ["y"]),
    ]
    run(model_of(nodes, {"x": (2, 3, 4), "z": (2, 5, 4)}, ["y", "y2"], ints))
    nodes = nodes[:7] + nodes[9:]
    counts, _ = run(model_of(nodes, {"x": (2, 3, 4), "z": (2, 5, 4)}, ["y"], ints))
    assert "Transpose" not in counts


@pytest.mark.parametrize("keep", [0, 1])
def test_reductions_of_transposed_tensors(keep):
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[2, 0, 3, 1]),
        node("ReduceMax", ["a", "axes"], ["y"], keepdims=keep),
    ]
    axes = {"axes": np.array([-1], np.int64)}
    run(model_of(nodes, {"x": (2, 3, 4, 5)}, ["y"], axes))


def test_means_over_space_are_global_pools():
    nodes = [
        node("ReduceMean", ["x", "axes"], ["y"], keepdims=0),
        node("ReduceMax", ["x", "axes"], ["z"]),
        node("AveragePool", ["x"], ["q"], kernel_shape=[4, 5]),
    ]
    axes = {"axes": np.array([-1, 2], np.int64)}
    counts, _ = run(model_of(nodes, {"x": (2, 3, 4, 5)}, ["y", "z", "q"], axes))
    assert counts["GlobalMaxPool"] == 1 and counts["GlobalAveragePool"] >= 1
    assert not set(counts) & {"ReduceMean", "ReduceMax", "AveragePool"}


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("size", [6, 7, 8])
def test_ceil_mode_becomes_padding(op, size):
    nodes = [node(op, ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1)]
    counts, result = run(model_of(nodes, {"x": (1, 2, size, size)}, ["y"]))
    assert counts == {op: 1}
    assert "ceil_mode" not in only(result, op).attributes


def test_split_and_gather_become_slices():
    nodes = [
        node("Split", ["x", "sizes"], ["a", "b"], axis=-1),
        node("Gather", ["a", "one"], ["c"], axis=1),
        node("Gather", ["b", "evens"], ["d"], axis=1),
        node("Relu", ["c"], ["y"]),
        node("Relu", ["d"], ["z"]),
    ]
    ints = {
        "sizes": np.array([2, 4], np.int64),
        "one": np.array(-1, np.int64),
        "evens": np.array([0, 2], np.int64),
    }
    counts, _ = run(model_of(nodes, {"x": (2, 3, 6)}, ["y", "z"], ints))
    assert counts == {"Slice": 2, "Reshape": 1, "Relu": 2}


@pytest.mark.parametrize(
    ("starts", "ends", "steps"),
    [([-3], [99], [2]), ([99], [-99], [-1]), ([3], [0], [-2]), ([-1], [-4], [-1]), ([2], [2], [1])],
)
def test_slices_are_normalised_in_bounds(starts, ends, steps):
    nodes = [node("Slice", ["x", "s", "e", "a", "t"], ["y"])]
    ints = {
        k: np.array(v, np.int64) for k, v in zip("seat", (starts, ends, [-1], steps), strict=True)
    }
    run(model_of(nodes, {"x": (2, 5)}, ["y"], ints))


def test_equal_nodes_and_constants_merge():
    nodes = [
        node("Add", ["x", "c"], ["a"]),
        node("Add", ["x", "d"], ["b"]),
        node("Mul", ["a", "b"], ["y"]),
    ]
    value = f32(3)
    counts, _ = run(model_of(nodes, {"x": (2, 3)}, ["y"], {"c": value, "d": value.copy()}))
    assert counts == {"Add": 1, "Mul": 1}


def test_clamps_merge_and_get_their_plain_names():
    six, zero = np.float32(6), np.float32(0)
    nodes = [
        node("Max", ["x", "zero"], ["a"]),
        node("Min", ["six", "a"], ["b"]),
        node("Clip", ["x", "zero"], ["c"]),
        node("Add", ["b", "c"], ["y"]),
    ]
    counts, result = run(model_of(nodes, {"x": (2, 3)}, ["y"], {"six": six, "zero": zero}))
    assert counts == {"Clip": 1, "Relu": 1, "Add": 1}
    bounds = [float(v.const_value.numpy()) for v in only(result, "Clip").inputs[1:]]
    assert bounds == [0, 6]


def test_integer_clips_are_left_alone():
    nodes = [node("Max", ["x", "c"], ["y"])]
    constants = {"c": np.array([1], np.int64)}
    counts, _ = run(model_of(nodes, {"x": (T.INT64, (2, 3))}, ["y"], constants))
    assert counts == {"Max": 1}


def test_exact_arithmetic_rewrites():
    nodes = [
        node("Sum", ["x", "z", "x"], ["a"]),
        node("Sub", ["a", "two"], ["b"]),
        node("Div", ["b", "four"], ["c"]),
        node("Pow", ["c", "two"], ["d"]),
        node("Div", ["d", "three"], ["y"]),
    ]
    constants = {k: np.float32(v) for k, v in (("two", 2), ("three", 3), ("four", 4))}
    counts, _ = run(model_of(nodes, {"x": (2, 3), "z": (3,)}, ["y"], constants))
    assert counts == {"Add": 3, "Mul": 2, "Div": 1}


def test_expand_before_a_broadcasting_operator_vanishes():
    nodes = [node("Expand", ["x", "s"], ["a"]), node("Mul", ["a", "z"], ["y"])]
    shape = {"s": np.array([2, 3, 4], np.int64)}
    counts, _ = run(model_of(nodes, {"x": (3, 1), "z": (2, 3, 4)}, ["y"], shape))
    assert counts == {"Mul": 1}


def test_an_expanded_mask_is_averaged_before_it_is_expanded():
    """The pooling behind a transformer: masked rows count in neither sum."""
    nodes = [
        node("Unsqueeze", ["m", "two"], ["u"]),
        node("Expand", ["u", "s"], ["e"]),
        node("Cast", ["e"], ["c"], to=1),
        node("Mul", ["x", "c"], ["p"]),
        node("ReduceSum", ["p", "one"], ["t"], keepdims=0),
        node("ReduceSum", ["c", "one"], ["n"], keepdims=0),
        node("Clip", ["n", "least"], ["d"]),
        node("Div", ["t", "d"], ["y"]),
    ]
    constants = {"two": i64(2), "one": i64(1), "s": i64(1, 4, 6), "least": np.float32(1e-9)}
    inputs = {"m": (T.INT64, (1, 4)), "x": (1, 4, 6)}
    counts, result = run(model_of(nodes, inputs, ["y"], constants))
    assert counts == {"Reshape": 1, "Cast": 1, "Mul": 1, "ReduceSum": 2, "Clip": 1, "Div": 1}
    assert tuple(only(result, "Clip").outputs[0].shape) == (1, 1)


@pytest.mark.parametrize(
    ("shape", "axes", "keeps", "left"),
    [
        ((3, 1), [0], 1, {"ReduceMax", "Expand"}),
        ((3, 1), [0], 0, {"ReduceMax", "Expand"}),
        ((3, 1), [-1], 1, {"Expand", "ReduceMax"}),  # the axis that grows is reduced: it stays
        ((1,), [0], 1, {"Expand", "ReduceMax"}),  # so does an Expand that adds an axis
    ],
)
def test_an_expand_sinks_below_reductions_along_other_axes(shape, axes, keeps, left):
    nodes = [
        node("Expand", ["x", "s"], ["a"]),
        node("ReduceMax", ["a", "r"], ["b"], keepdims=keeps),
        node("Relu", ["b"], ["y"]),
    ]
    constants = {"s": i64(3, 4), "r": i64(*axes)}
    counts, result = run(model_of(nodes, {"x": shape}, ["y"], constants))
    assert set(counts) == left | {"Relu"}
    sunk = axes == [0] and len(shape) == 2
    assert (only(result, "Expand").inputs[0].is_graph_input()) != sunk


def test_equal_casts_of_one_value_in_two_shapes_are_one():
    nodes = [
        node("Reshape", ["x", "s"], ["a"]),
        node("Reshape", ["x", "t"], ["b"]),
        node("Cast", ["a"], ["c"], to=7),
        node("Cast", ["b"], ["d"], to=7),
        node("ReduceSum", ["c"], ["y"], keepdims=0),
        node("Neg", ["d"], ["z"]),
    ]
    constants = {"s": i64(3, 4), "t": i64(1, 12)}
    counts, _ = run(model_of(nodes, {"x": (12,)}, ["y", "z"], constants))
    assert counts == {"Cast": 1, "Reshape": 2, "ReduceSum": 1, "Neg": 1}


def test_if_with_a_bound_condition_is_inlined():
    then = helper.make_graph(
        [node("Relu", ["x"], ["t"])], "then", [], [helper.make_tensor_value_info("t", 1, None)]
    )
    other = helper.make_graph(
        [node("Add", ["x", "k"], ["e"])],
        "else",
        [],
        [helper.make_tensor_value_info("e", 1, None)],
        [numpy_helper.from_array(f32(3), "k")],
    )
    nodes = [node("If", ["flag"], ["y"], then_branch=then, else_branch=other)]
    model = model_of(nodes, {"flag": (T.BOOL, ()), "x": (2, 3)}, ["y"])
    for flag, op in ((True, "Relu"), (False, "Add")):
        result = normalise(load(model, LoadOptions(bindings={"flag": flag})))
        assert [n.op_type for n in result.graph] == [op]
        assert [v.name for v in result.graph.inputs] == ["x"]


def test_unused_recurrent_outputs_and_neutral_inputs_vanish():
    nodes = [
        node("LSTM", ["x", "w", "r", "b", "lens", "h0"], ["a", "h", "c"], hidden_size=2),
        node("Relu", ["h"], ["y"]),
    ]
    constants = {"w": f32(1, 8, 3), "r": f32(1, 8, 2), "b": f32(1, 16)}
    constants |= {"lens": np.array([4], np.int32), "h0": np.zeros((1, 1, 2), np.float32)}
    counts, result = run(model_of(nodes, {"x": (4, 1, 3)}, ["y"], constants))
    lstm = only(result, "LSTM")
    assert [bool(o.name) for o in lstm.outputs] == [False, True]
    assert [i is None for i in lstm.inputs] == [False] * 4 or len(lstm.inputs) == 4
    assert counts["Relu"] == 1


def test_old_upsample_keeps_its_sampling_rule():
    nodes = [node("Upsample", ["x", "s"], ["y"], mode="linear")]
    constants = {"s": np.array([1, 1, 2, 2], np.float32)}
    model = model_of(nodes, {"x": (1, 1, 2, 2)}, ["y"], constants, opset=9)
    result = normalise(load(model))
    resize = only(result, "Resize")
    assert resize.attributes["coordinate_transformation_mode"].value == "asymmetric"
    x = np.array([[[[0, 1], [2, 3]]]], np.float32)
    (got,) = ReferenceEvaluator(ir.to_proto(result)).run(None, {"x": x})
    assert got[0, 0, 0].tolist() == [0, 0.5, 1, 1]


def test_normalising_twice_changes_nothing():
    from aot.load import model_text

    nodes, constants = gelu("tanh")
    model = normalise(load(model_of(nodes, {"x": (3, 5)}, ["y"], constants)))
    first = model_text(model)
    assert model_text(normalise(model)) == first
