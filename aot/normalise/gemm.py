# SPDX-License-Identifier: Apache-2.0
"""Gemm in one form: alpha and beta 1, constant B stored [K, N], bias [N].

A B that is read in other ways too stays as it is, so that it is stored once.

Before: y = Gemm(x, w[10, 64], b, alpha=0.5, transB=1)      After: y = Gemm(x, w'[64, 10], b)
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import SHARED_KEY, array, attribute, operand, shape_of
from aot.ir.node_traits import stored_as_given
from aot.load.options import LoadOptions

DEFAULTS = (("alpha", 1.0), ("beta", 1.0), ("transA", 0), ("transB", 0))


def gemm(edit: Editor, options: LoadOptions) -> None:
    """Move scales and transposes of constant operands into the constants."""
    for node in edit.graph:
        if node.op_type == "Gemm" and not node.domain:
            _weights(edit, node)
            _bias(edit, node)
            for name, default in DEFAULTS:
                if attribute(node, name, default) == default:
                    edit.drop_attribute(node, name)


def _weights(edit: Editor, node: ir.Node) -> None:
    """Multiply constant weights of a Gemm by alpha and store them as transB would have them."""
    weights, alpha = array(node.inputs[1]), float(attribute(node, "alpha", 1.0))
    if weights is None or weights.dtype.kind != "f":
        return
    transposed = bool(attribute(node, "transB", 0))
    # Weights that another node reads as they are would be stored twice.
    shared = SHARED_KEY in operand(node, 1).metadata_props or stored_as_given(operand(node, 1))
    if alpha == 1.0 and (not transposed or shared):
        return
    new = weights.T if transposed else weights
    if alpha != 1.0:
        new = (new.astype(np.float64) * alpha).astype(weights.dtype)
    value = edit.const(new, f"{node.name}_w", operand(node, 1).dtype)
    edit.set_input(node, 1, value)
    edit.drop_attribute(node, "transB")
    edit.drop_attribute(node, "alpha")


def _bias(edit: Editor, node: ir.Node) -> None:
    """Make a constant C of Gemm a bias [columns] with `beta` in it, rounded once from float64.

    Beta 0 drops C. A C that is no constant, or no row, stays as it is, with `beta` if that is
    not 1.
    """
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is None:
        edit.drop_attribute(node, "beta")
        return
    bias, beta = array(value), float(attribute(node, "beta", 1.0))
    if beta == 0.0:  # C is not read: it may hold what is no number
        edit.set_input(node, 2, None)
        edit.drop_attribute(node, "beta")
        return
    columns = shape_of(node.outputs[0])[1]
    if bias is None or bias.dtype.kind != "f":
        return
    row = bias.size == 1 or bias.shape in ((columns,), (1, columns))
    if beta == 1.0 and (not row or bias.shape == (columns,)):
        edit.drop_attribute(node, "beta")
        return
    new = bias if beta == 1.0 else (bias.astype(np.float64) * beta).astype(bias.dtype)
    if row:
        new = np.broadcast_to(new.reshape(-1), (columns,)).copy()
    edit.set_input(node, 2, edit.const(new, f"{node.name}_b", value.dtype))
    edit.drop_attribute(node, "beta")
