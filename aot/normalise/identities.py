# SPDX-License-Identifier: Apache-2.0
"""Nodes that hand their first input on.

Before: a = Dropout(x); b = Cast(a, to=its own type); y = Relu(b)      After: y = Relu(x)

The modules of `aot/ops` say of which nodes that is true (`identity`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, is_used
from aot.ir.graph_nodes import array, shape_of
from aot.ir.operators import Interface
from aot.load.options import LoadOptions

#: Whether the first output is the first input, of a node where the two have one type and shape.
identity: Interface[Callable[[ir.Node], bool]] = Interface("identity")


def identities(edit: Editor, options: LoadOptions) -> None:
    """Let readers of a pass-through node read its input."""
    for node in edit.graph:
        passes = identity.of(node)
        if passes is None or not node.inputs or node.inputs[0] is None:
            continue
        if any(is_used(o) for o in node.outputs[1:]) or not _same_type(node):
            continue
        if passes(node):
            edit.substitute(node, node.inputs[0])


def _same_type(node: ir.Node) -> bool:
    """Whether the first operand and the result have one type and shape."""
    source, result = node.inputs[0], node.outputs[0]
    return (
        source is not None and source.dtype == result.dtype and shape_of(source) == shape_of(result)
    )


def always(node: ir.Node) -> bool:
    """The rule of an operator that changes nothing but the type or the shape."""
    return True


def alone(node: ir.Node) -> bool:
    """The rule of an operator that gives back the only one of its operands."""
    return len(node.inputs) == 1


def neutral(value: float, negative: bool | None = None) -> Callable[[ir.Node], bool]:
    """The rule of an operator whose second operand `value`, a constant, changes no first one.

    With `negative` the sign of a zero counts: x - 0.0 is x for every x, x - -0.0 is not.
    """

    def rule(node: ir.Node) -> bool:
        """Whether the second operand of `node` is one neutral number, with the sign that
        keeps -0.
        """
        other = array(node.inputs[1])
        if other is None or other.size != 1 or other.ravel()[0] != value:
            return False
        whole = other.dtype.kind in "iu"
        return whole or negative is None or bool(np.signbit(other.ravel()[0])) == negative

    return rule
