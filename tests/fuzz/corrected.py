# SPDX-License-Identifier: Apache-2.0
"""What onnx.reference computes in another way than ONNX says, written again from its text.

`OPERATORS` are classes for ReferenceEvaluator; those of short floats compute in float32 and round
once, where its own round after every step or give another type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, inliner
from onnx.numpy_helper import from_array, to_array
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from fuzz.sliding import AveragePool, Conv, ConvTranspose, LpPool, MaxPool
from fuzz.written import Array, Written, held

SHORT = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


def is_short(array: Any) -> bool:
    """Whether the elements are of a float type of 16 bits."""
    return isinstance(array, np.ndarray) and array.dtype.name in ("float16", "bfloat16")


class LRN(Written):
    """The sum runs over `size` channels around each."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        x = inputs[0].astype(np.float64)
        size, channels = attrs["size"], x.shape[1]
        before, after = (size - 1) // 2, size // 2
        total = np.stack(
            [(x[:, max(0, c - before) : c + after + 1] ** 2).sum(axis=1) for c in range(channels)],
            axis=1,
        )
        base = attrs.get("bias", 1.0) + attrs.get("alpha", 1e-4) / size * total
        return np.asarray(x / base ** attrs.get("beta", 0.75)).astype(inputs[0].dtype)


class LpNormalization(Written):
    """The norm is of absolute values."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        x = inputs[0].astype(np.float64)
        order, axis = attrs.get("p", 2), attrs.get("axis", -1)
        total = (np.abs(x) ** order).sum(axis=axis, keepdims=True)
        norm = held(total, inputs[0].dtype) ** (1.0 / order)
        return np.where(norm == 0, 0.0, x / norm).astype(inputs[0].dtype)


class LogSoftmax(Written):
    """The logarithm of what is too small for a float32, too."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        x, axis = inputs[0].astype(np.float64), attrs.get("axis", -1)
        moved = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
        total = np.exp(moved).sum(axis=axis, keepdims=True)
        return np.asarray(moved - np.log(total)).astype(inputs[0].dtype)


class SoftmaxCrossEntropyLoss(Written):
    """The logarithm of what is too small for a float32, as in LogSoftmax."""

    def _run(self, *inputs: Any, **_: Any) -> tuple[Array, ...]:
        attrs = {a.name: helper.get_attribute_value(a) for a in self.onnx_node.attribute}
        x, labels = inputs[0].astype(np.float64), inputs[1]
        weights = inputs[2] if len(inputs) > 2 and inputs[2] is not None else np.ones(x.shape[1])
        with np.errstate(all="ignore"):
            logs = LogSoftmax.compute({"axis": 1}, x)
            left_out = labels == attrs.get("ignore_index", -(1 << 40))
            known = np.where(left_out, 0, labels)
            each = np.where(left_out, 0.0, weights.astype(np.float64)[known])
            loss = -np.take_along_axis(logs, known[:, None], 1)[:, 0] * each
            loss = np.where(left_out, 0.0, loss)
            way = attrs.get("reduction", b"mean").decode()
            total = loss if way == "none" else loss.sum()
            total = total / each.sum() if way == "mean" else total
            made = [np.asarray(a).astype(inputs[0].dtype) for a in (total, logs)]
        return tuple(made[: len(self.onnx_node.output)])


class Erf(Written):
    """All digits of a float64."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        del attrs
        x = inputs[0].astype(np.float64)
        return np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape).astype(inputs[0].dtype)


class Gelu(Written):
    """All digits of a float64."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        x = inputs[0].astype(np.float64)
        if attrs.get("approximate", b"none") == b"tanh":
            part = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        else:
            part = Erf.compute({}, x / math.sqrt(2))
        return np.asarray(x / 2 * (1 + part)).astype(inputs[0].dtype)


class PRelu(Written):
    """Zero is not below zero: it is no product with the slope."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        del attrs
        x, slope = inputs
        return np.where(x < 0, x * slope, x).astype(x.dtype)


class ScatterElements(Written):
    """The extreme of a NaN is NaN, as in ScatterND."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        data, indices, updates = inputs
        axis, way = attrs.get("axis", 0), attrs.get("reduction", b"none").decode()
        steps = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
        y = data.copy()
        for at in np.ndindex(*indices.shape):
            to = list(at)
            to[axis] = indices[at]  # negative ones count from the end
            old = y[tuple(to)]
            y[tuple(to)] = updates[at] if way == "none" else steps[way](old, updates[at])
        return np.asarray(y)


