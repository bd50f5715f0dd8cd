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
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import Array, array, attribute, dtype_of, operand, shape_of
from aot.load.options import LoadOptions
from aot.normalise.form import Form
from aot.normalise.recognise_activations import plus

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


def norms(edit: Editor, options: LoadOptions) -> None:
    """Recognise normalisations at the division that ends them."""
    for node in edit.graph:
        if node.domain or node.op_type not in ("Div", "Mul") or len(node.inputs) != 2:
            continue
        if not _softmax(edit, node) and node.outputs[0].dtype != DOUBLE:
            _normalisation(edit, node)


def _softmax(edit: Editor, node: ir.Node) -> bool:
    top, total = producer(node.inputs[0], "Exp"), producer(node.inputs[1], "ReduceSum")
    if node.op_type != "Div" or top is None or total is None:
        return False
    shifted, axes = producer(top.inputs[0], "Sub"), _axes(total)
    if shifted is None or total.inputs[0] is not top.outputs[0] or axes is None or len(axes) != 1:
        return False
    peak, x = producer(shifted.inputs[1], "ReduceMax"), shifted.inputs[0]
    if peak is None or x is None or peak.inputs[0] is not x or _axes(peak) != axes:
        return False
    new = edit.node("Softmax", [x], {"axis": axes[0]}, before=node, shape=shape_of(x))
    edit.substitute(node, new)
    return True


def _axes(node: ir.Node) -> list[int] | None:
    """Axes of a canonical reduction that keeps its dimensions."""
    axes = array(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if axes is None or not attribute(node, "keepdims", 1) else axes.tolist()


def _normalisation(edit: Editor, node: ir.Node) -> None:
    """`node` divides by a root, or multiplies by the reciprocal of one."""
    for index in (0, 1):
        root = _root(node, index)
        numerator = node.inputs[1 - index]
        found = None if root is None or numerator is None else _spread(root)
        if found is None or numerator is None:
            continue
        square, axes, epsilon = found
        if square is not numerator:
            continue
        x = _centred(numerator, axes)
        if x is not None:
            _layer_norm(edit, node, x, axes, epsilon)
        else:
            _rms_norm(edit, node, numerator, axes, epsilon)
        return


def _root(node: ir.Node, index: int) -> ir.Node | None:
    """The Sqrt that input `index` divides by."""
    if node.op_type == "Div":
        return producer(node.inputs[1], "Sqrt") if index == 1 else None
    inverse = producer(node.inputs[index], "Reciprocal", "Div")
    if inverse is None:
        return None
    if inverse.op_type == "Div":
        one = array(inverse.inputs[0])
        if one is None or one.size != 1 or one.ravel()[0] != 1:
            return None
        return producer(inverse.inputs[1], "Sqrt")
    return producer(inverse.inputs[0], "Sqrt")


def _spread(root: ir.Node) -> tuple[ir.Value, list[int], float] | None:
    """(d, axes, eps) if root is sqrt(mean(d * d) + eps) over the last axes."""
    sum_ = plus(root.inputs[0])
    if sum_ is None or not 0 <= sum_[1] <= MAX_EPSILON:
        return None
    mean = producer(sum_[0], "ReduceMean")
    square = None if mean is None else producer(mean.inputs[0], "Mul")
    axes = None if mean is None else _axes(mean)
    if square is None or axes is None or square.inputs[0] is not square.inputs[1]:
        return None
    d = operand(square, 0)
    rank = len(shape_of(d))
    return (d, axes, sum_[1]) if axes == list(range(axes[0], rank)) else None


def _centred(value: ir.Value, axes: list[int]) -> ir.Value | None:
    """x if value is x - mean(x)."""
    node = producer(value, "Sub")
    mean = None if node is None else producer(node.inputs[1], "ReduceMean")
    if node is None or mean is None or mean.inputs[0] is not node.inputs[0]:
        return None
    return node.inputs[0] if _axes(mean) == axes else None


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
    data = next(a for a in (array(i) for i in node.inputs) if a is not None)
    if data.size == 1:
        return np.broadcast_to(data.reshape(()), shape).copy()
    return data.reshape(shape)


def _layer_norm(edit: Editor, node: ir.Node, x: ir.Value, axes: list[int], epsilon: float) -> None:
    shape = shape_of(x)[axes[0] :]
    last, inputs = _scale(edit, node, x, shape)
    shift = _next_constant(last.outputs[0], "Add", shape)
    if shift is not None:
        last = shift
        inputs.append(edit.const(_constant_of(shift, shape), f"{node.name}_beta", dtype_of(x)))
    _finish(edit, last, "LayerNormalization", inputs, axes[0], epsilon)


def _rms_norm(edit: Editor, node: ir.Node, x: ir.Value, axes: list[int], epsilon: float) -> None:
    last, inputs = _scale(edit, node, x, shape_of(x)[axes[0] :])
    _finish(edit, last, "RMSNormalization", inputs, axes[0], epsilon)


def _scale(
    edit: Editor, node: ir.Node, x: ir.Value, shape: tuple[int, ...]
) -> tuple[ir.Node, list[ir.Value | None]]:
    """The node that ends with the scale, and [x, gamma]."""
    gain = _next_constant(node.outputs[0], "Mul", shape)
    gamma = np.ones(shape, dtype_of(x).numpy()) if gain is None else _constant_of(gain, shape)
    return gain or node, [x, edit.const(gamma, f"{node.name}_gamma", dtype_of(x))]


def _finish(
    edit: Editor,
    last: ir.Node,
    op_type: str,
    inputs: list[ir.Value | None],
    axis: int,
    epsilon: float,
) -> None:
    attributes = {"axis": axis, "epsilon": epsilon}
    shape = shape_of(last.outputs[0])
    new = edit.node(op_type, inputs, attributes, before=last, shape=shape)
    edit.substitute(last, new)
