# SPDX-License-Identifier: Apache-2.0
"""Attention spelled out.

Before: y = MatMul(Softmax(Add(Mul(MatMul(q, Transpose(k)), 0.125), mask)), v)
After:  y = Attention(q, k, v, mask, scale=0.125)
The scale may stand before or after the product, on q, on k or on both, also before Transposes and
Reshapes; the Transpose is of the last two axes, or moves more, and what it moves more stays a
Transpose. Operands have three or four axes. Where(keep, scores, -1e38) is a mask as well.
Taken where nobody else reads the scores and where it needs no more memory than they do.
A query with no key (all its scores -inf) gives NaN before and after, which the node's metadata
says: ONNX's Attention gives zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import NAN_ROWS, attribute, is_typed, maker_of, operand, shape_of
from aot.load.options import LoadOptions
from aot.normalise.attention_forms import LOW, reshaped, transposed
from aot.normalise.recognise_activations import factors, scalar
from aot.normalise.transposes import perm_of

FLOAT = 1
#: So few queries are computed from keys and values as they are.
FEW = 2
BOOL = 9


@dataclass(frozen=True, slots=True)
class Mask:
    """What is added to the scores: `value`, or where `value` is false `fill`."""

    value: ir.Value
    fill: float | None = None


@dataclass(frozen=True, slots=True)
class Scaled:
    """scale * `source`, then `moves` (Transposes and Reshapes, the last one first)."""

    scale: float
    source: ir.Value
    moves: tuple[ir.Node, ...]


def attention(edit: Editor, options: LoadOptions) -> None:
    """Recognise attention at its Softmax."""
    if "MatMul" in options.keeps:
        return
    for node in edit.graph:
        if not node.domain and node.op_type == "Softmax":
            _recognise(edit, node)


def _recognise(edit: Editor, softmax: ir.Node) -> None:
    """Replace MatMul(Softmax(scale * Q K^T + mask), V) around `softmax` by an Attention, if it is
    one.
    """
    weights, x = softmax.outputs[0], softmax.inputs[0]
    product = single_use(weights)
    if product is None or product.domain or product.op_type != "MatMul" or x is None:
        return
    shape = shape_of(weights)
    last = int(attribute(softmax, "axis", -1)) in (-1, len(shape) - 1)
    v = product.inputs[1]
    # Ranks beyond heads and batch are no attention of ONNX.
    if not last or len(shape) not in (3, 4) or product.inputs[0] is not weights or v is None:
        return
    scored = _scores(x)
    if scored is None:
        return
    scores, scale, mask = scored
    operands = (operand(scores, 0), operand(scores, 1), v)
    if single_use(x) is None or not _fits(operands, shape, mask) or not _pays(operands):
        return
    q, keys = _scaled(operands[0]), _scaled(operands[1])
    if not keys.moves:
        keys = Scaled(keys.scale, *_source(keys.source))
    scale *= q.scale * keys.scale
    if 0 < scale < float("inf") and keys.moves and _swaps(keys.moves[0]):
        _replace(edit, product, q, keys, v, mask, scale)


def _scores(x: ir.Value) -> tuple[ir.Node, float, Mask | None] | None:
    """(the product, its scale, the mask) of what goes into the Softmax."""
    for value, mask in _terms(x):
        scaled = factors(value)
        node = producer(scaled.factors[0], "MatMul") if len(scaled.factors) == 1 else None
        if node is None or single_use(node.outputs[0]) is None or single_use(value) is None:
            continue
        if shape_of(node.outputs[0]) == shape_of(x):
            return node, scaled.scale, mask
    return None


def _terms(x: ir.Value) -> list[tuple[ir.Value, Mask | None]]:
    """Values that may be scores, each with the mask that would be added to it."""
    node = producer(x, "Add", "Where")
    if node is None:
        return [(x, None)]
    a, b = operand(node, 0), operand(node, 1)
    if node.op_type == "Add":
        return [(a, Mask(b)), (b, Mask(a))]
    fill = scalar(node.inputs[2])
    return [(b, Mask(a, fill))] if fill is not None and fill <= LOW else []


def _scaled(value: ir.Value) -> Scaled:
    """The innermost scaling of `value`: its factor, its source, and the nodes that move elements
    after it.
    """
    moves: list[ir.Node] = []
    found, scale = Scaled(1.0, value, ()), 1.0
    while True:
        product = factors(value)
        if len(product.factors) == 1 and product.factors[0] is not value:
            value = product.factors[0]
            scale *= product.scale
            found = Scaled(scale, value, tuple(moves))
        node = producer(value, "Transpose", "Reshape")
        if node is None or single_use(value) is None:
            return found
        moves.append(node)
        value = operand(node, 0)


def _source(value: ir.Value) -> tuple[ir.Value, tuple[ir.Node, ...]]:
    """The value before the Transpose that makes `value`, and this as a move."""
    node = producer(value, "Transpose")
    return (value, ()) if node is None else (operand(node, 0), (node,))


def _moved(edit: Editor, before: ir.Node, value: ir.Value, moves: Sequence[ir.Node]) -> ir.Value:
    """`value` after `moves`, made anew."""
    for node in reversed(moves):
        if node.op_type == "Reshape":
            value = reshaped(edit, before, value, shape_of(node.outputs[0]))
        else:
            value = transposed(edit, before, value, perm_of(node))
    return value


def _swaps(node: ir.Node) -> bool:
    """Whether a row of the keys becomes a column."""
    if node.op_type != "Transpose":
        return False
    perm = perm_of(node)
    return len(perm) > 2 and perm[-2] == len(perm) - 1


def _fits(
    operands: tuple[ir.Value, ir.Value, ir.Value], shape: tuple[int, ...], mask: Mask | None
) -> bool:
    """Whether the operands are float32, of equal batch axes, and the mask has every key."""
    if any(not is_typed(o) or int(o.dtype or 0) != FLOAT for o in operands):
        return False
    q, keys, v = (shape_of(o) for o in operands)
    whole = len(q) == len(keys) == len(v) == len(shape)
    if not whole or not q[:-2] == keys[:-2] == v[:-2] == shape[:-2] or 0 in (*q, *v):
        return False
    if mask is None:
        return True
    kind = FLOAT if mask.fill is None else BOOL
    if not is_typed(mask.value) or int(mask.value.dtype or 0) != kind:
        return False
    own = shape_of(mask.value)
    return 1 <= len(own) <= len(shape) and own[-1] == shape[-1]


def _pays(operands: tuple[ir.Value, ir.Value, ir.Value]) -> bool:
    """Whether the values, which wait for all scores, are few enough beside them."""
    q, v = shape_of(operands[0]), shape_of(operands[2])
    return q[-2] <= FEW or 4 * q[-2] >= v[-1]


def _bias(edit: Editor, before: ir.Node, mask: Mask) -> ir.Value:
    """The mask as what is added."""
    if mask.fill is None:
        return mask.value

    zero, low = (edit.const(np.float32(v), f"{before.name}_keep") for v in (0, mask.fill))
    shape = shape_of(mask.value)
    inputs = [mask.value, zero, low]
    return edit.node("Where", inputs, before=before, shape=shape, dtype=ir.DataType.FLOAT)


def _replace(
    edit: Editor,
    product: ir.Node,
    queries: Scaled,
    keys: Scaled,
    value: ir.Value,
    mask: Mask | None,
    scale: float,
) -> None:
    """Put an Attention in the place of `product`; its keys lose the transpose that the product
    needed.

    `queries` and `keys` are sources with the moves after them, `value` is V. Operands of rank 3 get
    an axis of one head.
    """
    q = _moved(edit, product, queries.source, queries.moves)
    k = _moved(edit, product, keys.source, keys.moves[1:])
    # The product read the keys transposed; Attention takes them as they are and turns them itself.
    perm = perm_of(keys.moves[0])
    perm = [*perm[:-2], perm[-1], perm[-2]]
    if perm != list(range(len(perm))):
        k = transposed(edit, product, k, perm)
    if len(shape_of(q)) == 3:
        q, k, value = (reshaped(edit, product, o, (1, *shape_of(o))) for o in (q, k, value))
    inputs = [q, k, value] if mask is None else [q, k, value, _bias(edit, product, mask)]
    shape = (*shape_of(q)[:3], shape_of(value)[3])
    y = edit.node("Attention", inputs, {"scale": scale}, before=product, shape=shape)
    # A row whose keys are all masked is NaN in the pattern: Attention must give NaN there, too.
    maker_of(y).metadata_props[NAN_ROWS] = "1"
    if shape != shape_of(product.outputs[0]):
        y = reshaped(edit, product, y, shape_of(product.outputs[0]))
    edit.substitute(product, y)
