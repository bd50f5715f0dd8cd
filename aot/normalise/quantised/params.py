# SPDX-License-Identifier: Apache-2.0
"""One form for the parameters of QuantizeLinear and DequantizeLinear, checked.

Before: y = QuantizeLinear(x, s[1], axis=0, output_dtype=INT8)
After:  y = QuantizeLinear(x, s[], zero[] int8)
A zero point is always given; axis and block_size only where there are several scales. Constant
scales are finite and positive, zero points of 32-bit quantised values are 0.
"""

from __future__ import annotations

import numpy as np

from aot.errors import ModelError, UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import (
    Array,
    array,
    attribute,
    dtype_of,
    operand,
    original_name,
    shape_of,
    title,
)
from aot.load.options import LoadOptions
from aot.normalise.quantised.common import (
    is_dequantise,
    is_quantise,
    is_quantised,
    quantised_value,
)


def quant_params(edit: Editor, options: LoadOptions) -> None:
    """Check the parameters of every node that has any, and bring them to their one form."""
    for node in edit.graph:
        if not is_quantise(node) and not is_dequantise(node):
            continue
        if is_quantised(quantised_value(node)):
            _check(node)
            _scalars(edit, node)
            _zero(edit, node)
            _attributes(edit, node)


def _check(node: ir.Node) -> None:
    """Raise ModelError or UnsupportedError unless scale, zero point and precision make sense."""
    scale_value = operand(node, 1)
    _check_scale(node, scale_value)
    zero_value = node.inputs[2] if len(node.inputs) > 2 else None
    quantised = quantised_value(node)
    if zero_value is not None:
        _check_zero(node, quantised, zero_value)
    kind = int(attribute(node, "precision", 0))
    if kind not in (0, int(scale_value.dtype or 0)):
        raise UnsupportedError(f"{title(node)}: precision {kind} (needs that of the scale)")


def _check_scale(node: ir.Node, value: ir.Value) -> None:
    """Raise ModelError unless constant scales are finite and above 0."""
    scale = array(value)
    if scale is None or scale.dtype.kind in "iu":
        return
    wide = scale.astype(np.float64).ravel()
    bad = np.flatnonzero(~(np.isfinite(wide) & (wide > 0)))
    if bad.size:
        where = f"[{int(bad[0])}]" if wide.size > 1 else ""
        found = f'scale "{original_name(value)}"{where} is {wide[bad[0]]:g}'
        hint = "a scale is a finite number above 0: calibrate and quantise the model again"
        raise ModelError(f"{title(node)}: {found}", hint=hint)


def _check_zero(node: ir.Node, quantised: ir.Value, value: ir.Value) -> None:
    """Raise ModelError unless a zero point has the type of the quantised values, and is 0 for
    int32.
    """
    zero = array(value)
    name = original_name(value)
    if value.dtype != quantised.dtype:
        said, need = (v.dtype.name.lower() if v.dtype else "?" for v in (value, quantised))
        found = f'zero point "{name}" is {said}, the quantised values are {need}'
        raise ModelError(f"{title(node)}: {found}")
    if zero is not None and quantised.dtype == ir.DataType.INT32 and np.any(zero):
        worst = int(zero.ravel()[np.flatnonzero(zero.ravel())[0]])
        found = f'zero point "{name}" is {worst} (32-bit quantised values have zero point 0)'
        raise ModelError(f"{title(node)}: {found}")


def _scalars(edit: Editor, node: ir.Node) -> None:
    """Parameters of one element lose their axis."""
    for index in (1, 2):
        value = node.inputs[index] if len(node.inputs) > index else None
        data = array(value)
        if value is not None and data is not None and data.ndim == 1 and data.size == 1:
            scalar: Array = data.reshape(())
            edit.set_input(node, index, edit.const(scalar, str(value.name), value.dtype))


def _zero(edit: Editor, node: ir.Node) -> None:
    """Give a node without zero point one of zeros."""
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        return
    dtype, scale = dtype_of(quantised_value(node)), operand(node, 1)
    zeros = np.zeros(shape_of(scale), dtype.numpy())
    edit.set_input(node, 2, edit.const(zeros, f"{scale.name}_zero", dtype))


def _attributes(edit: Editor, node: ir.Node) -> None:
    """Drop attributes of a node that say nothing: of one scale, or of the type that follows
    anyway.
    """
    if not shape_of(operand(node, 1)):
        edit.drop_attribute(node, "axis")
        edit.drop_attribute(node, "block_size")
    elif not attribute(node, "block_size", 0):
        edit.set_attribute(node, "axis", int(attribute(node, "axis", 1)))
        edit.drop_attribute(node, "block_size")
    edit.drop_attribute(node, "saturate")
    edit.drop_attribute(node, "precision")
    if is_quantise(node) or int(attribute(node, "output_dtype", 0)) in (
        *(0, int(operand(node, 1).dtype or 0)),
    ):
        edit.drop_attribute(node, "output_dtype")
