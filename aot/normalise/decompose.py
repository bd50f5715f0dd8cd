# SPDX-License-Identifier: Apache-2.0
"""Bodies of operators that ONNX defines in words: integer products, Dropout at inference, EyeLike,
BatchNormalization with statistics of the run, MeanVarianceNormalization.

Before: y = MatMulInteger(a, b, az, bz)
After: y = MatMul(Cast<int32>(a) - Cast<int32>(az), Cast<int32>(b) - Cast<int32>(bz))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from aot.errors import ModelError
from aot.ir.graph_nodes import WHY_KEY, array, attribute, shape_of, title
from aot.normalise.decompose_builder import DOUBLE, FLOAT, INT32, Body
from aot.normalise.decompose_microsoft import BODIES as MICROSOFT_BODIES
from aot.normalise.decompose_ml import ML_BODIES
from aot.normalise.spectral import dft, stft
from aot.shapes.operands import without_ones

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir


def _matmul_integer(b: Body) -> bool:
    left, right = b.centred(0, 2, INT32, -2), b.centred(1, 3, INT32, -1)
    b.add("MatMul", left, right, out="o0")
    return True


def _conv_integer(b: Body) -> bool:
    # Sums of products of 9-bit numbers are exact in float64.
    left, right = b.centred(0, 2, DOUBLE, 1), b.centred(1, 3, DOUBLE, 0)
    b.add("Cast", b.add("Conv", left, right, **_attributes(b.node)), to=INT32, out="o0")
    return True


def _qlinear_matmul(b: Body) -> bool:
    left, right = b.centred(0, 2, INT32, -2), b.centred(3, 5, INT32, -1)
    ranks = len(b.shape(0)), len(b.shape(3))
    scales = [b.column(1, ranks[0], -2, FLOAT), b.column(4, ranks[1], -1, FLOAT)]
    b.requantised(b.add("MatMul", left, right), [*scales, b.column(6, 2, -2, FLOAT)], 7)
    return len(b.shape(6)) == 0 or b.shape(6) == (1,)


def _qlinear_conv(b: Body) -> bool:
    left, right = b.centred(0, 2, DOUBLE, 1), b.centred(3, 5, DOUBLE, 0)
    rank = len(b.shape(0))
    bias = [b.add("Cast", "i8", to=DOUBLE)] if b.has(8) else []
    total = b.add("Conv", left, right, *bias, **_attributes(b.node))
    scales = [b.column(1, rank, 1, FLOAT), b.column(4, rank, 1, FLOAT)]
    b.requantised(total, [*scales, b.column(6, rank, 1, FLOAT)], 7)
    return True


def _dropout(b: Body) -> bool:
    """At inference, and with nothing to drop, everything stays; else draws decide."""
    ratio = array(b.node.inputs[1]) if b.has(1) else None
    training = array(b.node.inputs[2]) if b.has(2) else None
    kept = ratio is not None and not ratio.any()
    if b.has(2) and not kept and (training is None or training.any()):
        if training is None:
            return b.refuse("training_mode is computed at run time (needs a constant)")
        return _dropped(b)
    b.add("Identity", "i0", out="o0")
    if len(b.node.outputs) > 1 and b.node.outputs[1].name:
        from onnx import helper

        true = helper.make_tensor("c", 9, (1,), [True])
        b.add("ConstantOfShape", b.add("Shape", "i0"), value=true, out="o1")
    return True


def _dropped(b: Body) -> bool:
    """Elements whose draw is below the ratio become 0, the others grow by 1 / (1 - ratio)."""
    value = b.node.inputs[0]
    assert value is not None and value.dtype is not None
    given = b.add("Cast", "i1", to=FLOAT) if b.has(1) else b.constant(FLOAT, (), [0.5])
    ratio = b.add("Reshape", given, b.ints(1)) if b.has(1) and b.shape(1) == () else given
    seed = attribute(b.node, "seed", None)
    seeded: dict[str, Any] = {} if seed is None else {"seed": float(seed)}
    draws = b.add("RandomUniformLike", "i0", dtype=FLOAT, **seeded)
    mask = b.add("GreaterOrEqual", draws, ratio)
    grown = b.add("Reciprocal", b.add("Sub", b.constant(FLOAT, (1,), [1.0]), ratio))
    kind = int(value.dtype)
    factor = b.add("Where", mask, grown, b.constant(FLOAT, (1,), [0.0]))
    b.add("Mul", "i0", b.add("Cast", factor, to=kind), out="o0")
    if len(b.node.outputs) > 1 and b.node.outputs[1].name:
        b.add("Identity", mask, out="o1")
    return True


def _bernoulli(b: Body) -> bool:
    """1 with the chance that the input says (ONNX's own body gives the other one)."""
    value = b.node.inputs[0]
    assert value is not None and value.dtype is not None
    seed = attribute(b.node, "seed", None)
    seeded: dict[str, Any] = {} if seed is None else {"seed": float(seed)}
    below = b.add("Less", b.add("RandomUniformLike", "i0", **seeded), "i0")
    b.add("Cast", below, to=int(attribute(b.node, "dtype", None) or value.dtype), out="o0")
    return True


def _multinomial(b: Body) -> bool:
    """A draw picks the first class whose summed share is above it; inputs are log-chances."""
    rows, count = b.shape(0)[0], int(attribute(b.node, "sample_size", 1))
    seed = attribute(b.node, "seed", None)
    draw: dict[str, Any] = {"shape": [rows, count, 1], "dtype": FLOAT}
    if seed is not None:
        draw["seed"] = float(seed)
    shares = b.add("Softmax", b.add("Cast", "i0", to=FLOAT), axis=-1)
    upto = b.add("Unsqueeze", b.add("CumSum", shares, b.constant(7, (), [1])), b.ints(1))
    reached = b.add("LessOrEqual", upto, b.add("RandomUniform", **draw))
    steps = b.add("ReduceSum", b.add("Cast", reached, to=INT32), b.ints(2), keepdims=0)
    last = b.constant(INT32, (), [b.shape(0)[1] - 1])
    b.add("Cast", b.add("Min", steps, last), to=int(attribute(b.node, "dtype", INT32)), out="o0")
    return True


def _eye_like(b: Body) -> bool:
    """Ones on a diagonal, of a constant shape."""
    value = b.node.outputs[0]
    assert value.dtype is not None
    rows, columns = shape_of(value)
    ones = np.eye(rows, columns, int(attribute(b.node, "k", 0)), np.float32)
    b.add("Cast", b.data(ones), out="o0", to=int(value.dtype))
    return True


def _batch_norm(b: Body) -> bool:
    """Statistics that are computed at run time, by other nodes or by this one."""
    if not is_runtime(b.node):
        return False
    rank = len(b.shape(0))
    dims = b.ints(1, -1, *[1] * (rank - 2))
    scale, bias, mean, var = (b.add("Reshape", f"i{k}", dims) for k in (1, 2, 3, 4))
    x_type = b.node.inputs[0].dtype if b.node.inputs[0] is not None else None
    if x_type is None or any(v is None or v.dtype != x_type for v in b.node.inputs):
        return b.refuse("statistics at run time of another type than x")

    def number(value: float) -> str:
        return b.constant(int(x_type), (), [value])

    if attribute(b.node, "training_mode", 0):
        axes = b.ints(*[a for a in range(rank) if a != 1])
        kept = float(attribute(b.node, "momentum", 0.9))
        old = mean, var
        mean = b.add("ReduceMean", "i0", axes)
        off = b.add("Sub", "i0", mean)
        var = b.add("ReduceMean", b.add("Mul", off, off), axes)
        for k, (before, now) in enumerate(zip(old, (mean, var), strict=True)):
            mixed = [b.add("Mul", before, number(kept)), b.add("Mul", now, number(1 - kept))]
            b.add("Reshape", b.add("Add", *mixed), b.ints(-1), out=f"o{k + 1}")
    spread = b.add("Sqrt", b.add("Add", var, number(float(attribute(b.node, "epsilon", 1e-5)))))
    scaled = b.add("Div", b.add("Sub", "i0", mean), spread)
    b.add("Add", b.add("Mul", scaled, scale), bias, out="o0")
    return True


def _lines(b: Body) -> bool:
    """Scales and biases that repeat to the input: ONNX's own body has them as long as a line."""
    x = b.shape(0)
    axis = int(attribute(b.node, "axis", -1)) % max(len(x), 1)
    line = x[axis:]
    operands = [i for i in (1, 2) if b.has(i)]
    if all(
        prod(b.shape(i)) == 1 or without_ones(b.shape(i)) == without_ones(line) for i in operands
    ):
        return False
    from onnx import helper

    scale = b.node.inputs[1]
    assert scale is not None and scale.dtype is not None
    ones = helper.make_tensor("c", int(scale.dtype), line, [1.0] * prod(line))
    names = [f"o{k}" if v.name else "" for k, v in enumerate(b.node.outputs)]
    y = b.add(b.node.op_type, "i0", b.add("Constant", value=ones), **_attributes(b.node))
    b.nodes[-1].output.extend(names[1:])
    y = b.add("Mul", y, "i1", out="" if b.has(2) else "o0")
    if b.has(2):
        b.add("Add", y, "i2", out="o0")
    return True


def _mean_variance(b: Body) -> bool:
    """From the distances to the mean, of short floats in float32.

    ONNX's own body subtracts the square of the mean from the mean of the squares, of which nothing
    is left where the spread is small, and adds a float32 to every type.
    """
    value = b.node.inputs[0]
    if value is None or value.dtype is None:
        return False
    short, kind = int(value.dtype) in SHORT, int(value.dtype)
    axes = b.ints(*attribute(b.node, "axes", (0, 2, 3)))
    x = b.add("Cast", "i0", to=FLOAT) if short else "i0"
    off = b.add("Sub", x, b.add("ReduceMean", x, axes))
    root = b.add("Sqrt", b.add("ReduceMean", b.add("Mul", off, off), axes))
    spread = b.add("Add", root, b.constant(FLOAT if short else kind, (), [1e-9]))
    if short:
        b.add("Cast", b.add("Div", off, spread), to=kind, out="o0")
    else:
        b.add("Div", off, spread, out="o0")
    return True


def is_runtime(node: ir.Node) -> bool:
    """Whether a node whose operator has kernels for constants only needs its body instead."""
    if node.domain or node.op_type != "BatchNormalization":
        return False
    training = bool(attribute(node, "training_mode", 0))
    return training or any(array(v) is None for v in node.inputs[1:])


SHORT = (10, 16)  # float16, bfloat16
MICROSOFT = "com.microsoft"
BODIES: dict[str, Callable[[Body], bool]] = {
    "BatchNormalization": _batch_norm,
    "Bernoulli": _bernoulli,
    "ConvInteger": _conv_integer,
    "DFT": dft,
    "Dropout": _dropout,
    "EyeLike": _eye_like,
    "LayerNormalization": _lines,
    "MatMulInteger": _matmul_integer,
    "MeanVarianceNormalization": _mean_variance,
    "Multinomial": _multinomial,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "RMSNormalization": _lines,
    "STFT": stft,
}


def writer(node: ir.Node) -> Callable[[Body], bool] | None:
    """What writes the body of a node of ONNX or of com.microsoft, None if nothing does."""
    if node.domain == MICROSOFT:
        return MICROSOFT_BODIES.get(node.op_type)
    if node.domain:
        return ML_BODIES.get((node.domain, node.op_type))
    return BODIES.get(node.op_type)


def own_body(node: ir.Node, opsets: Mapping[str, int]) -> onnx.FunctionProto | None:
    """The body of a call as a function of inputs i0, i1 … and outputs o0 …; None without one."""
    from onnx import helper

    write = writer(node)
    body = Body(node)
    try:
        if write is None or not write(body):
            if body.why:
                node.meta[WHY_KEY] = body.why, body.hint
            return None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        what = f"its inputs and attributes fit no rule ({type(e).__name__}: {e})"
        raise ModelError(f"{title(node)}: {what}") from None
    inputs = [f"i{k}" for k in range(len(node.inputs))]
    outputs = [f"o{k}" for k in range(len(node.outputs))]
    used = sorted({n.domain for n in body.nodes} | {""})
    imports = [helper.make_opsetid(d, opsets.get(d, 1)) for d in used]
    return helper.make_function("", node.op_type, inputs, outputs, body.nodes, imports)


def _attributes(node: ir.Node) -> dict[str, Any]:
    return {name: attribute.value for name, attribute in node.attributes.items()}
