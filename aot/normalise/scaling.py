# SPDX-License-Identifier: Apache-2.0
"""Chains of constant scales and shifts of the same shape are one scale and one shift.

Before: Add(Mul(Add(Mul(x, s1), t1), s2), t2)      After: Add(Mul(x, s1 * s2), t1 * s2 + t2)
This is what is left of BatchNormalization followed by a scale layer. Computed in float64; constants
are per channel (at least two elements), so that a user's scalar arithmetic is left as it is.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import Array, array, shape_of
from aot.load.options import LoadOptions


def scaling(edit: Editor, options: LoadOptions) -> None:
    """Merge pairs of Mul and Add with constants that follow each other directly into one pair."""
    for node in edit.graph:
        outer = _pair(node)
        if outer is None or producer(outer[0], "Add") is None:
            continue
        middle, scale2, shift2 = outer
        inner_node = producer(middle, "Add")
        # Somebody else reads the value between the pairs.
        inner = None if inner_node is None or single_use(middle) is None else _pair(inner_node)
        if inner is None:
            continue
        x, scale1, shift1 = inner
        if scale1.shape != scale2.shape or x.dtype is None:
            continue
        kind = x.dtype.numpy()
        # In the model's type, as the pairs themselves were computed; infinities would hide results.
        scale = (scale1 * scale2).astype(kind)
        shift = (shift1 * scale2 + shift2).astype(kind)
        if not (np.all(np.isfinite(scale)) and np.all(np.isfinite(shift))):
            continue
        factor = edit.const(scale, f"{node.name}_scale", x.dtype)
        offset = edit.const(shift, f"{node.name}_shift", x.dtype)
        shape = shape_of(node.outputs[0])
        product = edit.node("Mul", [x, factor], before=node, shape=shape)
        new = edit.node("Add", [product, offset], before=node, shape=shape)
        edit.substitute(node, new)


def _pair(node: ir.Node) -> tuple[ir.Value, Array, Array] | None:
    """(x, scale, shift) in float64 if `node` is Add(Mul(x, scale), shift) with constants."""
    shifted = _constant_operand(node, "Add")
    if shifted is None:
        return None
    product, shift = shifted
    scaled = None if single_use(product) is None else _constant_operand(product.producer(), "Mul")
    if scaled is None or scaled[1].shape != shift.shape:
        return None
    return scaled[0], scaled[1], shift


def _constant_operand(node: ir.Node | None, op_type: str) -> tuple[ir.Value, Array] | None:
    """(computed operand, constant operand in float64) of a node `op_type` of two operands, if the
    constant has several floats and the computed operand the shape of the result."""
    if node is None or node.domain or node.op_type != op_type:
        return None
    for index in (1, 0):
        data, x = array(node.inputs[index]), node.inputs[1 - index]
        if data is None or x is None or data.size < 2 or data.dtype.kind != "f":
            continue
        if shape_of(x) == shape_of(node.outputs[0]):
            return x, data.astype(np.float64)
    return None
