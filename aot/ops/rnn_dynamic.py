# SPDX-License-Identifier: Apache-2.0
"""RNN, GRU and LSTM along dynamic axes: the number of steps is the length of the sequences."""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute, given, shape_of
from aot.shapes.dynamic.dims import Axes, DynamicDims, refused
from aot.shapes.dynamic.equality_constraints import agreed
from aot.shapes.dynamic.rules import INT32_TYPE, dynamic, needed, with_input


@dynamic("GRU LSTM RNN")
def recurrent_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """GRU, LSTM, RNN of sequences whose steps or batches are known at run time only.

    Without lengths, the number of steps becomes the length of every sequence, so that padding is
    never a step; given lengths are 0 in the padding of the batch. A batch passes to all results,
    steps to the first one. Refused: dynamic features, weights, and lengths or states of another
    batch than the sequences'.
    """
    data, lengths = needed(node, 0), given(node, 4)
    batch_first = bool(attribute(node, "layout", 0))
    steps, batch = (1, 0) if batch_first else (0, 1)
    own = x.run_sizes(data)
    for index, value in enumerate(node.inputs):
        axes = set(x.run_sizes(value))
        allowed = {0: {0, 1}, 4: {0}, 5: {0 if batch_first else 1}, 6: {0 if batch_first else 1}}
        if axes - allowed.get(index, set()):
            raise refused(node, f"gets input {index} along a dimension known at run time only")
    n, rows = own.get(steps), own.get(batch)
    for index in (4, 5, 6):
        value = given(node, index)
        if value is None:
            continue
        axis = 0 if index == 4 or batch_first else 1
        theirs = x.run_sizes(value).get(axis)
        rows = agreed(x, node, rows, theirs, "has states for another batch than its sequences")
        if index == 4 and theirs is not None:
            node.replace_input_with(4, x.neutral(node, value, 0))
    if n is not None and lengths is None:
        count = shape_of(data)[batch]
        # ONNX wants lengths of 32 bits.
        short = x.node(node, "Cast", [n], [(INT32_TYPE, (1,))], to=INT32_TYPE)[0]
        to = x.ints(node, [count])
        made = x.node(node, "Expand", [short, to], [(INT32_TYPE, (count,))])[0]
        with_input(node, 4, made)
    x.sweep.type_outputs(node)
    for index, value in enumerate(node.outputs):
        ends: Axes = {} if rows is None else {0 if batch_first else (2 if index == 0 else 1): rows}
        if index == 0 and n is not None:
            ends[1 if batch_first else 0] = n
        x.set(value, ends)
