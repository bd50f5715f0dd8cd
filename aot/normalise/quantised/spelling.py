# SPDX-License-Identifier: Apache-2.0
"""Operators on quantised values as float operators between DequantizeLinear and QuantizeLinear.

Before: y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz, b)
After:  y = QuantizeLinear(Conv(DequantizeLinear(x, xs, xz), DequantizeLinear(w, ws, wz, axis=0),
            DequantizeLinear(b, xs * ws, 0, axis=0)), ys, yz)
The same for QLinearMatMul and for onnxruntime's QLinear operators, QGemm, QuantizeLinear and
DequantizeLinear; its products of dynamically quantised inputs become MatMulInteger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import array, attribute, shape_of, title
from aot.ir.operators import Interface
from aot.load.options import LoadOptions
from aot.normalise.form import Form
from aot.normalise.quantised.common import DEQUANTISE, QUANTISE

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
        """A scale or zero point as a scalar or a vector; more axes stay if more than one is
        not 1.
        """
        shape = shape_of(value)
        if len(shape) == 1 and shape[0] == 1:
            return self.shaped(value, ())
        if len(shape) > 1 and sum(d != 1 for d in shape) <= 1:
            size = int(np.prod(shape))
            return self.shaped(value, () if size == 1 else (size,))
        return value

    def as_float(self, value: ir.Value) -> ir.Value:
        """A scale in float32 (half-precision scales widen exactly)."""
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
        """The result, of `shape`, of a new node in front of the one that is respelled."""
        return self.edit.node(
            op_type, inputs, attributes, before=self.node, shape=shape, dtype=dtype
        )

    def real(
        self, x: ir.Value, scale: ir.Value, zero: ir.Value | None, axis: int | None = None
    ) -> ir.Value:
        """The numbers that quantised values `x` stand for; vectors of scales run along `axis`.

        UnsupportedError for several scales without an axis.
        """
        if zero is not None:
            zero = self._flat(zero)
            if shape_of(zero) != shape_of(scale):
                zero = self._spread(zero, shape_of(scale))
        several = len(shape_of(scale)) == 1
        if several and axis is None:
            raise UnsupportedError(
                f"{title(self.node)}: it has {shape_of(scale)[0]} scales without an axis"
            )
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
        """`y` as quantised values of `dtype` or the node's result; `scale` is the index of the
        scale's operand.

        The zero point is the operand behind it. UnsupportedError for several scales.
        """
        kind = dtype or self.node.outputs[0].dtype
        zero, factor = self.optional(scale + 1), self.scale(scale)
        if zero is None:
            assert kind is not None
            zero = self.edit.const(np.zeros((), kind.numpy()), "zero", kind)
        inputs = [y, factor, self._flat(zero)]
        if shape_of(factor) != ():
            raise UnsupportedError(
                f"{title(self.node)}: the result has {shape_of(factor)[0]} scales (needs 1)"
            )
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
        return (self._transposed(x, back=False), True) if last else (x, False)

    def restored(self, y: ir.Value, last: bool) -> ir.Value:
        """Quantised values [N, C, …] in the order of the node's result."""
        return self._transposed(y, back=True) if last else y

    def _transposed(self, x: ir.Value, back: bool) -> ir.Value:
        """`x` with channels moved from the last axis to axis 1, or `back`."""
        rank, shape = len(shape_of(x)), shape_of(x)
        perm = [0, *range(2, rank), 1] if back else [0, rank - 1, *range(1, rank - 1)]
        return self.add("Transpose", [x], {"perm": perm}, shape=[shape[p] for p in perm])

    def result_shape(self, last: bool) -> tuple[int, ...]:
        """The node's result as [N, C, …]."""
        shape = shape_of(self.node.outputs[0])
        return (shape[0], shape[-1], *shape[1:-1]) if last else shape


#: Spells out a node whose operator works on quantised values: rules of `aot/ops`.
spells: Interface[Callable[[Spelling], None]] = Interface("spells")


def quant_spelling(edit: Editor, options: LoadOptions) -> None:
    """Spell out every operator on quantised values that no backend asked for."""
    native = options.native or frozenset()
    for node in edit.graph:
        rule = spells.of(node)
        if rule is not None and f"{node.domain}::{node.op_type}" not in native:
            rule(Spelling(edit, node))
