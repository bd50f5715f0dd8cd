# SPDX-License-Identifier: Apache-2.0
"""Products over channels that a Transpose brought to the back become 1 x 1 convolutions.

Before: y = Transpose(Add(MatMul(Transpose(x, NCHW->NHWC), w), b), NHWC->NCHW)
After:  y = Add(Conv(x, w'), b'), where the Transposes have cancelled
Elementwise operators with constants may stand among the products, and one operator on rows (a
LayerNormalization) before them: it keeps the Transposes around itself. Convolutions around such a
chain, and the additions of its residuals, then see channels where they have them.
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import array, operand, shape_of
from aot.ir.operators import Linear, Rowwise, element_places, trait_of
from aot.load.options import LoadOptions
from aot.normalise.transposes import perm_of, turns_axes


def channels_last(edit: Editor, options: LoadOptions) -> None:
    """Compute chains between two Transposes on channels in front, if products are among them."""
    for node in edit.graph:
        if turns_axes(node):
            rank = len(perm_of(node))
            # Convolutions of one and of two spatial axes have fast kernels.
            if rank in (3, 4) and perm_of(node) == [0, rank - 1, *range(1, rank - 1)]:
                _to_front(edit, node)


def _to_front(edit: Editor, last: ir.Node) -> None:
    """Move the Transpose `last`, which brings channels to axis 1, in front of the chain before it,
    if that begins with the opposite Transpose."""
    perm, shape = perm_of(last), shape_of(last.outputs[0])
    chain: list[tuple[ir.Node, int]] = []
    value, reader = last.inputs[0], last
    while value is not None and single_use(value) is reader:
        node = producer(value)
        place = None if node is None else _followed(node)
        if node is None or place is None or len(shape_of(value)) != len(shape):
            break
        chain.append((node, place))
        value, reader = node.inputs[place], node
    if value is None or not any(trait_of(node, Linear) for node, _ in chain):
        return
    rows = producer(value)
    on_rows = rows is not None and trait_of(rows, Rowwise) and single_use(value) is reader
    first = producer(rows.inputs[0] if rows is not None and on_rows else value)
    if first is None or not turns_axes(first) or perm_of(first) != list(np.argsort(perm)):
        return
    moved = [shape_of(value)[p] for p in perm]
    new = edit.node("Transpose", [value], {"perm": perm}, before=last, shape=moved)
    for node, place in reversed(chain):
        new = _on_front(edit, node, place, new, perm, last)
    edit.substitute(last, new)


def _followed(node: ir.Node) -> int | None:
    """The operand of `node` that a chain comes from: all others are constants; None if there is
    none, or the node is neither elementwise nor a product of float32 rows and constant weights that
    nobody else reads.
    """
    linear = trait_of(node, Linear)
    if linear is not None:
        w = operand(node, 1)
        alone = single_use(w) is node and array(w) is not None
        fits = alone and w.dtype == ir.DataType.FLOAT and len(shape_of(w)) == 2
        return 0 if fits and linear.result_axis == -1 and len(node.inputs) == 2 else None
    variable = [i for i in element_places(node) if array(node.inputs[i]) is None]
    return variable[0] if len(variable) == 1 and len(node.outputs) == 1 else None


def _on_front(
    edit: Editor, node: ir.Node, place: int, x: ir.Value, perm: list[int], before: ir.Node
) -> ir.Value:
    """The result of `node` with the channels of its operand number `place`, now x, on axis 1."""
    old = shape_of(node.outputs[0])
    shape, inputs = [old[p] for p in perm], list(node.inputs)
    inputs[place] = x
    if trait_of(node, Linear) is not None:
        weights = array(node.inputs[1])
        assert weights is not None
        window = weights.T.reshape(weights.T.shape + (1,) * (len(perm) - 2))
        inputs[1] = edit.const(window, f"{node.name}_w")
        return edit.again(node, inputs, {}, before=before, shape=shape, op_type="Conv")
    for i in element_places(node):
        data = array(node.inputs[i])
        if i != place and data is not None and data.size != 1:
            # A constant of lower rank gains leading axes of 1.
            padded = data.reshape((1,) * (len(perm) - data.ndim) + data.shape)
            inputs[i] = edit.const(
                padded.transpose(perm), f"{node.name}_const", operand(node, i).dtype
            )
    return edit.again(node, inputs, before=before, shape=shape, dtype=node.outputs[0].dtype)
