# SPDX-License-Identifier: Apache-2.0
"""Normalisations spelled out.

Before: m = ReduceMean(x, [-1]); d = Sub(x, m); v = ReduceMean(Mul(d, d), [-1]);
        y = Add(Mul(Div(d, Sqrt(Add(v, eps))), gamma), beta)
After:  y = LayerNormalization(x, gamma, beta)
Without a mean and a beta it is RMSNormalization. The axes must be the last ones. Both compute in
float32: a chain on float64 stays as it is.
Before: e = Exp(Sub(x, ReduceMax(x, [-1]))); y = Div(e, ReduceSum(e, [-1]))      After: Softmax(x)
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, single_use
from aot.ir.graph_nodes import Array, array, dtype_of, shape_of
from aot.load.options import LoadOptions
from aot.normalise.form import Form
from aot.normalise.recognise_activations import Names, matched

#: A larger addend is no guard against a division by 0, but a part of the formula.
MAX_EPSILON = 0.1
DOUBLE = 11


FORMS = (
    Form(
        "Div((e := Exp(Sub(x, ReduceMax(x, const(a))))), ReduceSum(e, const(b)))",
        "Softmax(x)",
        "the axes differ, or there are several",
    ),
    Form(
        "Div(d, Sqrt(Add(ReduceMean(Mul(d, d), const(a)), const(e))))",
        "RMSNormalization(d), or LayerNormalization(x) where d is x minus its mean",
        "the axes are not the last ones, the elements are float64, or e is no small number",
    ),
)


#: A normalisation by what computes it; d is what is normalised, all of its axes are kept.
SOFTMAX = (
    "Div(Exp(Sub(x, ReduceMax(x, axes, keepdims=1))),"
    " ReduceSum(Exp(Sub(x, ReduceMax(x, axes, keepdims=1))), axes, keepdims=1))"
)
ROOT = "Sqrt(ReduceMean(d * d, axes, keepdims=1) + epsilon)"
NORMALISED = (f"Div(d, {ROOT})", f"d * Reciprocal({ROOT})", f"d * Div(1, {ROOT})")
CENTRED = "Sub(x, ReduceMean(x, axes, keepdims=1))"


def norms(edit: Editor, options: LoadOptions) -> None:
    """Recognise normalisations at the division that ends them."""
    for node in edit.graph:
        value = node.outputs[0]
        if not _softmax(edit, node) and value.dtype != DOUBLE:
            found = (matched(text, value, {}) for text in NORMALISED)
            names = next(filter(None, found), None)
            if names is not None and 0 <= names["epsilon"] <= MAX_EPSILON:
                _normalisation(edit, node, names)


def _softmax(edit: Editor, node: ir.Node) -> bool:
    """Replace exp(x - max) / sum around `node` by a Softmax; whether that was done."""
    names = matched(SOFTMAX, node.outputs[0], {})
    axes = None if names is None else array(names["axes"])
    if names is None or axes is None or axes.size != 1:
        return False
    x, axis = names["x"], int(axes.item())
    edit.substitute(node, edit.node("Softmax", [x], {"axis": axis}, before=node, shape=shape_of(x)))
    return True


def _normalisation(edit: Editor, node: ir.Node, names: Names) -> None:
    """`node` divides d by its root mean square, over the last axes if these are `axes`."""
    d, axes = names["d"], array(names["axes"])
    rank = len(shape_of(d))
    # Canonical normalisations work on the last axes only.
    if axes is None or not axes.size or axes.tolist() != list(range(int(axes.ravel()[0]), rank)):
        return
    axis, centred = int(axes[0]), matched(CENTRED, d, {"axes": names["axes"]})
    x = d if centred is None else centred["x"]
    shape = shape_of(x)[axis:]
    last, inputs = _scale(edit, node, x, shape)
    # A constant Add behind is the shift, unless the mean was not taken off: RMSNormalization has
    # none.
    shift = None if centred is None else _next_constant(last.outputs[0], "Add", shape)
    if shift is not None:
        last = shift
        inputs.append(edit.const(_constant_of(shift, shape), f"{node.name}_beta", dtype_of(x)))
    kind = "RMSNormalization" if centred is None else "LayerNormalization"
    attributes = {"axis": axis, "epsilon": names["epsilon"]}
    size = shape_of(last.outputs[0])
    edit.substitute(last, edit.node(kind, inputs, attributes, before=last, shape=size))


def _next_constant(value: ir.Value, op_type: str, shape: tuple[int, ...]) -> ir.Node | None:
    """The only reader of `value` if it is `op_type` with a constant of `shape`."""
    user = single_use(value)
    if user is None or user.domain or user.op_type != op_type:
        return None
    data = next((a for a in (array(i) for i in user.inputs) if a is not None), None)
    if data is None or shape_of(user.outputs[0]) != shape_of(value):
        return None
    padded = (1,) * (len(shape) - data.ndim) + data.shape
    line = (1,) * (data.ndim - len(shape)) + shape  # others repeat to axes before it
    return user if padded == line or data.size == 1 else None


def _constant_of(node: ir.Node, shape: tuple[int, ...]) -> Array:
    """The constant operand of `node`, in `shape`; one number is repeated."""
    data = next(a for a in (array(i) for i in node.inputs) if a is not None)
    if data.size == 1:
        return np.broadcast_to(data.reshape(()), shape).copy()
    return data.reshape(shape)


def _scale(
    edit: Editor, node: ir.Node, x: ir.Value, shape: tuple[int, ...]
) -> tuple[ir.Node, list[ir.Value | None]]:
    """The node that ends with the scale, and [x, gamma]."""
    gain = _next_constant(node.outputs[0], "Mul", shape)
    gamma = np.ones(shape, dtype_of(x).numpy()) if gain is None else _constant_of(gain, shape)
    return gain or node, [x, edit.const(gamma, f"{node.name}_gamma", dtype_of(x))]
