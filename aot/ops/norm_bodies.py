# SPDX-License-Identifier: Apache-2.0
"""Normalisations by smaller operators, where no kernel computes them as they are."""

from __future__ import annotations

from math import prod

from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import array, attribute
from aot.normalise.decompose import FLOAT, Body, constants_only, decompose
from aot.shapes.operands import (
    without_ones,
)

SHORT = (10, 16)
"""float16 and bfloat16 in ONNX's numbering."""


@constants_only("BatchNormalization")
def computes_statistics(node: ir.Node) -> bool:
    """Whether statistics are computed at run time, by other nodes or by this one."""
    training = bool(attribute(node, "training_mode", 0))
    return training or any(array(v) is None for v in node.inputs[1:])


@decompose("BatchNormalization")
def _batch_norm(b: Body) -> bool:
    """Decompose a BatchNormalization whose statistics are computed at run time, or that trains.

    False where all are constants, which the kernel takes. Refused for operands of several types.
    """
    if not computes_statistics(b.node):
        return False
    training = bool(attribute(b.node, "training_mode", 0))
    rank = len(b.shape(0))
    dims = b.ints(1, -1, *[1] * (rank - 2))
    scale, bias, mean, var = (b.add("Reshape", f"i{k}", dims) for k in (1, 2, 3, 4))
    x_type = b.node.inputs[0].dtype if b.node.inputs[0] is not None else None
    if x_type is None or any(v is None or v.dtype != x_type for v in b.node.inputs):
        return b.refuse("statistics at run time of another type than x")

    def number(value: float) -> str:
        """The name of a scalar constant in the type of x."""
        return b.constant(int(x_type), (), [value])

    if training:
        axes = b.ints(*[a for a in range(rank) if a != 1])
        kept = float(attribute(b.node, "momentum", 0.9))
        old = mean, var
        mean = b.add("ReduceMean", "i0", axes)
        off = b.add("Sub", "i0", mean)
        var = b.add("ReduceMean", b.add("Mul", off, off), axes)
        # The other results are running statistics, of which ONNX keeps the share `momentum`.
        for k, (before, now) in enumerate(zip(old, (mean, var), strict=True)):
            mixed = [b.add("Mul", before, number(kept)), b.add("Mul", now, number(1 - kept))]
            b.add("Reshape", b.add("Add", *mixed), b.ints(-1), out=f"o{k + 1}")
    spread = b.add("Sqrt", b.add("Add", var, number(float(attribute(b.node, "epsilon", 1e-5)))))
    scaled = b.add("Div", b.add("Sub", "i0", mean), spread)
    b.add("Add", b.add("Mul", scaled, scale), bias, out="o0")
    return True


@decompose("LayerNormalization RMSNormalization")
def _lines(b: Body) -> bool:
    """Decompose a layer or RMS normalisation whose scale or bias repeats along the normalised axes.

    The line is normalised with a scale of ones, then multiplied and added to. False where scale and
    bias are single numbers or whole lines.
    """
    x = b.shape(0)
    axis = int(attribute(b.node, "axis", -1)) % max(len(x), 1)
    line = x[axis:]
    operands = [i for i in (1, 2) if b.has(i)]
    if all(
        prod(b.shape(i)) == 1 or without_ones(b.shape(i)) == without_ones(line) for i in operands
    ):
        return False

    ones = onnx.helper.make_tensor("c", b.kind(1), line, [1.0] * prod(line))
    names = [f"o{k}" if v.name else "" for k, v in enumerate(b.node.outputs)]
    y = b.add(b.node.op_type, "i0", b.add("Constant", value=ones), **b.attributes())
    # Mean and deviation are those of the line, which scale and bias do not change.
    b.nodes[-1].output.extend(names[1:])
    y = b.add("Mul", y, "i1", out="" if b.has(2) else "o0")
    if b.has(2):
        b.add("Add", y, "i2", out="o0")
    return True


@decompose("MeanVarianceNormalization")
def _mean_variance(b: Body) -> bool:
    """Decompose a MeanVarianceNormalization from the distances to the mean, short floats in
    float32.

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
