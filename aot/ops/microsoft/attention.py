# SPDX-License-Identifier: Apache-2.0
"""Attention of com.microsoft, without grouped queries.

Before: y = com.microsoft.MultiHeadAttention(q, k, v)
After: y = Attention(heads of q, heads of k, heads of v)
"""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute
from aot.normalise.decompose import INT64, Body, decompose
from aot.ops.microsoft import MICROSOFT
from aot.shapes.types import Type, given, infer_types, need

LEAST = -10000.0
"""What a forbidden key's score is lowered by, unless the node says otherwise."""


@infer_types("Attention", MICROSOFT)
def _attention_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The types of Attention: y [batch, positions, width of v], and the joined keys and values."""
    dtype, x = need(types, 0)
    _, w = need(types, 1)
    sizes = attribute(node, "qkv_hidden_sizes") or [w[1] // 3] * 3
    heads = int(attribute(node, "num_heads", 1))
    past = given(types, 4)
    total = x[1] + (past[1][3] if past else 0)
    width = int(sizes[2])
    present = (2, x[0], heads, total, width // max(1, heads))
    return [(dtype, (*x[:2], width)), (dtype, present)]


@infer_types("QAttention", MICROSOFT)
def _quantised_attention_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The type of QAttention: [batch, positions, a third of the weights' columns], as the
    scale's.
    """
    _, x = need(types, 0)
    _, w = need(types, 1)
    return [(need(types, 2)[0], (*x[:2], w[1] // 3))]


@infer_types("MultiHeadAttention", MICROSOFT)
def _multi_head_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The types of MultiHeadAttention: y, keys and values; ValueError for packed operands."""
    dtype, q = need(types, 0)
    heads = int(attribute(node, "num_heads", 1))
    k, v = given(types, 1), given(types, 2)
    if len(q) != 3 or k is None or v is None or len(k[1]) not in (3, 4):
        raise ValueError("keys and values packed into one tensor are not supported")
    past = given(types, 6)
    has_heads = len(k[1]) == 4
    keys = (k[1][2] if has_heads else k[1][1]) + (past[1][2] if past else 0)
    columns = [
        v[1][3] if has_heads else v[1][2] // heads,
        k[1][3] if has_heads else k[1][2] // heads,
    ]
    present = [(dtype, (q[0], heads, keys, c)) for c in reversed(columns)]
    return [(dtype, (*q[:2], columns[0] * heads)), *present]


def _lowered(b: Body, mask: int, axes: list[int]) -> str:
    """The name of a mask of ones and zeros as numbers added to the scores, with new `axes`."""
    value = float(attribute(b.node, "mask_filter_value", LEAST))
    keep = b.add("Cast", f"i{mask}", to=9)
    if axes:
        keep = b.add("Unsqueeze", keep, b.ints(*axes))
    return b.add("Where", keep, b.number(0.0), b.number(value))


def scale_of(b: Body, columns: int) -> float:
    """The factor of the scores: the attribute `scale`, else 1 / sqrt(columns of a head)."""
    given = float(attribute(b.node, "scale", 0.0) or 0.0)
    return given or 1 / sqrt(columns)


def _key_mask(b: Body, index: int, keys: int) -> str | None:
    """The name of the mask at input `index` as numbers added to scores; None for other shapes.

    It has a row per sample or per query, or lengths of the samples; there are `keys` keys.
    """
    shape = b.shape(index)
    if len(shape) == 1:
        row = b.data(np.arange(keys, dtype=np.int64)[None, :])
        ends = b.add("Unsqueeze", b.add("Cast", f"i{index}", to=INT64), b.ints(1))
        keep = b.add("Unsqueeze", b.add("Less", row, ends), b.ints(1, 2))
        value = float(attribute(b.node, "mask_filter_value", LEAST))
        return b.add("Where", keep, b.number(0.0), b.number(value))
    axes = {2: [1, 2], 3: [1]}.get(len(shape))
    if axes is None or shape[-1] != keys:
        return None
    return _lowered(b, index, axes)


def _attended(b: Body, operands: list[str], masks: list[str], **attrs: Any) -> str:
    """The name of an Attention of `operands` with up to two masks added up."""
    mask = masks[0] if masks else ""
    if len(masks) == 2:
        mask = b.add("Add", *masks)
    inputs = operands + [mask] if mask else operands
    causal = int(attribute(b.node, "unidirectional", 0))
    return b.add("Attention", *inputs, is_causal=causal, **attrs)


@decompose("Attention", MICROSOFT)
def _attention(b: Body) -> bool:
    """Decompose an Attention: one product for q, k and v, cut in three; False with a past."""
    # ONNX's Attention takes neither of these.
    if b.has(4) or b.has(6) or attribute(b.node, "do_rotary", 0) or b.wanted(1):
        return False
    heads = int(attribute(b.node, "num_heads", 1))
    width = b.shape(1)[1]
    sizes = [int(s) for s in attribute(b.node, "qkv_hidden_sizes") or [width // 3] * 3]
    keys = b.shape(0)[1]
    masks = [f"i{5}"] if b.has(5) else []
    if b.has(3):
        # A mask of one axis is lengths [batch]; in its other forms it is about packed sequences.
        mask = None if b.shape(3) != b.shape(0)[:1] and len(b.shape(3)) == 1 else ""
        mask = _key_mask(b, 3, keys) if mask is not None else None
        if mask is None:
            return False
        masks.append(mask)
    whole = b.add("MatMul", "i0", "i1")
    if b.has(2):
        whole = b.add("Add", whole, "i2")
    bounds = np.cumsum([0, *sizes])
    parts = [
        b.add("Slice", whole, b.ints(int(s)), b.ints(int(e)), b.ints(2), b.ints(1))
        for s, e in pairwise(bounds)
    ]
    counts = {"q_num_heads": heads, "kv_num_heads": heads}
    y = _attended(b, parts, masks, scale=scale_of(b, sizes[0] // heads), **counts)
    b.add("Identity", y, out="o0")
    return True


@decompose("QAttention", MICROSOFT)
def _quantised_attention(b: Body) -> bool:
    """Decompose a QAttention into an Attention of dequantised operands; False with a past."""
    if b.has(8) or b.wanted(1):
        return False
    quantised = [b.add("DequantizeLinear", *_quantised(b, 0, 3, 6))]
    quantised.append(b.add("DequantizeLinear", *_quantised(b, 1, 4, 7), axis=1))
    mask = ["i5"] if b.has(5) else []
    attrs = {n: a.value for n, a in b.node.attributes.items()}
    b.add("Attention", *quantised, "i2", *mask, out="o0", domain="com.microsoft", **attrs)
    return True


def _quantised(b: Body, quantised: int, scale: int, zero: int) -> list[str]:
    """The names of the inputs of a DequantizeLinear; parameters of one element become scalars.

    The numbers are those of the node's inputs; an absent zero point is left out.
    """
    found = [f"i{quantised}"]
    for index in (scale, zero):
        if b.has(index):
            one = b.shape(index) == (1,)
            found.append(b.add("Reshape", f"i{index}", b.ints()) if one else f"i{index}")
    return found


def heads_apart(b: Body, x: str, shape: tuple[int, ...], heads: int) -> str:
    """The name of `x`, of `shape` [B, S, H * d], as [B, H, S, d]."""
    per_head = b.ints(shape[0], shape[1], heads, shape[2] // heads)
    return b.add("Transpose", b.add("Reshape", x, per_head), perm=[0, 2, 1, 3])


@decompose("MultiHeadAttention", MICROSOFT)
def _multi_head(b: Body) -> bool:
    """Decompose a MultiHeadAttention of three tensors, with a past, bias and masks or without.

    Keys and values may come split into heads. False for packed operands and what ONNX lacks.
    """
    heads = int(attribute(b.node, "num_heads", 1))
    q, k, v = (b.shape(i) if b.has(i) else () for i in range(3))
    past = b.has(6)
    if len(q) != 3 or len(k) != len(v) or len(k) not in (3, 4) or b.has(8):
        return False
    if b.wanted(3) or b.has(6) != b.has(7):
        return False
    names = ["i0", "i1", "i2"]
    if b.has(3):
        widths = [q[2], k[2], v[2]] if len(k) == 3 else []
        if not widths:
            return False
        ends = np.cumsum([0, *widths])
        for i in range(3):
            cut = [b.ints(int(e)) for e in (ends[i], ends[i + 1], 0, 1)]
            names[i] = b.add("Add", names[i], b.add("Slice", "i3", *cut))
    q4 = heads_apart(b, names[0], q, heads)
    k4, v4 = names[1:]
    # Keys and values of four axes are split into heads already.
    if len(k) == 3:
        k4, v4 = heads_apart(b, k4, k, heads), heads_apart(b, v4, v, heads)
    if past:
        k4, v4 = b.add("Concat", "i6", k4, axis=2), b.add("Concat", "i7", v4, axis=2)
    keys = (k[1] if len(k) == 3 else k[2]) + (b.shape(6)[2] if past else 0)
    masks = ["i5"] if b.has(5) else []
    if b.has(4):
        mask = _key_mask(b, 4, keys) if b.shape(4)[0] == q[0] else None
        if mask is None:
            return False
        masks.append(mask)
    if past and attribute(b.node, "unidirectional", 0):
        return False
    y = _attended(b, [q4, k4, v4], masks, scale=scale_of(b, q[2] // heads))
    flat = b.add("Transpose", y, perm=[0, 2, 1, 3])
    b.add("Reshape", flat, b.ints(q[0], q[1], -1), out="o0")
    for index, x in ((1, k4), (2, v4)):
        if b.wanted(index):
            b.add("Identity", x, out=f"o{index}")
    return True
