# SPDX-License-Identifier: Apache-2.0
"""What the two oracles agree on: which nodes are drawn, which oracle is asked about them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

Array = np.ndarray[Any, Any]
FLOATS = ("float32", "float16", "bfloat16", "float64")


def is_float(array: Array) -> bool:
    """Whether the elements are floats (bfloat16 and float8 are, for NumPy, of kind V)."""
    return array.dtype.kind == "f" or array.dtype.name in FLOATS


#: Operators that move a window, and which input has its shape if no attribute does.
WINDOWS = {
    "Conv": 1,
    "ConvInteger": 1,
    "QLinearConv": 3,
    "MaxPool": 0,
    "AveragePool": 0,
    "LpPool": 0,
}


#: Operators that compute their first steps in float32, whatever they are given.
STASHING = ("GroupNormalization", "LayerNormalization", "RMSNormalization")


def has_nan(array: Array) -> bool:
    """Whether an element is not a number."""
    return is_float(array) and bool(np.isnan(array.astype(np.float64)).any())


def is_finite(array: Array) -> bool:
    """Whether all elements are."""
    return bool(np.isfinite(array.astype(np.float64)).all())


def is_small(array: Array) -> bool:
    """Whether all elements are below 1000: onnxruntime's sigmoid of -1000 is 3e-8."""
    return bool((np.abs(array.astype(np.float64)) < 1000).all())


#: Operators that ask which of their elements is the largest.
SORTING = ("Hardmax", "TopK")
#: Integers that are packed into bytes.
NARROW = ("int2", "uint2", "int4", "uint4")
RECURRENT = ("RNN", "GRU", "LSTM")


def fits(node: onnx.NodeProto, values: dict[str, Array]) -> bool:
    """Whether what a node gets is such that two agree on the result.

    A window lies within what it moves over, else nobody knows the shape. A variance that may come
    out below zero has no root. onnxruntime alone knows all of recurrent layers, but no NaN.
    Where a NaN stands among others that are sorted, nobody says, nor what its code is; of
    infinities onnx.reference takes the least code. It multiplies the state of an LSTM by peepholes
    that are absent, and repeats quantised values that are fewer than their scales. Scales are above
    zero. A backward slice to an end beyond 32 bits has nothing in ONNX, and all in onnxruntime.
    Winograd's algorithm spreads an infinity over a tile of results (docs/oracles.md).
    """
    if node.op_type == "Slice" and not ended(node, values):
        return False
    if node.op_type in ("DequantizeLinear", "QuantizeLinear") and not scaled(node, values):
        return False
    if node.op_type in SORTING and has_nan(values[node.input[0]]):
        return False
    if node.op_type == "MeanVarianceNormalization":
        axes = next((tuple(a.ints) for a in node.attribute if a.name == "axes"), (0, 2, 3))
        x = values[node.input[0]].astype(np.float64)
        with np.errstate(all="ignore"):
            return bool((x.var(axis=axes) > 1e-3 * (x**2).mean(axis=axes)).all())
    if node.op_type in RECURRENT and untrusted(node):
        return all(is_small(values[n]) for n in node.input if n)
    if node.op_type == "LSTM" and len(node.input) > 6 and node.input[6]:
        return is_finite(values[node.input[6]])
    if node.op_type in ("DynamicQuantizeLinear", "QuantizeLinear"):
        return is_finite(values[node.input[0]])
    if node.op_type == "Cast":
        return castable(node, values[node.input[0]])
    if node.op_type not in WINDOWS:
        return True
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if "Conv" in node.op_type and not grouped(node, attrs.get("group", 1), values):
        return False
    extents = values[node.input[0]].shape[2:]
    kernel = attrs.get("kernel_shape") or values[node.input[WINDOWS[node.op_type]]].shape[2:]
    if node.op_type == "Conv" and tuple(kernel) == (3, 3) and not is_finite(values[node.input[0]]):
        return False
    rank = len(kernel)
    pads, steps = attrs.get("pads", [0] * (2 * rank)), attrs.get("dilations", [1] * rank)
    if attrs.get("auto_pad", b"").startswith(b"SAME"):
        strides = attrs.get("strides", [1] * rank)  # no longer than the window, else pads < 0
        return all(s <= (k - 1) * t + 1 for k, s, t in zip(kernel, strides, steps, strict=True))
    reaches = [(k - 1) * step + 1 for k, step in zip(kernel, steps, strict=True)]
    if "Pool" in node.op_type and any(p >= r for p, r in zip(pads, 2 * reaches, strict=True)):
        return False
    return all(
        (k - 1) * step + 1 <= extent + before + behind
        for k, step, extent, before, behind in zip(
            kernel, steps, extents, pads[:rank], pads[rank:], strict=True
        )
    )


