# SPDX-License-Identifier: Apache-2.0
"""Operators on codes as float operators between DequantizeLinear and QuantizeLinear.

Before: y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz, b)
After:  y = QuantizeLinear(Conv(DequantizeLinear(x, xs, xz), DequantizeLinear(w, ws, wz, axis=0),
            DequantizeLinear(b, xs * ws, 0, axis=0)), ys, yz)
The same for QLinearMatMul and for onnxruntime's QLinear operators, QGemm, QuantizeLinear and
DequantizeLinear; its products of dynamically quantised inputs become MatMulInteger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import array, attribute, shape_of, title
from aot.load.options import LoadOptions
from aot.normalise.form import Form
from aot.normalise.quantised.common import DEQUANTISE, QUANTISE

if TYPE_CHECKING:
    import onnx_ir as ir

MICROSOFT = "com.microsoft"

_ELSE = "a scale or zero point is no constant"
FORMS = (
    Form(
        "QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *)",
        "QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w), …))",
        _ELSE,
    ),
    Form(
        "QLinearMatMul(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero)",
        "QuantizeLinear(MatMul(DequantizeLinear(x), DequantizeLinear(w)))",
        _ELSE,
    ),
)


class Spelling:
    """One node being spelled out; inputs are called by index."""

    def __init__(self, edit: Editor, node: ir.Node) -> None:
        self.edit, self.node = edit, node

    def input(self, index: int) -> ir.Value:
        """Input `index`, which the operator demands."""
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        if value is None:
            raise UnsupportedError(f"{title(self.node)}: input {index} is absent")
        return value

    def optional(self, index: int) -> ir.Value | None:
        """Input `index` if it is given."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def scale(self, index: int) -> ir.Value:
        """Input `index` as float32 scales, a scalar if there is one."""
        return self._flat(self.as_float(self.input(index)))

    def _flat(self, value: ir.Value) -> ir.Value:
        shape = shape_of(value)
        if len(shape) == 1 and shape[0] == 1:
            return self.shaped(value, ())
        if len(shape) > 1 and sum(d != 1 for d in shape) <= 1:
            size = int(np.prod(shape))
            return self.shaped(value, () if size == 1 else (size,))
        return value

    def as_float(self, value: ir.Value) -> ir.Value:
        """A scale in float32 (half-precision scales widen exactly)."""
        import onnx_ir as ir

        if value.dtype == ir.DataType.FLOAT:
            return value
        data = array(value)
        if data is not None:
            return self.edit.const(data.astype(np.float32), str(value.name))
        to = {"to": int(ir.DataType.FLOAT)}
        return self.add("Cast", [value], to, shape=shape_of(value), dtype=ir.DataType.FLOAT)

    def shaped(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """`value` with its elements in another shape."""
        data = array(value)
        if data is not None:
            return self.edit.const(data.reshape(tuple(shape)), str(value.name), value.dtype)
        target = self.edit.ints(shape, f"{value.name}_shape")
        return self.add("Reshape", [value, target], shape=shape)

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: dict[str, Any] | None = None,
        *,
        shape: Sequence[int],
        dtype: ir.DataType | None = None,
    ) -> ir.Value:
        """The output of a new node before this one."""
        return self.edit.node(
            op_type, inputs, attributes, before=self.node, shape=shape, dtype=dtype
        )

    def real(
        self, x: ir.Value, scale: ir.Value, zero: ir.Value | None, axis: int | None = None
    ) -> ir.Value:
        """The numbers that codes `x` stand for; vectors run along `axis`."""
        import onnx_ir as ir

        if zero is not None:
            zero = self._flat(zero)
            if shape_of(zero) != shape_of(scale):
                zero = self._spread(zero, shape_of(scale))
        several = len(shape_of(scale)) == 1
        if several and axis is None:
            raise UnsupportedError(f"{title(self.node)}: scales {list(shape_of(scale))}")
        attributes = {"axis": axis % len(shape_of(x))} if several and axis is not None else {}
        kind = ir.DataType.FLOAT
        inputs = [x, scale] if zero is None else [x, scale, zero]
        return self.add(DEQUANTISE, inputs, attributes, shape=shape_of(x), dtype=kind)

    def _spread(self, zero: ir.Value, shape: Sequence[int]) -> ir.Value:
        """One zero point for every scale."""
        data = array(zero)
        if data is not None and data.size == 1:
            full = np.broadcast_to(data.reshape(()), tuple(shape)).copy()
            return self.edit.const(full, str(zero.name), zero.dtype)
        found = f"zero points {list(shape_of(zero))} for scales {list(shape)}"
        raise UnsupportedError(f"{title(self.node)}: {found}")

    def operand(self, index: int, axis: int | None = None, x: ir.Value | None = None) -> ir.Value:
        """The numbers of input `index`, whose scale and zero point are the next two inputs."""
        x = self.input(index) if x is None else x
        return self.real(x, self.scale(index + 1), self.optional(index + 2), axis)

    def finish(self, y: ir.Value, scale: int, dtype: ir.DataType | None = None) -> None:
        """Quantise `y` to the node's result; scale and zero point are inputs `scale` and next."""
        self.done(self.coded(y, scale, dtype))

    def coded(self, y: ir.Value, scale: int, dtype: ir.DataType | None = None) -> ir.Value:
        """`y` as codes of the node's result."""
        kind = dtype or self.node.outputs[0].dtype
        zero, factor = self.optional(scale + 1), self.scale(scale)
        if zero is None:
            assert kind is not None
            zero = self.edit.const(np.zeros((), kind.numpy()), "zero", kind)
        inputs = [y, factor, self._flat(zero)]
        if shape_of(factor) != ():
            raise UnsupportedError(f"{title(self.node)}: {shape_of(factor)[0]} output scales")
        return self.add(QUANTISE, inputs, shape=shape_of(y), dtype=kind)

    def done(self, value: ir.Value) -> None:
        """Let `value` be the node's result."""
        old = self.node.outputs[0]
        if not self.edit.replace(old, value):
            copy = self.add("Identity", [value], shape=shape_of(old))
            self.edit.replace(old, copy)
        self.edit.remove(self.node)

    def attributes(self, *without: str) -> dict[str, Any]:
        """The node's attributes but those named."""
        return {k: v for k, v in self.node.attributes.items() if k not in without}

    def channels_first(self, x: ir.Value) -> tuple[ir.Value, bool]:
        """`x` as [N, C, …], and whether the node says its channels are last."""
        last = bool(attribute(self.node, "channels_last", 0))
        return (self._turned(x, back=False), True) if last else (x, False)

    def restored(self, y: ir.Value, last: bool) -> ir.Value:
        """Codes [N, C, …] in the order of the node's result."""
        return self._turned(y, back=True) if last else y

    def _turned(self, x: ir.Value, back: bool) -> ir.Value:
        rank, shape = len(shape_of(x)), shape_of(x)
        perm = [0, *range(2, rank), 1] if back else [0, rank - 1, *range(1, rank - 1)]
        return self.add("Transpose", [x], {"perm": perm}, shape=[shape[p] for p in perm])

    def result_shape(self, last: bool) -> tuple[int, ...]:
        """The node's result as [N, C, …]."""
        shape = shape_of(self.node.outputs[0])
        return (shape[0], shape[-1], *shape[1:-1]) if last else shape


