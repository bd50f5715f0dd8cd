# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX and of com.microsoft on quantised values, as operators on numbers.

Before: y = QLinearAdd(a, as, az, b, bs, bz, ys, yz)
After:  y = QuantizeLinear(Add(DequantizeLinear(a, as, az), DequantizeLinear(b, bs, bz)), ys, yz)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import array, attribute, maker_of, shape_of, title
from aot.normalise.quantised.common import DEQUANTISE, QUANTISE
from aot.normalise.quantised.spelling import Spelling, spells
from aot.ops.microsoft import MICROSOFT


def _product(spelling: Spelling, left: int, right: int, axis: int) -> ir.Value | None:
    """The scale of products of inputs `left` and `right` as a constant; None if it is not known.

    `left` must have one scale; the result has as many as `right`.
    """
    a, b = array(spelling.scale(left)), array(spelling.scale(right))
    if a is None or b is None or a.size != 1:
        return None
    return spelling.edit.const(
        (a.reshape(()) * b).astype(np.float32), f"{spelling.node.name}_scale"
    )


@spells("QLinearConv", MICROSOFT)
def _qlinear_conv(spelling: Spelling) -> None:
    """QLinearConv as Conv of real values: DequantizeLinear before it, QuantizeLinear behind it.

    With the attribute `channels_last` of com.microsoft, Transposes around it put the channels
    first. Raises UnsupportedError where the scale of a bias is known at run time only, where x or
    y has several scales, or where zero points do not have the shape of their scales.
    """
    x, last = spelling.channels_first(spelling.input(0))
    inputs = [spelling.operand(0, x=x), spelling.operand(3, axis=0)]
    bias = spelling.optional(8)
    if bias is not None:
        scale = _product(spelling, 1, 4, 0)
        if scale is None:
            found = "the scale of the bias is known at run time only"
            raise UnsupportedError(f"{title(spelling.node)}: {found}")
        inputs.append(spelling.real(bias, scale, None, axis=0))
    shape = spelling.result_shape(last)
    y = spelling.add("Conv", inputs, spelling.attributes("channels_last"), shape=shape)
    spelling.done(spelling.restored(spelling.coded(y, 6), last))


@spells("QLinearConv")
def _standard_conv(spelling: Spelling) -> None:
    """Spell ONNX's QLinearConv as a Conv of real values, if all its parameters are constants."""
    if _constant(spelling, 1, 2, 4, 5, 6, 7):
        _qlinear_conv(spelling)


def _constant(spelling: Spelling, *indices: int) -> bool:
    """Whether the inputs with these numbers are constants or absent."""
    return all(
        spelling.optional(i) is None or array(spelling.optional(i)) is not None for i in indices
    )


@spells("QLinearMatMul")
def _qlinear_matmul(spelling: Spelling) -> None:
    """Spell a QLinearMatMul as a MatMul of real values, if all its parameters are constants."""
    if not _constant(spelling, 1, 2, 4, 5, 6, 7):
        return
    inputs = [spelling.operand(0, axis=-2), spelling.operand(3, axis=-1)]
    spelling.finish(spelling.add("MatMul", inputs, shape=shape_of(spelling.node.outputs[0])), 6)


def _binary(op_type: str) -> Callable[[Spelling], None]:
    """A function that spells a QLinear operator of two operands as `op_type` of real values."""

    def spelled(spelling: Spelling) -> None:
        """Replace the node: operands at inputs 0 and 3 (with their parameters), the result's scale
        at 6.
        """
        inputs = [spelling.operand(0), spelling.operand(3)]
        spelling.finish(spelling.add(op_type, inputs, shape=shape_of(spelling.node.outputs[0])), 6)

    return spelled


def _unary(op_type: str) -> Callable[[Spelling], None]:
    """A function that spells a QLinear operator of one operand as `op_type` of real values."""

    def spelled(spelling: Spelling) -> None:
        """Replace a com.microsoft operator by QuantizeLinear of `op_type` of DequantizeLinear(x).

        Its operands are x, x's scale, x's zero point, and the scale (3) and zero point of the
        result, which has the shape of x. UnsupportedError if x has several scales.
        """
        x = spelling.operand(0)
        spelling.finish(spelling.add(op_type, [x], spelling.attributes(), shape=shape_of(x)), 3)

    return spelled


