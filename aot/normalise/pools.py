# SPDX-License-Identifier: Apache-2.0
"""Means and maxima over all of space are global pools; windows are rounded down.

Before: ReduceMean(x, [2, 3])    AveragePool(x[1,8,7,7], kernel 7x7)    MaxPool(x, ceil_mode=1)
After:  GlobalAveragePool(x)     GlobalAveragePool(x)                   MaxPool(x, larger end pads)
"""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, is_used
from aot.ir.graph_nodes import array, attribute, operand, shape_of
from aot.ir.operators import Interface, Window, trait_of
from aot.load.options import LoadOptions

#: The operator that computes the same over all of space.
over_space: Interface[str] = Interface("over_space")


def pools(edit: Editor, options: LoadOptions) -> None:
    """Bring pools and reductions over space to their one form."""
    for node in edit.graph:
        pool = over_space.of(node)
        if pool is not None and trait_of(node, Window) is not None:
            _round_down(edit, node)
        if pool is not None and _is_global(node):
            _to_global(edit, node, pool)


def _is_global(node: ir.Node) -> bool:
    """Whether a pool or a mean takes all of space: rank 4 or 5, or a window as large as its
    input.
    """
    x = operand(node, 0)
    shape = shape_of(x)
    if len(shape) < 3 or len(shape) > 5 or x.dtype is None or x.dtype.numpy().kind != "f":
        return False
    if trait_of(node, Window) is None:
        if len(shape) == 3:
            return False  # the last axis of a sequence is no space
        axes = array(node.inputs[1]) if len(node.inputs) > 1 else None
        return axes is not None and axes.tolist() == list(range(2, len(shape)))
    if any(is_used(o) for o in node.outputs[1:]) or any(attribute(node, "pads")):
        return False
    whole = tuple(attribute(node, "kernel_shape")) == shape[2:]
    return whole and all(d == 1 for d in attribute(node, "dilations"))


def _to_global(edit: Editor, node: ir.Node, pool: str) -> None:
    """Replace `node` by the global operator `pool`, and a Reshape where axes were dropped."""
    x = operand(node, 0)
    shape = shape_of(x)
    pooled = (*shape[:2], *(1 for _ in shape[2:]))
    new = edit.node(pool, [x], before=node, shape=pooled)
    wanted = shape_of(node.outputs[0])
    if wanted != pooled:
        target = edit.ints(wanted, f"{node.name}_shape")
        new = edit.node("Reshape", [new, target], before=node, shape=wanted)
    edit.substitute(node, new)


def _round_down(edit: Editor, node: ir.Node) -> None:
    """Write ceil_mode as padding at the end, where no result changes by that.

    MaxPool sees no padding and AveragePool counts none, unless it counts padding: then ceil_mode
    stays.
    """
    if not attribute(node, "ceil_mode", 0):
        edit.drop_attribute(node, "ceil_mode")
        return
    kernel, strides = list(attribute(node, "kernel_shape")), list(attribute(node, "strides"))
    dilations, pads = list(attribute(node, "dilations")), list(attribute(node, "pads"))
    rank = len(kernel)
    sizes, results = shape_of(operand(node, 0))[2:], shape_of(node.outputs[0])[2:]
    for i in range(rank):
        reach = (results[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1
        # Rows that ceil_mode adds at the end, beyond what the pads give.
        missing = reach - (sizes[i] + pads[i] + pads[i + rank])
        if missing > 0:
            if attribute(node, "count_include_pad", 0):
                return
            pads[i + rank] += missing
        floor = (
            sizes[i] + pads[i] + pads[i + rank] - (kernel[i] - 1) * dilations[i] - 1
        ) // strides[i]
        # Another size than before: the window cannot say ceil_mode by pads.
        if floor + 1 != results[i]:
            return
    edit.set_attribute(node, "pads", pads)
    edit.drop_attribute(node, "ceil_mode")
