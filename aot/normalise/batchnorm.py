# SPDX-License-Identifier: Apache-2.0
"""BatchNormalization is an affine map per channel.

Before: y = BatchNormalization(Conv(x, w), …)      After: y = Conv(x, w * scale, shift)
Before: y = BatchNormalization(x, …)               After: y = Add(Mul(x, scale), shift)
Computed in float64. A backend that `keeps` BatchNormalization gets it untouched.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, is_used
from aot.ir.graph_nodes import Array, array, attribute, dtype_of, shape_of
from aot.load.options import LoadOptions
from aot.normalise.affine import absorb


def batch_norm(edit: Editor, options: LoadOptions) -> None:
    """Fold into the producer where possible, else spell out as Mul and Add."""
    if "BatchNormalization" in options.keeps:
        return
    for node in edit.graph:
        if node.op_type == "BatchNormalization" and not node.domain:
            _rewrite(edit, node)


def _rewrite(edit: Editor, node: ir.Node) -> None:
    """Fold a BatchNormalization with constants into the linear operator before it, or write Mul and
    Add.
    """
    factors = _scale_shift(node)
    x = node.inputs[0]
    if factors is None or x is None or x.dtype is None:
        return
    scale, shift = factors
    with np.errstate(over="ignore"):
        if not all(np.isfinite(a.astype(x.dtype.numpy())).all() for a in factors):
            return  # beyond a float16, though the result may be none
    new = absorb(edit, node, x, scale, shift)
    if new is None:
        new = _spell_out(edit, node, x, scale, shift)
    edit.substitute(node, new)


def _scale_shift(node: ir.Node) -> tuple[Array, Array] | None:
    """Per channel y = x * scale + shift in float64, None unless in inference mode and constant."""
    if attribute(node, "training_mode", 0) or any(is_used(o) for o in node.outputs[1:]):
        return None
    parts = [array(i) for i in node.inputs[1:5]]
    if len(parts) < 4 or any(p is None or p.dtype.kind != "f" for p in parts):
        return None
    gamma, beta, mean, variance = (np.asarray(p, dtype=np.float64) for p in parts)
    epsilon = float(np.float32(attribute(node, "epsilon", 1e-5)))
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + epsilon)
        shift = beta - mean * scale
    if not (np.all(np.isfinite(scale)) and np.all(np.isfinite(shift))):
        return None
    return scale, shift


def _spell_out(edit: Editor, node: ir.Node, x: ir.Value, scale: Array, shift: Array) -> ir.Value:
    """The result of x * scale + shift per channel, as two nodes in front of `node`."""
    shape = shape_of(x)
    column = (-1,) + (1,) * (len(shape) - 2)
    kind = dtype_of(x).numpy()
    factor = edit.const(scale.reshape(column).astype(kind), f"{node.name}_scale", dtype_of(x))
    offset = edit.const(shift.reshape(column).astype(kind), f"{node.name}_shift", dtype_of(x))
    product = edit.node("Mul", [x, factor], before=node, shape=shape)
    return edit.node("Add", [product, offset], before=node, shape=shape)
