# SPDX-License-Identifier: Apache-2.0
"""One form of Attention: operands [batch, heads, rows, columns], no past, nothing handed through.

Before: y = Attention(q[B, S, H*d], k, v, q_num_heads=H, kv_num_heads=H)
After:  y = Reshape(Transpose(Attention(Transpose(Reshape(q)), …)))
Before: y, pk, pv = Attention(q, k, v, mask, past_k, past_v)
After:  pk = Concat(past_k, k); pv = Concat(past_v, v); y = Attention(q, pk, pv, mask, "", "", n)
where n says that the first query follows the past, if that matters.
Before: y = Attention(q, k, v, mask), the constant mask -1e38 after the diagonal, else 0
After:  y = Attention(q, k, v, is_causal=1)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import array, attribute, dtype_of, given, operand, set_type, shape_of
from aot.load.options import LoadOptions

HEADS_INSIDE = (0, 2, 1, 3)
"""[batch, rows, heads, columns] to [batch, heads, rows, columns] and back."""
LOW = -1e30
"""Nothing is left of the exponential of a score that is lowered so much."""


def attention_forms(edit: Editor, options: LoadOptions) -> None:
    """Bring every Attention to the canonical form."""
    for node in edit.graph:
        if node.domain or node.op_type != "Attention" or "Attention" in options.keeps:
            continue
        if not _is_canonical(node):
            if _places_known(node):
                _rewrite(edit, node)
        elif _is_causal(node):
            _order(edit, node)


def _is_causal(node: ir.Node) -> bool:
    """Whether nothing but a constant mask forbids keys, those after the query's own."""
    mask = array(given(node, 3))
    others = [attribute(node, f"{side}_window_size", -1) for side in ("left", "right")]
    if mask is None or given(node, 6) is not None or attribute(node, "is_causal", 0):
        return False
    rows, keys = shape_of(operand(node, 0))[2], shape_of(operand(node, 1))[2]
    whole = mask.ndim >= 2 and mask.shape[-2:] == (rows, keys) and 0 < rows <= keys
    if not whole or max(others) >= 0 or len(node.outputs) > 1 or mask.dtype.kind != "f":
        return False
    later = np.triu(np.ones((rows, keys), bool), 1 + keys - rows)
    return bool((mask[..., ~later] == 0).all() and (mask[..., later] <= LOW).all())


def _order(edit: Editor, node: ir.Node) -> None:
    """The order of keys instead of the mask."""
    (batch, _, rows, _), keys = shape_of(operand(node, 0)), shape_of(operand(node, 1))[2]
    edit.set_input(node, 3, None)
    if keys != rows:
        edit.set_input(node, 6, edit.const(np.full(batch, keys, np.int64), f"{node.name}_keys"))
    edit.set_attribute(node, "is_causal", 1)


def _is_canonical(node: ir.Node) -> bool:
    """Whether Q has rank 4, and neither past keys come in nor present ones go out."""
    past = given(node, 4) is not None
    kept = any(o.name for o in node.outputs[1:3])
    return len(shape_of(operand(node, 0))) == 4 and not past and not kept


def _places_known(node: ir.Node) -> bool:
    """Whether a number of keys can say where the queries stand after a past."""
    q, k = given(node, 0), given(node, 1)
    if given(node, 4) is None or q is None or k is None:
        return True
    causal = attribute(node, "is_causal", 0)
    bounded = causal or attribute(node, "right_window_size", -1) == 0
    return shape_of(k)[-2] <= shape_of(q)[-2] or bool(bounded)


