# SPDX-License-Identifier: Apache-2.0
"""Operators of float16 and bfloat16 that follow one another compute in float32, without rounding
in between.

Before: c = Conv(x, w, b); y = Clip(c, 0, 6), all float16
After:  y = Cast(Clip(Conv(Cast(x), w, b), 0, 6)), float32 within the Casts; w and b are float32
Operators that only move elements stay as they are at the ends of such a part, and those whose
result jumps, as Round, read rounded values. A value that others read, too, is rounded for all of
its readers: each element is one number, infinite for all or none. It is done only with
`LoadOptions.wide_halves`, in graphs that multiply by constant weights: results are closer to the
real ones, and take more memory.
"""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer
from aot.ir.graph_nodes import (
    HALF_KEY,
    SHARED_KEY,
    array,
    attribute,
    constant,
    dtype_of,
    inner_graphs,
    maker_of,
    shape_of,
)
from aot.ir.node_traits import is_view
from aot.ir.operators import Interface, Linear, Moves, trait_of
from aot.ir.opset import canonical_opset
from aot.ir.value_traits import Converts, Dequantises, Quantises
from aot.load.options import LoadOptions
from aot.shapes.signatures import signature

HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
FLOAT = ir.DataType.FLOAT
#: True for an operator of which a slightly different operand gives a far other result.
jumps: Interface[bool] = Interface("jumps")


def halves(edit: Editor, options: LoadOptions) -> None:
    """Widen every part of the graph in which a value of half precision joins two operators."""
    chosen = {n: n for n in edit.graph if options.wide_halves and _fits(n)}
    count = -1
    while count != len(chosen):
        count = len(chosen)
        chosen = {n: n for n in chosen if _is_inside(n, chosen)}
    if not any(map(_weighs, chosen)):
        return
    wide: dict[ir.Value, ir.Value] = {}
    for node in chosen:
        _widen(edit, node, chosen, wide)
    edit.remove(*reversed(chosen))


def _is_half(value: ir.Value | None) -> bool:
    """Whether the elements of the value are float16 or bfloat16."""
    return value is not None and value.dtype in HALVES


def _weighs(node: ir.Node) -> bool:
    """Whether the node is a product with constant weights."""
    return trait_of(node, Linear) is not None and constant(node.inputs[1]) is not None


def _fits(node: ir.Node) -> bool:
    """Whether a node of one result of half precision may compute in float32 instead."""
    apart = trait_of(node, Converts) or trait_of(node, Dequantises) or inner_graphs(node)
    one = len(node.outputs) == 1 and _is_half(node.outputs[0])
    if node.domain or apart or not one or jumps.of(node) or _is_quantised(node):
        return False
    known = signature("", node.op_type, canonical_opset())
    if known is None or "dtype" in node.attributes:
        return False
    formal = [*known.inputs, *[known.rest] * len(node.inputs)]
    taken = [f for i, f in zip(node.inputs, formal, strict=False) if _is_half(i)]
    return bool(taken) and all(f is not None and "tensor(float)" in f.allowed for f in taken)


def _is_quantised(node: ir.Node) -> bool:
    """Whether the node reads what DequantizeLinear makes, or QuantizeLinear its result: kernels of
    integers compute such nodes with both."""
    makers = (i.producer() for i in node.inputs if i is not None)
    before = any(m is not None and trait_of(m, Dequantises) is not None for m in makers)
    return before or any(trait_of(u.node, Quantises) for u in node.outputs[0].uses())


def _is_inside(node: ir.Node, chosen: dict[ir.Node, ir.Node]) -> bool:
    """Whether a neighbour is in `chosen`; of a node that moves elements, one on either side."""
    before = any(_is_half(i) and i.producer() in chosen for i in node.inputs if i is not None)
    behind = any(u.node in chosen for u in node.outputs[0].uses())
    moves = is_view(node) or trait_of(node, Moves) is not None
    return before and behind if moves else before or behind


def _widen(
    edit: Editor,
    node: ir.Node,
    chosen: dict[ir.Node, ir.Node],
    wide: dict[ir.Value, ir.Value],
) -> None:
    """Put a node of float32 in front of `node`, and a Cast for readers that are not in `chosen`.

    `wide` has the float32 values by those of half precision, and gets that of the result.
    """
    for value in node.inputs:
        if value is not None and _is_half(value) and value not in wide:
            wide[value] = _cast(edit, value, FLOAT, node)
            # The matrix is in the bundle as it is, too.
            if constant(value) is not None and any(u.node not in chosen for u in value.uses()):
                wide[value].metadata_props[SHARED_KEY] = ""
    old = node.outputs[0]
    inputs = [i if i is None else wide.get(i, i) for i in node.inputs]
    wide[old] = edit.again(node, inputs, before=node, dtype=FLOAT)
    maker_of(wide[old]).metadata_props[HALF_KEY] = dtype_of(old).name
    if old.is_graph_output() or any(u.node not in chosen for u in old.uses()):
        edit.replace(old, _cast(edit, wide[old], dtype_of(old), node))


def _cast(edit: Editor, value: ir.Value, to: ir.DataType, before: ir.Node) -> ir.Value:
    """`value` as type `to`: a constant, transposed or not, or the result of a Cast in front of
    `before`.
    """
    turn = producer(value, "Transpose")
    source = value if turn is None else turn.inputs[0]
    data = array(source) if constant(source) is not None else None
    if data is not None:
        data = data if turn is None else data.transpose(attribute(turn, "perm", None))
        return edit.const(data.astype(to.numpy()), f"{value.name}_wide")
    shape = shape_of(value)
    return edit.node("Cast", [value], {"to": int(to)}, before=before, shape=shape, dtype=to)
