# SPDX-License-Identifier: Apache-2.0
"""Models on which onnx.reference and onnxruntime disagree, by their names in docs/oracles.md.

A case is the opset, inputs, outputs and nodes in onnx's text form, and the inputs' arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

INF, NAN = float("inf"), float("nan")


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A model and what it is fed."""

    opset: int
    inputs: str
    outputs: str
    nodes: str
    arrays: tuple[Any, ...]

    def model(self) -> onnx.ModelProto:
        """The model, whose outputs have the shapes they have."""
        return onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : {self.opset}]>'
            f"g ({self.inputs}) => ({self.outputs}) {{ {self.nodes} }}"
        )


def f32(*values: float, shape: tuple[int, ...] | None = None) -> Any:
    """Floats as an array, of one axis unless a shape is said."""
    return np.array(values, np.float32).reshape(shape or (len(values),))


def line(*values: float) -> Any:
    """Floats as an image of one channel and one spatial axis."""
    return f32(*values, shape=(1, 1, len(values)))


def resized(attributes: str, scale: float, *values: float) -> Disagreement:
    """A Resize of a row by a factor."""
    n = len(values)
    nodes = "r = Constant<value = float[0] {}>() "
    nodes += f"s = Constant<value_floats = [1.0, 1.0, 1.0, {scale}]>() "
    nodes += f"y = Resize<{attributes}>(x, r, s)"
    data = f32(*values, shape=(1, 1, 1, n))
    return Disagreement(13, f"float[1,1,1,{n}] x", "float[1,1,1,n] y", nodes, (data,))


def pooled(op: str, attributes: str, *values: float, opset: int = 18) -> Disagreement:
    """A pool over a line."""
    nodes = f"y = {op}<{attributes}>(x)"
    image = line(*values)
    return Disagreement(opset, f"float[1,1,{image.size}] x", "float[1,1,n] y", nodes, (image,))


def row(op: str, opset: int, *values: float, result: str = "float[n] y") -> Disagreement:
    """An operator on a vector."""
    return Disagreement(opset, f"float[{len(values)}] x", result, f"y = {op}(x)", (f32(*values),))


