# SPDX-License-Identifier: Apache-2.0
"""Axes of reductions are a sorted, complete constant; a reduction over no axes is no reduction.

Before: y = ReduceSum(x, [-1, 0])      After: y = ReduceSum<keepdims=1>(x, [0, 2])
"""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import array, attribute, operand, shape_of
from aot.normalise.attributes import canonical, rank_of
from aot.ops.reduce import KINDS

#: Reductions of one element as functions of it; ONNX's bodies of L2 and LogSumExp overflow.
OF_ONE = {
    "ReduceL1": "Abs",
    "ReduceL2": "Abs",
    "ReduceLogSum": "Log",
    "ReduceLogSumExp": "Identity",
}


def of_one(edit: Editor, node: ir.Node) -> None:
    """Replace a reduction over no axes by its function of one element; others stay.

    Before: y = ReduceL2(x) over no axes      After: y = Abs(x)
    """
    x = operand(node, 0)
    floats = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    if node.op_type in OF_ONE and x.dtype in floats:
        new = edit.node(OF_ONE[node.op_type], [x], before=node, shape=shape_of(x))
        edit.substitute(node, new)


@canonical(" ".join(KINDS))
def explicit_axes(edit: Editor, node: ir.Node) -> None:
    """Make the axes of a reduction a sorted, complete constant without negative ones.

    Axes that are computed stay. A reduction over no axes becomes a function of each element.
    """
    rank = rank_of(node)
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = array(given)
    if given is not None and axes is None:
        return
    if axes is None or not axes.size:
        # Empty axes mean all of them, unless the attribute says none.
        if attribute(node, "noop_with_empty_axes", 0):
            of_one(edit, node)
            return
        wanted = list(range(rank))
    else:
        wanted = sorted(int(a) + rank if a < 0 else int(a) for a in axes.ravel())
    if axes is None or axes.ravel().tolist() != wanted:
        edit.set_input(node, 1, edit.ints(wanted, f"{node.name}_axes"))
    edit.set_attribute(node, "keepdims", int(attribute(node, "keepdims", 1)))
    edit.drop_attribute(node, "noop_with_empty_axes")