def _split(edit: Editor, node: ir.Node, x: ir.Value, heads: int) -> ir.Value:
    """[B, S, H * d] as [B, H, S, d]; four axes stay."""
    shape = shape_of(x)
    if len(shape) == 4:
        return x
    per_head = (*shape[:2], heads, shape[2] // heads)
    x = reshaped(edit, node, x, per_head)
    return transposed(edit, node, x, HEADS_INSIDE)


def reshaped(edit: Editor, before: ir.Node, x: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Reshape `x`."""
    target = edit.ints(shape, f"{before.name}_shape")
    return edit.node("Reshape", [x, target], before=before, shape=shape)


def transposed(edit: Editor, before: ir.Node, x: ir.Value, perm: Sequence[int]) -> ir.Value:
    """Transpose `x`."""
    shape = [shape_of(x)[p] for p in perm]
    return edit.node("Transpose", [x], {"perm": list(perm)}, before=before, shape=shape)


def _rewrite(edit: Editor, node: ir.Node) -> None:
    """Replace `node` by a canonical Attention: heads on an axis of their own, past keys joined in
    front.
    """
    q, k, v = (operand(node, i) for i in range(3))
    flat = len(shape_of(q)) == 3
    heads = int(attribute(node, "q_num_heads", 0)) if flat else shape_of(q)[1]
    kv_heads = int(attribute(node, "kv_num_heads", 0)) if flat else shape_of(k)[1]
    q = _split(edit, node, q, heads)
    k, v = (_split(edit, node, x, kv_heads) for x in (k, v))
    mask, past_k, past_v, lens = (given(node, i) for i in range(3, 7))
    if past_k is not None and past_v is not None:
        # Past keys come in front, so a mask and the causal order count from the first key of all.
        k, v = _joined(edit, node, past_k, k), _joined(edit, node, past_v, v)
        lens = _placed(edit, node, shape_of(past_k)[2] + shape_of(q)[2], shape_of(q)[0])
    new = _attention(edit, node, [q, k, v, mask, None, None, lens])
    y = new.outputs[0]
    if flat:
        y = transposed(edit, node, y, HEADS_INSIDE)
        y = reshaped(edit, node, y, shape_of(node.outputs[0]))
    results = [y, k, v, *new.outputs[3:]]
    # Identities keep the names of the old results, which may be outputs of the graph.
    for old, value in zip(node.outputs, results, strict=False):
        if old.name:
            same = edit.node("Identity", [value], before=node, shape=shape_of(value))
            edit.replace(old, same)
    edit.remove(node)


def _joined(edit: Editor, node: ir.Node, past: ir.Value, now: ir.Value) -> ir.Value:
    """Keys or values of the past followed by those of now, on the axis of positions."""
    shape = list(shape_of(now))
    shape[2] += shape_of(past)[2]
    return edit.node("Concat", [past, now], {"axis": 2}, before=node, shape=shape)


def _placed(edit: Editor, node: ir.Node, end: int, batch: int) -> ir.Value | None:
    """The number of keys up to the last query, where places matter."""
    windows = [attribute(node, f"{side}_window_size", -1) for side in ("left", "right")]
    if not attribute(node, "is_causal", 0) and max(windows) < 0:
        return None
    return edit.const(np.full(batch, end, np.int64), f"{node.name}_keys")


def _attention(edit: Editor, node: ir.Node, inputs: list[ir.Value | None]) -> ir.Node:
    """The node in canonical form, in front of `node`; its scores keep the fourth place."""
    q, v = inputs[0], inputs[2]
    assert q is not None and v is not None
    # Trailing inputs that are absent are left out: ONNX takes both forms, patterns expect one.
    while inputs[-1] is None:
        inputs.pop()
    attributes = [a for k, a in node.attributes.items() if k not in ("q_num_heads", "kv_num_heads")]
    scores = node.outputs[3] if len(node.outputs) > 3 and node.outputs[3].name else None
    new = ir.Node(
        "", "Attention", inputs, attributes, name=node.name, num_outputs=4 if scores else 1
    )
    new.metadata_props.update(node.metadata_props)
    set_type(new.outputs[0], int(dtype_of(q)), (*shape_of(q)[:3], shape_of(v)[3]))
    new.outputs[0].name = edit.fresh(f"{node.outputs[0].name}_heads")
    if scores is not None:
        set_type(new.outputs[3], int(dtype_of(scores)), shape_of(scores))
        new.outputs[3].name = edit.fresh(f"{scores.name}_scores")
        # Present keys and values were joined by nodes of their own; the two places stay, nameless.
        for value in new.outputs[1:3]:
            value.name = ""
    edit.graph.insert_before(node, new)
    edit.changed = True
    return new