class GlobalMaxPool(Written):
    """The largest of each channel, whatever the rank."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        del attrs
        return np.asarray(inputs[0].max(axis=tuple(range(2, inputs[0].ndim)), keepdims=True))


class GlobalLpPool(Written):
    """The norm of each channel."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        x, order = inputs[0].astype(np.float64), attrs.get("p", 2)
        total = (np.abs(x) ** order).sum(axis=tuple(range(2, x.ndim)), keepdims=True)
        return np.asarray(held(total, inputs[0].dtype) ** (1.0 / order)).astype(inputs[0].dtype)


def axes_of(attrs: dict[str, Any], *inputs: Any) -> tuple[int, ...] | None:
    """What a reduction runs over: None is all axes, () none."""
    axes = attrs.get("axes", ())
    axes = tuple(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else tuple(axes)
    return axes or (() if attrs.get("noop_with_empty_axes", 0) else None)


class ReduceLogSumExp(Written):
    """The sum of nothing but zeros has the logarithm minus infinity, one with infinity infinity."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        x, axes = inputs[0].astype(np.float64), axes_of(attrs, *inputs)
        top = x.max(axis=axes, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0.0)
        total = np.log(np.exp(x - top).sum(axis=axes, keepdims=True)) + top
        if not attrs.get("keepdims", 1):
            total = total.squeeze(axes)
        return np.asarray(total.astype(inputs[0].dtype))


class ReduceSumSquare(Written):
    """Integers stay of their type."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        x, kept = inputs[0], bool(attrs.get("keepdims", 1))
        axes = axes_of(attrs, *inputs)
        return np.asarray((x * x).sum(axis=axes, keepdims=kept, dtype=x.dtype))


class AffineGrid(Written):
    """The grid has the type of theta."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        theta, sides = inputs[0].astype(np.float64), [int(n) for n in inputs[1][2:]]
        if attrs.get("align_corners", 0):
            lines = [np.linspace(-1.0, 1.0, n) for n in sides]
        else:
            lines = [(2.0 * np.arange(n) + 1.0) / n - 1.0 for n in sides]
        grid = np.meshgrid(*lines, indexing="ij")
        points = np.stack([*grid[::-1], np.ones(sides)], axis=-1)
        spots = np.einsum("nij,...j->n...i", theta, points)
        return np.asarray(spots.astype(inputs[0].dtype))


class DynamicQuantizeLinear(Written):
    """The scale of nothing but zeros is 1, as in onnxruntime; ONNX does not say."""

    def _run(self, *inputs: Any, **_: Any) -> tuple[Array, ...]:
        x = inputs[0]
        low, high = np.minimum(x.min(), np.float32(0)), np.maximum(x.max(), np.float32(0))
        scale = (high - low) / np.float32(255) if high > low else np.float32(1)
        zero = np.rint(np.clip(-low / scale, 0, 255))
        quantised = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
        return quantised, np.asarray(scale, np.float32), np.asarray(zero, np.uint8)


class StringNormalizer(Written):
    """Stop words are whole strings; an empty string stays."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        plain = {b"LOWER": str.lower, b"UPPER": str.upper}
        change = plain.get(attrs.get("case_change_action", b"NONE"), str)
        same = str if attrs.get("is_case_sensitive", 0) else str.lower
        stops = {same(w.decode()) for w in attrs.get("stopwords", [])}
        words = [str(w) for w in inputs[0].reshape(-1)]
        kept = [change(w) for w in words if same(w) not in stops] or [""]
        return np.array(kept, object).reshape([1, -1] if inputs[0].ndim == 2 else [-1])


class MatMulNBits(Written):
    """A product with weights of 2 to 8 bits, packed from the low bits on, a scale per block."""

    op_domain = "com.microsoft"

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        a, packed, scales, zeros, order, bias = (*inputs, *[None] * (6 - len(inputs)))
        n, k = attrs["N"], attrs["K"]
        bits, block = attrs.get("bits", 4), attrs["block_size"]
        if order is not None or 8 % bits:
            raise ValueError("an order of columns, or bits across bytes")
        blocks = -(-k // block)
        quantised = unpacked(packed.reshape(n, -1), bits)[:, : blocks * block]
        middle = np.full((n, blocks), float(2 ** (bits - 1)))
        if zeros is not None:
            packed_too = zeros.dtype == np.uint8
            middle = unpacked(zeros.reshape(n, -1), bits) if packed_too else zeros.reshape(n, -1)
        w = quantised.reshape(n, blocks, block) - middle[:, :blocks, None].astype(np.float64)
        w = (w * scales.reshape(n, blocks, 1).astype(np.float64)).reshape(n, -1)[:, :k]
        y = a.astype(np.float64) @ w.T
        return np.asarray(y if bias is None else y + bias).astype(a.dtype)


def unpacked(rows: Array, bits: int) -> Array:
    """The numbers of `bits` bits in rows of bytes."""
    parts = [rows >> shift & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(len(rows), -1).astype(np.float64)


# -- short floats ----------------------------------------------------------------------------


def widen(graph: onnx.GraphProto) -> None:
    """Make every short float of a graph a float32."""
    for v in (*graph.input, *graph.output, *graph.value_info):
        if v.type.tensor_type.elem_type in SHORT:
            v.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for t in graph.initializer:
        widen_tensor(t)
    for n in graph.node:
        widen_node(n)


def widen_tensor(t: onnx.TensorProto) -> None:
    """Make a tensor of short floats one of float32."""
    if t.data_type in SHORT:
        t.CopyFrom(from_array(to_array(t).astype(np.float32), t.name))


def widen_node(n: onnx.NodeProto) -> None:
    """Make every short float among a node's attributes a float32."""
    for a in n.attribute:
        if a.name in ("to", "dtype", "output_dtype") and a.i in SHORT:
            a.i = onnx.TensorProto.FLOAT
        if a.HasField("t"):
            widen_tensor(a.t)
        if a.HasField("g"):
            widen(a.g)


class Widened(OpRun):
    """onnx.reference's own operator on float32, its results rounded once."""

    op_domain = ""

    def _run(self, *inputs: Any, **_: Any) -> tuple[Any, ...]:
        node = onnx.NodeProto()
        node.CopyFrom(self.onnx_node)
        widen_node(node)
        short = next((a.dtype for a in inputs if is_short(a)), None)
        feeds = {
            name: a.astype(np.float32) if is_short(a) else a
            for name, a in zip(node.input, inputs, strict=True)
            if name
        }
        ends = [helper.make_tensor_value_info(n, kind_of(a), a.shape) for n, a in feeds.items()]
        outputs = [n for n in node.output if n]
        results = [onnx.ValueInfoProto(name=n) for n in outputs]
        graph = helper.make_graph([node], "g", ends, results)
        opsets = [helper.make_opsetid(d, v) for d, v in self.run_params["opsets"].items()]
        model = helper.make_model(graph, opset_imports=opsets)
        found = iter(ReferenceEvaluator(model, new_ops=list(WRITTEN)).run(None, feeds))
        made = [next(found) if n else None for n in node.output]
        if short is None:
            return tuple(made)
        return tuple(rounded(a, short) for a in made)


def rounded(array: Any, kind: Any) -> Any:
    """An array of floats as one of a short type; others as they are."""
    if not isinstance(array, np.ndarray | np.generic):
        return array
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(kind) if array.dtype.kind == "f" else array


def kind_of(array: Array) -> int:
    """ONNX's number of an array's type."""
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


#: Operators of several steps, whose results are rounded once.
STEPS = (
    "AffineGrid Attention AveragePool BatchNormalization Celu Conv ConvTranspose CumProd CumSum "
    "DeformConv Det Einsum Elu GRU Gelu GlobalAveragePool GlobalLpPool GroupNormalization "
    "HardSigmoid HardSwish InstanceNormalization LRN LSTM LayerNormalization LeakyRelu LogSoftmax "
    "LpNormalization LpPool Mean MeanVarianceNormalization Mish PRelu RMSNormalization RNN "
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean ReduceProd ReduceSum "
    "ReduceSumSquare RotaryEmbedding Selu Shrink Sigmoid Softmax Softplus Softsign Sum Swish Tanh "
    "ThresholdedRelu"
).split()
WRITTEN: tuple[type[OpRun], ...] = (
    AffineGrid,
    LRN,
    DynamicQuantizeLinear,
    Erf,
    Gelu,
    GlobalMaxPool,
    LogSoftmax,
    LpNormalization,
    GlobalLpPool,
    AveragePool,
    Conv,
    ConvTranspose,
    LpPool,
    MaxPool,
    MatMulNBits,
    PRelu,
    ReduceLogSumExp,
    ReduceSumSquare,
    ScatterElements,
    SoftmaxCrossEntropyLoss,
    StringNormalizer,
)
WIDENED: tuple[type[OpRun], ...] = (
    *(type(name, (Widened,), {}) for name in STEPS),
    type("TreeEnsemble", (Widened,), {"op_domain": "ai.onnx.ml"}),
    *(c for c in WRITTEN if c.__name__ not in STEPS),
)


def evaluator(model: onnx.ModelProto, arrays: Sequence[Any]) -> ReferenceEvaluator:
    """onnx.reference with the operators above; `arrays` are all inputs and constants."""
    short = any(is_short(a) for a in arrays)
    if model.functions:  # in those the operators above would not be known
        model = inliner.inline_local_functions(model)
    return ReferenceEvaluator(model, new_ops=list(WIDENED if short else WRITTEN))


__all__ = ["Widened", "Written", "evaluator", "is_short", "widen"]
