# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX and of com.microsoft on quantised values, as operators on numbers.

Before: y = QLinearAdd(a, as, az, b, bs, bz, ys, yz)
After:  y = QuantizeLinear(Add(DequantizeLinear(a, as, az), DequantizeLinear(b, bs, bz)), ys, yz)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.graph_nodes import array, attribute, shape_of, title
from aot.normalise.quantised.common import DEQUANTISE, QUANTISE
from aot.normalise.quantised.spelling import Spelling, spells
from aot.ops.microsoft import MICROSOFT

if TYPE_CHECKING:
    import onnx_ir as ir


def _product(s: Spelling, left: int, right: int, axis: int) -> ir.Value | None:
    """The scale of products of inputs `left` and `right`, whose scales run along `axis`."""
    a, b = array(s.scale(left)), array(s.scale(right))
    if a is None or b is None or a.size != 1:
        return None
    return s.edit.const((a.reshape(()) * b).astype(np.float32), f"{s.node.name}_scale")


@spells("QLinearConv", MICROSOFT)
def _qlinear_conv(s: Spelling) -> None:
    x, last = s.channels_first(s.input(0))
    inputs = [s.operand(0, x=x), s.operand(3, axis=0)]
    bias = s.optional(8)
    if bias is not None:
        scale = _product(s, 1, 4, 0)
        if scale is None:
            found = "the scale of the bias is known at run time only"
            raise UnsupportedError(f"{title(s.node)}: {found}")
        inputs.append(s.real(bias, scale, None, axis=0))
    shape = s.result_shape(last)
    y = s.add("Conv", inputs, s.attributes("channels_last"), shape=shape)
    s.done(s.restored(s.coded(y, 6), last))


@spells("QLinearConv")
def _standard_conv(s: Spelling) -> None:
    if _constant(s, 1, 2, 4, 5, 6, 7):
        _qlinear_conv(s)


def _constant(s: Spelling, *indices: int) -> bool:
    """Whether these inputs are constants (the others are left to the operator's body)."""
    return all(s.optional(i) is None or array(s.optional(i)) is not None for i in indices)


@spells("QLinearMatMul")
def _qlinear_matmul(s: Spelling) -> None:
    if not _constant(s, 1, 2, 4, 5, 6, 7):
        return
    inputs = [s.operand(0, axis=-2), s.operand(3, axis=-1)]
    s.finish(s.add("MatMul", inputs, shape=shape_of(s.node.outputs[0])), 6)


def _binary(op_type: str) -> Callable[[Spelling], None]:
    def rule(s: Spelling) -> None:
        inputs = [s.operand(0), s.operand(3)]
        s.finish(s.add(op_type, inputs, shape=shape_of(s.node.outputs[0])), 6)

    return rule


def _unary(op_type: str) -> Callable[[Spelling], None]:
    def rule(s: Spelling) -> None:
        x = s.operand(0)
        s.finish(s.add(op_type, [x], s.attributes(), shape=shape_of(x)), 3)

    return rule


