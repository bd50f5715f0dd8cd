# SPDX-License-Identifier: Apache-2.0
"""The last states of a recurrent layer of quantised values are cut from its states.

Before: y, h = LSTM(x, …); a = QuantizeLinear(y, s, z); b = QuantizeLinear(h, s, z)
After:  y, _ = LSTM(x, …); a = QuantizeLinear(y, s, z); b = the last step of a
(of a reversed direction the first one), so that one result is used, as integer kernels of recurrent
layers need. Where s and z differ nothing is done: the kernel makes both.
"""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, single_use
from aot.ir.graph_nodes import attribute, shape_of
from aot.ir.operators import trait_of
from aot.ir.value_traits import Recurrent
from aot.load.options import LoadOptions
from aot.normalise.quantised.common import (
    is_byte,
    is_quantise,
    params_of,
    quantised_value,
)


def quant_last(edit: Editor, options: LoadOptions) -> None:
    """Cut b from a wherever both are quantised values of the same scale and zero point."""
    for node in list(edit.graph):
        if trait_of(node, Recurrent) is None or len(node.outputs) < 2:
            continue
        given = [*node.inputs, None, None]
        states, last = (_quantiser(o) for o in node.outputs[:2])
        if given[4] is None and states is not None and last is not None:
            _cut(edit, node, states, last)


def _quantiser(value: ir.Value) -> ir.Node | None:
    """The QuantizeLinear to 8 bits that alone reads a value."""
    node = single_use(value)
    if not is_quantise(node) or params_of(node) is None:
        return None
    return node if is_byte(quantised_value(node)) else None


def _cut(edit: Editor, node: ir.Node, states: ir.Node, last: ir.Node) -> None:
    """Replace the last states of a recurrent node, quantised in `last`, by Slices of all quantised
    states.

    Both must have equal parameters. Slices are taken per direction at the step that ran last.
    """
    p, own = params_of(states), params_of(last)
    quantised, result = states.outputs[0], last.outputs[0]
    # With equal parameters the last state is a row of all states, so it is not computed twice.
    if p is None or own is None or not p.same(own) or quantised.dtype != result.dtype:
        return
    time, over = (1, 2) if attribute(node, "layout", 0) else (0, 1)
    shape = shape_of(quantised)
    steps, directions = shape[time], shape[over]
    backward = attribute(node, "direction", "forward") == "reverse"
    before = _later(edit, states, last)
    parts = []
    for d in range(directions):
        # A backward direction ends at the first step.
        at = 0 if backward or d == 1 else steps - 1
        bounds = [edit.ints(v, "cut") for v in ((at, d), (at + 1, d + 1), (time, over), (1, 1))]
        cut = tuple(1 if k in (time, over) else n for k, n in enumerate(shape))
        part = edit.node("Slice", [quantised, *bounds], before=before, shape=cut)
        flat = tuple(n for k, n in enumerate(cut) if k != time)
        target = edit.ints(flat, "shape")
        parts.append(edit.node("Reshape", [part, target], before=before, shape=flat))
    made = parts[0]
    if directions > 1:
        axis = {"axis": over - 1}
        made = edit.node("Concat", parts, axis, before=before, shape=shape_of(result))
    edit.substitute(last, made)


def _later(edit: Editor, node: ir.Node, b: ir.Node) -> ir.Node:
    """Whichever of two nodes comes second."""
    return next(n for n in reversed(edit.graph) if n is node or n is b)