def quant_spelling(edit: Editor, options: LoadOptions) -> None:
    """Spell out every operator on codes that no backend asked for."""
    native = options.native or frozenset()
    for node in edit.graph:
        rules = {"": STANDARD, MICROSOFT: CONTRIB}.get(node.domain)
        rule = None if rules is None else rules.get(node.op_type)
        if rule is not None and f"{node.domain}::{node.op_type}" not in native:
            rule(Spelling(edit, node))


def _product(s: Spelling, left: int, right: int, axis: int) -> ir.Value | None:
    """The scale of products of inputs `left` and `right`, whose scales run along `axis`."""
    a, b = array(s.scale(left)), array(s.scale(right))
    if a is None or b is None or a.size != 1:
        return None
    return s.edit.const((a.reshape(()) * b).astype(np.float32), f"{s.node.name}_scale")


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


def _standard_conv(s: Spelling) -> None:
    if _constant(s, 1, 2, 4, 5, 6, 7):
        _qlinear_conv(s)


def _constant(s: Spelling, *indices: int) -> bool:
    """Whether these inputs are constants (the others are left to the operator's body)."""
    return all(s.optional(i) is None or array(s.optional(i)) is not None for i in indices)


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


def _average_pool(s: Spelling) -> None:
    x, last = s.channels_first(s.input(0))
    shape = s.result_shape(last)
    y = s.add("AveragePool", [s.operand(0, x=x)], s.attributes("channels_last"), shape=shape)
    s.done(s.restored(s.coded(y, 3), last))


def _global_pool(s: Spelling) -> None:
    x, last = s.channels_first(s.input(0))
    y = s.add("GlobalAveragePool", [s.operand(0, x=x)], shape=s.result_shape(last))
    s.done(s.restored(s.coded(y, 3), last))


def _mean(s: Spelling) -> None:
    given = attribute(s.node, "axes")
    inputs = [s.operand(0)]
    if given is not None:
        inputs.append(s.edit.ints([int(a) for a in given], f"{s.node.name}_axes"))
    keep = {"keepdims": int(attribute(s.node, "keepdims", 1))}
    s.finish(s.add("ReduceMean", inputs, keep, shape=shape_of(s.node.outputs[0])), 3)


def _concat(s: Spelling) -> None:
    parts = [s.operand(i) for i in range(2, len(s.node.inputs), 3)]
    shape = shape_of(s.node.outputs[0])
    s.finish(s.add("Concat", parts, s.attributes(), shape=shape), 0)


def _where(s: Spelling) -> None:
    inputs = [s.input(0), s.operand(1), s.operand(4)]
    shape = shape_of(s.node.outputs[0])
    y = s.add("Where", inputs, shape=shape, dtype=inputs[1].dtype)
    s.finish(y, 7)


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


def _matmul_to_float(s: Spelling) -> None:
    product = _integer_product(s, s.input(0), s.optional(4), 1, 5)
    _scaled(s, product, s.scale(2), s.scale(3), s.optional(6))


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


STANDARD: dict[str, Callable[[Spelling], None]] = {
    "QLinearConv": _standard_conv,
    "QLinearMatMul": _qlinear_matmul,
}
CONTRIB: dict[str, Callable[[Spelling], None]] = {
    "DequantizeLinear": _requantise(DEQUANTISE),
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulIntegerToFloat": _matmul_to_float,
    "QGemm": _gemm,
    "QLinearAdd": _binary("Add"),
    "QLinearAveragePool": _average_pool,
    "QLinearConcat": _concat,
    "QLinearConv": _qlinear_conv,
    "QLinearGlobalAveragePool": _global_pool,
    "QLinearLeakyRelu": _unary("LeakyRelu"),
    "QLinearMul": _binary("Mul"),
    "QLinearReduceMean": _mean,
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearSoftmax": _softmax,
    "QLinearWhere": _where,
    "QuantizeLinear": _requantise(QUANTISE),
}
