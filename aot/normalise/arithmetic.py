# SPDX-License-Identifier: Apache-2.0
"""Plain spellings of arithmetic, exact ones only.

Before: Sum(a, b, c)         Sub(x, 2.0)    Div(x, 4.0)    Pow(x, 2)    Max(a, b, c)
After:  Add(Add(a, b), c)    Add(x, -2.0)   Mul(x, 0.25)   Mul(x, x)    Max(Max(a, b), c)
A constant operand of Add, Mul, Max, Min comes second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, array, constant, shape_of
from aot.ir.operators import Commutative, trait_of
from aot.load.options import LoadOptions
from aot.normalise.form import Form

if TYPE_CHECKING:
    import onnx_ir as ir


FORMS = (
    Form("Pow(x, 2)", "Mul(x, x)", "the exponent has more axes than x"),
    Form("Sub(x, const(c))", "Add(x, -c)", "the elements are integers", floats=True),
    *(
        Form(f"Div(x, {n})", f"Mul(x, {1 / n})", "the elements are integers", floats=True)
        for n in (2, 4, 8, 16)
    ),
    Form("Sum(a, b, *)", "Add(a, b)"),
    Form("Max(a, b, c, *)", "Max(Max(a, b), c)"),
    Form("Min(a, b, c, *)", "Min(Min(a, b), c)"),
)


def arithmetic(edit: Editor, options: LoadOptions) -> None:
    """Rewrite operators that have a plainer equivalent with the same bits."""
    for node in edit.graph:
        if trait_of(node, Commutative) is not None:
            _constant_second(edit, node)
        rule = None if node.domain else RULES.get(node.op_type)
        new = None if rule is None else rule(edit, node)
        if new is not None:
            edit.replace(node.outputs[0], new)
            edit.remove(node)


def _constant_second(edit: Editor, node: ir.Node) -> None:
    left, right = node.inputs[0], node.inputs[-1]
    if len(node.inputs) == 2 and constant(left) is not None and constant(right) is None:
        edit.set_input(node, 0, right)
        edit.set_input(node, 1, left)


def _chain(op_type: str, at_least: int) -> Callable[[Editor, ir.Node], ir.Value | None]:
    def rule(edit: Editor, node: ir.Node) -> ir.Value | None:
        inputs = [i for i in node.inputs if i is not None]
        if len(inputs) < at_least:
            return None
        total = inputs[0]
        for value in inputs[1:]:
            shape = np.broadcast_shapes(shape_of(total), shape_of(value))
            total = edit.node(op_type, [total, value], before=node, shape=shape)
        return total

    return rule


def _float_operand(node: ir.Node, limit: int = 1 << 16) -> Array | None:
    """Input 1 as a constant float array, if the result's type is a float NumPy computes with."""
    data = array(node.inputs[1])
    if data is None or data.dtype.kind != "f" or data.size > limit:
        return None
    return data


def _subtract(edit: Editor, node: ir.Node) -> ir.Value | None:
    data, x = _float_operand(node), node.inputs[0]
    if data is None or x is None:
        return None
    negative = edit.const(-data, f"{node.name}_negated")
    return edit.node("Add", [x, negative], before=node, shape=shape_of(node.outputs[0]))


def _divide(edit: Editor, node: ir.Node) -> ir.Value | None:
    """By a power of two whose reciprocal is a normal number."""
    data, x = _float_operand(node), node.inputs[0]
    if data is None or x is None or not np.all(np.isfinite(data)) or np.any(data == 0):
        return None
    mantissa, _ = np.frexp(data)
    with np.errstate(all="ignore"):
        inverse = (1 / data).astype(data.dtype)
    if np.any(np.abs(mantissa) != 0.5) or np.any(np.abs(inverse) < np.finfo(data.dtype).tiny):
        return None
    if not np.all(np.isfinite(inverse)):
        return None
    factor = edit.const(inverse, f"{node.name}_inverse")
    return edit.node("Mul", [x, factor], before=node, shape=shape_of(node.outputs[0]))


def _power(edit: Editor, node: ir.Node) -> ir.Value | None:
    exponent, x = array(node.inputs[1]), node.inputs[0]
    if exponent is None or exponent.size != 1 or x is None or x.dtype is None:
        return None
    if shape_of(node.outputs[0]) != shape_of(x) or float(exponent.ravel()[0]) != 2.0:
        return None
    return edit.node("Mul", [x, x], before=node, shape=shape_of(x))


RULES: dict[str, Callable[[Editor, ir.Node], ir.Value | None]] = {
    "Sum": _chain("Add", 2),
    "Max": _chain("Max", 3),
    "Min": _chain("Min", 3),
    "Sub": _subtract,
    "Div": _divide,
    "Pow": _power,
}