@spells("QLinearSoftmax", MICROSOFT)
def _softmax(s: Spelling) -> None:
    x = s.operand(0)
    shape, axis = shape_of(x), int(attribute(s.node, "axis", -1)) % len(shape_of(x))
    if int(attribute(s.node, "opset", 13)) >= 13:
        s.finish(s.add("Softmax", [x], {"axis": axis}, shape=shape), 3)
        return
    rows = int(np.prod(shape[:axis]))
    flat = (rows, int(np.prod(shape)) // max(rows, 1))
    y = s.add("Softmax", [s.shaped(x, flat)], {"axis": 1}, shape=flat)
    s.finish(s.shaped(y, shape), 3)


@spells("QLinearAveragePool", MICROSOFT)
def _average_pool(s: Spelling) -> None:
    x, last = s.channels_first(s.input(0))
    shape = s.result_shape(last)
    y = s.add("AveragePool", [s.operand(0, x=x)], s.attributes("channels_last"), shape=shape)
    s.done(s.restored(s.coded(y, 3), last))


@spells("QLinearGlobalAveragePool", MICROSOFT)
def _global_pool(s: Spelling) -> None:
    x, last = s.channels_first(s.input(0))
    y = s.add("GlobalAveragePool", [s.operand(0, x=x)], shape=s.result_shape(last))
    s.done(s.restored(s.coded(y, 3), last))


@spells("QLinearReduceMean", MICROSOFT)
def _mean(s: Spelling) -> None:
    given = attribute(s.node, "axes")
    inputs = [s.operand(0)]
    if given is not None:
        inputs.append(s.edit.ints([int(a) for a in given], f"{s.node.name}_axes"))
    keep = {"keepdims": int(attribute(s.node, "keepdims", 1))}
    s.finish(s.add("ReduceMean", inputs, keep, shape=shape_of(s.node.outputs[0])), 3)


@spells("QLinearConcat", MICROSOFT)
def _concat(s: Spelling) -> None:
    parts = [s.operand(i) for i in range(2, len(s.node.inputs), 3)]
    shape = shape_of(s.node.outputs[0])
    s.finish(s.add("Concat", parts, s.attributes(), shape=shape), 0)


@spells("QLinearWhere", MICROSOFT)
def _where(s: Spelling) -> None:
    inputs = [s.input(0), s.operand(1), s.operand(4)]
    shape = shape_of(s.node.outputs[0])
    y = s.add("Where", inputs, shape=shape, dtype=inputs[1].dtype)
    s.finish(y, 7)


@spells("QGemm", MICROSOFT)
def _gemm(s: Spelling) -> None:
    """C counts in units of a · b · alpha; without y's scale the result is float32."""
    turned = bool(attribute(s.node, "transB", 0))
    axis, alpha = 0 if turned else 1, np.float32(attribute(s.node, "alpha", 1.0))
    factor = s.scale(4)
    if alpha != 1:
        data = array(factor)
        if data is None or alpha <= 0:
            raise UnsupportedError(f"{title(s.node)}: alpha {alpha:g}")
        factor = s.edit.const((data * alpha).astype(np.float32), f"{s.node.name}_b_scale")
    inputs = [s.operand(0), s.real(s.input(3), factor, s.optional(5), axis)]
    if s.optional(6) is not None:
        a, b = array(s.scale(1)), array(factor)
        if a is None or b is None:
            raise UnsupportedError(f"{title(s.node)}: the scale of C is known at run time only")
        scale = s.edit.const((a.reshape(()) * b).astype(np.float32), f"{s.node.name}_c_scale")
        inputs.append(s.real(s.input(6), scale, None, axis=-1))
    y = s.add("Gemm", inputs, s.attributes("alpha"), shape=shape_of(s.node.outputs[0]))
    if s.optional(7) is None:
        s.done(y)
    else:
        s.finish(y, 7)


def _requantise(op_type: str) -> Callable[[Spelling], None]:
    """onnxruntime's QuantizeLinear and DequantizeLinear are ONNX's."""

    def rule(s: Spelling) -> None:
        value = s.node.outputs[0]
        kind = s.attributes("output_dtype") if op_type == DEQUANTISE else s.attributes()
        s.done(s.add(op_type, list(s.node.inputs), kind, shape=shape_of(value), dtype=value.dtype))

    return rule


def _integer_product(
    s: Spelling, a: ir.Value, a_zero: ir.Value | None, b: int, b_zero: int
) -> ir.Value:
    """MatMulInteger of `a` and input `b`, as float32."""
    import onnx_ir as ir

    inputs = [a, s.input(b), a_zero, s.optional(b_zero)]
    shape = shape_of(s.node.outputs[0])
    total = s.add("MatMulInteger", inputs, shape=shape, dtype=ir.DataType.INT32)
    to = {"to": int(ir.DataType.FLOAT)}
    return s.add("Cast", [total], to, shape=shape, dtype=ir.DataType.FLOAT)


def _scaled(s: Spelling, y: ir.Value, a: ir.Value, b: ir.Value, bias: ir.Value | None) -> None:
    """y · a · b + bias, where the scales a (one) and b (one or one per column) are given."""
    factor = s.add("Mul", [a, b], shape=shape_of(b) or shape_of(a))
    y = s.add("Mul", [y, factor], shape=shape_of(y))
    s.done(y if bias is None else s.add("Add", [y, bias], shape=shape_of(y)))


@spells("MatMulIntegerToFloat", MICROSOFT)
def _matmul_to_float(s: Spelling) -> None:
    product = _integer_product(s, s.input(0), s.optional(4), 1, 5)
    _scaled(s, product, s.scale(2), s.scale(3), s.optional(6))


@spells("DynamicQuantizeMatMul", MICROSOFT)
def _dynamic_matmul(s: Spelling) -> None:
    import onnx_ir as ir

    x = s.input(0)
    codes = s.add("DynamicQuantizeLinear", [x], shape=shape_of(x), dtype=ir.DataType.UINT8)
    maker = codes.producer()
    assert maker is not None
    maker.resize_outputs(3)
    scale, zero = maker.outputs[1], maker.outputs[2]
    for value, kind in ((scale, ir.DataType.FLOAT), (zero, ir.DataType.UINT8)):
        value.name = f"{codes.name}_{kind.name}"
        value.type, value.shape = ir.TensorType(kind), ir.Shape(())
    _scaled(s, _integer_product(s, codes, zero, 1, 3), scale, s.scale(2), s.optional(4))


spells("DequantizeLinear", MICROSOFT)(_requantise(DEQUANTISE))
spells("QLinearAdd", MICROSOFT)(_binary("Add"))
spells("QLinearLeakyRelu", MICROSOFT)(_unary("LeakyRelu"))
spells("QLinearMul", MICROSOFT)(_binary("Mul"))
spells("QLinearSigmoid", MICROSOFT)(_unary("Sigmoid"))
spells("QuantizeLinear", MICROSOFT)(_requantise(QUANTISE))