CASES: dict[str, Disagreement] = {
    "resize_align_corners": resized(
        'mode = "linear", coordinate_transformation_mode = "align_corners"', 0.6, 1, 2, 3, 4
    ),
    "resize_factor": resized(
        'mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"',
        *(0.6, *range(10)),
    ),
    "resize_pytorch_one": Disagreement(
        *(18, "float[1,1,1,4] x", "float[1,1,1,n] y"),
        'z = Constant<value_ints = [1, 1, 1, 1]>() y = Resize<mode = "cubic",'
        'coordinate_transformation_mode = "pytorch_half_pixel">(x, , , z)',
        (f32(1, 2, 3, 4, shape=(1, 1, 1, 4)),),
    ),
    "resize_of_integers": Disagreement(
        *(13, "uint8[1,1,1,2] x", "uint8[1,1,1,n] y"),
        "r = Constant<value = float[0] {}>() s = Constant<value_floats = [1.0, 1.0, 1.0, 2.0]>() "
        'y = Resize<mode = "linear">(x, r, s)',
        (np.array([[[[0, 3]]]], np.uint8),),
    ),
    "mean_variance": Disagreement(
        *(13, "float[1,2] x", "float[1,2] y", "y = MeanVarianceNormalization<axes = [1]>(x)"),
        (f32(100.01, 100, shape=(1, 2)),),
    ),
    "lrn": Disagreement(
        *(13, "float[1,3,1,1] x", "float[1,3,1,1] y"),
        "y = LRN<size = 1, alpha = 1.0, beta = 1.0, bias = 1.0>(x)",
        (f32(1, 2, 3, shape=(1, 3, 1, 1)),),
    ),
    "lp_normalization": row("LpNormalization<p = 1, axis = 0>", 13, -1, 3),
    "log_softmax": row("LogSoftmax", 13, 0, 200),
    "cross_entropy": Disagreement(
        *(13, "float[1,2] x, int64[1] t", "float y", "y = SoftmaxCrossEntropyLoss(x, t)"),
        (f32(0, 200, shape=(1, 2)), np.zeros(1, np.int64)),
    ),
    "softmax_of_matrices": Disagreement(
        *(11, "float[1,2,2] x", "float[1,2,2] y", "y = Softmax(x)", (np.zeros((1, 2, 2), "f4"),)),
    ),
    "hardmax_of_matrices": Disagreement(
        *(11, "float[1,2,2] x", "float[1,2,2] y", "y = Hardmax(x)"),
        (f32(0, 1, 2, 3, shape=(1, 2, 2)),),
    ),
    "log_sum_of_nothing": row("ReduceLogSumExp", 18, -INF, -INF),
    "mean_of_nothing": row("ReduceMean", 18),
    "squares_of_integers": Disagreement(
        *(18, "int64[2] x", "int64[1] y", "y = ReduceSumSquare(x)"),
        (np.array([2**31, 1]),),
    ),
    "pool_between_strides": pooled("MaxPool", "kernel_shape = [3], strides = [2]", 1, 2),
    "pool_hangs_over": pooled(
        "MaxPool", "kernel_shape = [3], strides = [2], ceil_mode = 1", 1, opset=22
    ),
    "pool_without_place": pooled("MaxPool", "kernel_shape = [3]", 1, 2),
    "conv_without_place": Disagreement(
        *(18, "float[1,1,2] x", "float[1,1,n] y"),
        "w = Constant<value = float[1,1,3] {1, 1, 1}>() y = Conv(x, w)",
        (line(1, 2),),
    ),
    "max_pool_one_pad": pooled("MaxPool", "kernel_shape = [2], pads = [0, 1]", -1, -2, -3),
    "max_pool_indices": Disagreement(
        *(18, "float[1,1,1,2] x", "float[1,1,1,1] y, int64[1,1,1,1] i"),
        "y, i = MaxPool<kernel_shape = [1, 2], dilations = [1, 1]>(x)",
        (f32(1, 2, shape=(1, 1, 1, 2)),),
    ),
    "conv_of_infinity": Disagreement(
        *(18, "float[1,1,3] x", "float[1,1,n] y"),
        "w = Constant<value = float[1,1,2] {1, 1}>() y = Conv<dilations = [2]>(x, w)",
        (line(1, INF, 2),),
    ),
    "transposed_groups": Disagreement(
        *(18, "float[1,4,1] x", "float[1,2,n] y"),
        "w = Constant<value = float[4,1,1] {1, 10, 100, 1000}>()y = ConvTranspose<group = 2>(x, w)",
        (f32(1, 1, 1, 1, shape=(1, 4, 1)),),
    ),
    "max_pool_nan": pooled("MaxPool", "kernel_shape = [2]", 1, NAN, 2),
    "lp_pool_nan": pooled("LpPool", "kernel_shape = [2], p = 2", NAN, 1),
    "reduce_max_nan": row("ReduceMax", 18, 1, NAN, 2),
    "arg_max_nan": row("ArgMax", 13, 1, NAN, 2, result="int64[1] y"),
    "scatter_nan": Disagreement(
        *(18, "float[2] x, int64[1] i, float[1] u", "float[2] y"),
        'y = ScatterElements<reduction = "max">(x, i, u)',
        (f32(1, 2), np.zeros(1, np.int64), f32(NAN)),
    ),
    "slope_of_infinity": Disagreement(
        *(16, "float[2] x, float[1] s", "float[2] y", "y = PRelu(x, s)", (f32(0, -1), f32(INF)))
    ),
    "cast_to_int32": row("Cast<to = 6>", 13, 3e9, -3e9, NAN, INF, result="int32[4] y"),
    "cast_to_int8": row("Cast<to = 3>", 13, 200, -200, NAN, result="int8[3] y"),
    "cast_to_uint4": Disagreement(
        *(21, "float[3] x", "float[3] y", "h = Cast<to = 21>(x) y = Cast<to = 1>(h)"),
        (f32(4.75, 3.25, 2.5),),
    ),
    "quantize_infinity": Disagreement(
        *(13, "float[2] x", "uint8[2] y"),
        "s = Constant<value = float {1}>() y = QuantizeLinear(x, s)",
        (f32(-INF, INF),),
    ),
    "scale_of_zeros": Disagreement(
        *(13, "float[2] x", "uint8[2] y, float s, uint8 z", "y, s, z = DynamicQuantizeLinear(x)"),
        (f32(0, 0),),
    ),
    "lengths": Disagreement(
        *(14, "float[2,1,1] x", "float[1,1,1] h"),
        "w = Constant<value = float[1,1,1] {1}>() b = Constant<value = float[1,2] {0, 0}>()"
        "l = Constant<value = int32[1] {1}>() y, h = RNN<hidden_size = 1>(x, w, w, b, l)",
        (f32(1, 1, shape=(2, 1, 1)),),
    ),
    "clip_of_states": Disagreement(
        *(14, "float[1,1,1] x", "float[1,1,1] h"),
        "w = Constant<value = float[1,1,1] {1}>() y, h = RNN<hidden_size = 1, clip = 0.5>(x, w, w)",
        (f32(3, shape=(1, 1, 1)),),
    ),
    "absent_peepholes": Disagreement(
        *(14, "float[1,1,1] x, float[1,1,1] c", "float[1,1,1] h"),
        "w = Constant<value = float[1,4,1] {1, 1, 1, 1}>()"
        "r = Constant<value = float[1,4,1] {0, 0, 0, 0}>()"
        "y, h, k = LSTM<hidden_size = 1>(x, w, r, , , , c)",
        (f32(1, shape=(1, 1, 1)), f32(INF, shape=(1, 1, 1))),
    ),
    "unique_in_order": Disagreement(
        *(13, "int64[3] x", "int64[n] y", "y = Unique<sorted = 0>(x)", (np.array([3, 1, 3]),)),
    ),
    "slice_backwards": Disagreement(
        *(13, "float[3] x", "float[n] y"),
        f"s = Constant<value_ints = [2]>() e = Constant<value_ints = [{2**63 - 1}]>()"
        "a = Constant<value_ints = [0]>() t = Constant<value_ints = [-1]>()"
        "y = Slice(x, s, e, a, t)",
        (f32(1, 2, 3),),
    ),
    "bernoulli": row("Bernoulli<seed = 1.0>", 15, 0, 0, 0, 1),
}