def grouped(node: onnx.NodeProto, group: int, values: dict[str, Array]) -> bool:
    """Whether the channels of an image are those of the weights, group by group."""
    x, w = values[node.input[0]].shape, values[node.input[WINDOWS[node.op_type]]].shape
    return group > 0 and x[1] == w[1] * group and w[0] % group == 0


def castable(node: onnx.NodeProto, x: Array) -> bool:
    """Whether the integers that floats become are such that their type has them.

    To integers of 2 and 4 bits onnxruntime rounds, where ONNX and onnx.reference cut: they agree
    on whole numbers (docs/oracles.md, `cast_to_uint4`).
    """
    to = next((a.i for a in node.attribute if a.name == "to"), 1)
    kind = np.dtype(helper.tensor_dtype_to_np_dtype(to)) if to != onnx.TensorProto.STRING else None
    narrow = kind is not None and kind.name in NARROW
    if kind is None or not (kind.kind in "iu" or narrow) or not is_float(x) or not x.size:
        return True
    info, wide = ml_dtypes.iinfo(kind), x.astype(np.float64)
    if narrow and not (wide == np.rint(wide)).all():
        return False
    return is_finite(x) and bool(info.min - 1 < wide.min() and wide.max() < info.max + 1.0)


def scaled(node: onnx.NodeProto, values: dict[str, Array]) -> bool:
    """Whether there is a scale for each slice of what is quantised, or one, and all above zero."""
    x, scale = (values[n] for n in node.input[:2])
    if is_float(scale) and not (scale.astype(np.float64) > 0).all():
        return False
    attrs = {a.name: a.i for a in node.attribute}
    if scale.size == 1 or attrs.get("block_size", 0):
        return True
    axis = attrs.get("axis", 1)
    return -x.ndim <= axis < x.ndim and x.shape[axis] == scale.size


def ended(node: onnx.NodeProto, values: dict[str, Array]) -> bool:
    """Whether no slice runs backward to an end that means "the last" to onnxruntime."""
    steps = node.input[4] if len(node.input) > 4 else ""
    if not steps or values[steps].shape != values[node.input[2]].shape:
        return True
    last = np.iinfo(np.int32).max
    return not ((values[steps] < 0) & (values[node.input[2]] >= last)).any()


def ties(node: onnx.NodeProto, inexact: dict[str, Array]) -> bool:
    """Whether a node asks what is equal, or takes the first of equals, of inexact floats."""
    floats = [a for a in inexact.values() if is_float(a)]
    first = node.op_type == "MaxPool" and len(node.output) > 1
    if first or node.op_type in ("ArgMax", "ArgMin", "Hardmax", "TopK"):
        return any(len(np.unique(a.astype(np.float64))) < a.size for a in floats)
    return node.op_type in ("Equal", "Unique") and bool(floats)


def untrusted(node: onnx.NodeProto) -> bool:
    """Whether onnx.reference is known to be wrong on this.

    It joins what a Loop scans instead of stacking it, takes no activations and no lengths of an
    RNN, sorts what Unique leaves in order, and puts the one element of an axis that Resize makes as
    PyTorch does half an element too early. `corrected.py` has what else it is wrong on.
    """
    if node.op_type == "Resize":
        return any(a.s == b"pytorch_half_pixel" for a in node.attribute)
    if node.op_type in RECURRENT:
        if len(node.input) > 4 and node.input[4]:
            return True
        return any(a.name in ("activations", "clip") for a in node.attribute)
    if node.op_type == "Unique":
        return any(a.name == "sorted" and not a.i for a in node.attribute)
    if node.domain == "com.microsoft":
        return node.op_type != "MatMulNBits"
    return node.op_type == "Loop"


def misread(node: onnx.NodeProto) -> bool:
    """Whether onnxruntime is known to be wrong on this: its Bernoulli is one where it says zero."""
    return node.op_type == "Bernoulli"