@spells("QLinearSoftmax", MICROSOFT)
def _softmax(spelling: Spelling) -> None:
    """Spell a QLinearSoftmax as a Softmax of real values; before opset 13 of all axes behind
    `axis`.
    """
    x = spelling.operand(0)
    shape, axis = shape_of(x), int(attribute(spelling.node, "axis", -1)) % len(shape_of(x))
    if int(attribute(spelling.node, "opset", 13)) >= 13:
        spelling.finish(spelling.add("Softmax", [x], {"axis": axis}, shape=shape), 3)
        return
    rows = int(np.prod(shape[:axis]))
    flat = (rows, int(np.prod(shape)) // max(rows, 1))
    y = spelling.add("Softmax", [spelling.shaped(x, flat)], {"axis": 1}, shape=flat)
    spelling.finish(spelling.shaped(y, shape), 3)


@spells("QLinearAveragePool", MICROSOFT)
def _average_pool(spelling: Spelling) -> None:
    """Spell a QLinearAveragePool as an AveragePool of real values, channels put first if they are
    last.
    """
    x, last = spelling.channels_first(spelling.input(0))
    shape = spelling.result_shape(last)
    y = spelling.add(
        "AveragePool", [spelling.operand(0, x=x)], spelling.attributes("channels_last"), shape=shape
    )
    spelling.done(spelling.restored(spelling.coded(y, 3), last))


@spells("QLinearGlobalAveragePool", MICROSOFT)
def _global_pool(spelling: Spelling) -> None:
    """Spell a QLinearGlobalAveragePool as a GlobalAveragePool of real values, channels put
    first.
    """
    x, last = spelling.channels_first(spelling.input(0))
    y = spelling.add(
        "GlobalAveragePool", [spelling.operand(0, x=x)], shape=spelling.result_shape(last)
    )
    spelling.done(spelling.restored(spelling.coded(y, 3), last))


@spells("QLinearReduceMean", MICROSOFT)
def _mean(spelling: Spelling) -> None:
    """Spell a QLinearReduceMean as a ReduceMean of real values."""
    given = attribute(spelling.node, "axes")
    inputs = [spelling.operand(0)]
    if given is not None:
        inputs.append(spelling.edit.ints([int(a) for a in given], f"{spelling.node.name}_axes"))
    keep = {"keepdims": int(attribute(spelling.node, "keepdims", 1))}
    spelling.finish(
        spelling.add("ReduceMean", inputs, keep, shape=shape_of(spelling.node.outputs[0])), 3
    )


@spells("QLinearConcat", MICROSOFT)
def _concat(spelling: Spelling) -> None:
    """Spell a QLinearConcat as a Concat of real values; each part has three inputs."""
    parts = [spelling.operand(i) for i in range(2, len(spelling.node.inputs), 3)]
    shape = shape_of(spelling.node.outputs[0])
    spelling.finish(spelling.add("Concat", parts, spelling.attributes(), shape=shape), 0)


@spells("QLinearWhere", MICROSOFT)
def _where(spelling: Spelling) -> None:
    """Spell a QLinearWhere as a Where of real values."""
    inputs = [spelling.input(0), spelling.operand(1), spelling.operand(4)]
    shape = shape_of(spelling.node.outputs[0])
    y = spelling.add("Where", inputs, shape=shape, dtype=inputs[1].dtype)
    spelling.finish(y, 7)


@spells("QGemm", MICROSOFT)
def _gemm(spelling: Spelling) -> None:
    """Spell a QGemm as a Gemm of real values; without y's scale the result is float32.

    C counts in units of a · b · alpha. UnsupportedError where that unit is known at run time only.
    """
    transposed = bool(attribute(spelling.node, "transB", 0))
    axis, alpha = 0 if transposed else 1, np.float32(attribute(spelling.node, "alpha", 1.0))
    factor = spelling.scale(4)
    # A scale must be positive, and only a known one can take the factor in.
    if alpha != 1:
        data = array(factor)
        if data is None or alpha <= 0:
            raise UnsupportedError(
                f"{title(spelling.node)}: alpha is {alpha:g} beside a scale that cannot take it in"
            )
        factor = spelling.edit.const(
            (data * alpha).astype(np.float32), f"{spelling.node.name}_b_scale"
        )
    inputs = [
        spelling.operand(0),
        spelling.real(spelling.input(3), factor, spelling.optional(5), axis),
    ]
    if spelling.optional(6) is not None:
        a, b = array(spelling.scale(1)), array(factor)
        if a is None or b is None:
            raise UnsupportedError(
                f"{title(spelling.node)}: the scale of C is known at run time only"
            )
        scale = spelling.edit.const(
            (a.reshape(()) * b).astype(np.float32), f"{spelling.node.name}_c_scale"
        )
        inputs.append(spelling.real(spelling.input(6), scale, None, axis=-1))
    y = spelling.add(
        "Gemm", inputs, spelling.attributes("alpha"), shape=shape_of(spelling.node.outputs[0])
    )
    if spelling.optional(7) is None:
        spelling.done(y)
    else:
        spelling.finish(y, 7)


def _requantise(op_type: str) -> Callable[[Spelling], None]:
    """A function that spells onnxruntime's QuantizeLinear or DequantizeLinear as ONNX's."""

    def spelled(spelling: Spelling) -> None:
        """Replace the node by ONNX's operator with the same inputs."""
        value = spelling.node.outputs[0]
        kind = (
            spelling.attributes("output_dtype") if op_type == DEQUANTISE else spelling.attributes()
        )
        spelling.done(
            spelling.add(
                op_type, list(spelling.node.inputs), kind, shape=shape_of(value), dtype=value.dtype
            )
        )

    return spelled


def _integer_product(
    spelling: Spelling, value: ir.Value, a_zero: ir.Value | None, b: int, b_zero: int
) -> ir.Value:
    """MatMulInteger of `value` and input `b`, cast to float32; zero points may be absent."""
    inputs = [value, spelling.input(b), a_zero, spelling.optional(b_zero)]
    shape = shape_of(spelling.node.outputs[0])
    total = spelling.add("MatMulInteger", inputs, shape=shape, dtype=ir.DataType.INT32)
    to = {"to": int(ir.DataType.FLOAT)}
    return spelling.add("Cast", [total], to, shape=shape, dtype=ir.DataType.FLOAT)


def _scaled(
    spelling: Spelling, y: ir.Value, value: ir.Value, b: ir.Value, bias: ir.Value | None
) -> None:
    """Replace the node by y · value · b + bias: one scale, one or one per column, a bias or
    None.
    """
    factor = spelling.add("Mul", [value, b], shape=shape_of(b) or shape_of(value))
    y = spelling.add("Mul", [y, factor], shape=shape_of(y))
    spelling.done(y if bias is None else spelling.add("Add", [y, bias], shape=shape_of(y)))


@spells("MatMulIntegerToFloat", MICROSOFT)
def _matmul_to_float(spelling: Spelling) -> None:
    """Spell a MatMulIntegerToFloat: an integer product, scaled to float32."""
    product = _integer_product(spelling, spelling.input(0), spelling.optional(4), 1, 5)
    _scaled(spelling, product, spelling.scale(2), spelling.scale(3), spelling.optional(6))


@spells("DynamicQuantizeMatMul", MICROSOFT)
def _dynamic_matmul(spelling: Spelling) -> None:
    """Spell a DynamicQuantizeMatMul: x quantised while running, an integer product, scaled."""
    x = spelling.input(0)
    quantised = spelling.add(
        "DynamicQuantizeLinear", [x], shape=shape_of(x), dtype=ir.DataType.UINT8
    )
    maker = maker_of(quantised)
    # The operator has three results, and a node is added with one.
    maker.resize_outputs(3)
    scale, zero = maker.outputs[1], maker.outputs[2]
    for value, kind in ((scale, ir.DataType.FLOAT), (zero, ir.DataType.UINT8)):
        value.name = f"{quantised.name}_{kind.name}"
        value.type, value.shape = ir.TensorType(kind), ir.Shape(())
    _scaled(
        spelling,
        _integer_product(spelling, quantised, zero, 1, 3),
        scale,
        spelling.scale(2),
        spelling.optional(4),
    )


spells("DequantizeLinear", MICROSOFT)(_requantise(DEQUANTISE))
spells("QLinearAdd", MICROSOFT)(_binary("Add"))
spells("QLinearLeakyRelu", MICROSOFT)(_unary("LeakyRelu"))
spells("QLinearMul", MICROSOFT)(_binary("Mul"))
spells("QLinearSigmoid", MICROSOFT)(_unary("Sigmoid"))
spells("QuantizeLinear", MICROSOFT)(_requantise(QUANTISE))
