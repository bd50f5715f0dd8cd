# SPDX-License-Identifier: Apache-2.0
"""Plain spellings of arithmetic, exact ones only.

Before: Sum(a, b, c)         Sub(x, 2.0)    Div(x, 4.0)    Pow(x, 2)    Max(a, b, c)
After:  Add(Add(a, b), c)    Add(x, -2.0)   Mul(x, 0.25)   Mul(x, x)    Max(Max(a, b), c)
A constant operand of Add, Mul, Max, Min comes second.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import constant, shape_of
from aot.ir.operators import Commutative, Interface, trait_of
from aot.load.options import LoadOptions
from aot.normalise.form import Form

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


#: The value of a plainer equivalent with the same bits, made in front of the node; None for none.
plainer: Interface[Callable[[Editor, ir.Node], ir.Value | None]] = Interface("plainer")


def arithmetic(edit: Editor, options: LoadOptions) -> None:
    """Rewrite operators that have a plainer equivalent with the same bits."""
    for node in edit.graph:
        if trait_of(node, Commutative) is not None:
            _constant_second(edit, node)
        rule = plainer.of(node)
        new = None if rule is None else rule(edit, node)
        if new is not None:
            edit.substitute(node, new)


def _constant_second(edit: Editor, node: ir.Node) -> None:
    """Swap, in place, the operands of a commutative node whose first one is the only constant."""
    left, right = node.inputs[0], node.inputs[-1]
    if len(node.inputs) == 2 and constant(left) is not None and constant(right) is None:
        edit.set_input(node, 0, right)
        edit.set_input(node, 1, left)


def in_pairs(op_type: str, at_least: int) -> Callable[[Editor, ir.Node], ir.Value | None]:
    """The rule that `op_type` computes two operands after the other, from so many operands on."""

    def rule(edit: Editor, node: ir.Node) -> ir.Value | None:
        """The chain of nodes of two operands that computes `node`; None if it has too few
        operands.
        """
        inputs = [i for i in node.inputs if i is not None]
        if len(inputs) < at_least:
            return None
        total = inputs[0]
        for value in inputs[1:]:
            shape = np.broadcast_shapes(shape_of(total), shape_of(value))
            total = edit.node(op_type, [total, value], before=node, shape=shape)
        return total

    return rule
