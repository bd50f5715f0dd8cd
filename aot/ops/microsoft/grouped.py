# SPDX-License-Identifier: Apache-2.0
"""Grouped queries with caches, and rotary positions, of com.microsoft.

Before: y, keys, values = com.microsoft.GroupQueryAttention(q, k, v, past_k, past_v, last, total)
After: keys = TensorScatter(past_k, heads of k, starts); y = Attention(heads of q, keys, values)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import array, attribute, title
from aot.ir.operators import OneOf, operator
from aot.normalise.decompose import INT64, Body, decompose
from aot.ops.microsoft import MICROSOFT
from aot.ops.microsoft.attention import heads_apart, scale_of
from aot.shapes.known_late import KnownLate
from aot.shapes.types import Type, given, infer_types, need


def grouped_keys(node: ir.Node, now: int, past: int) -> int:
    """The number of keys in the caches that a GroupQueryAttention gives back.

    `now` keys come in, `past` are in its caches. Raises KnownLate if only a run knows.
    """
    total = array(node.inputs[6]) if len(node.inputs) > 6 else None
    if total is None and past:
        what = "total_sequence_length (input 6) is not known before the run"
        raise KnownLate(f"{title(node)}: {what}")
    return now if total is None else max(past, int(total.ravel()[0]))


CACHE_TYPES = OneOf("NONE PER_TENSOR PER_CHANNEL", "NONE")
operator(
    "GroupQueryAttention",
    "query key? value?",
    domain=MICROSOFT,
    k_quant_type=CACHE_TYPES,
    v_quant_type=CACHE_TYPES,
)


@infer_types("GroupQueryAttention", MICROSOFT)
def _grouped_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The types of GroupQueryAttention: y as the queries, and both caches; ValueError if packed."""
    dtype, q = need(types, 0)
    heads = int(attribute(node, "kv_num_heads", 1))
    k, v, past = given(types, 1), given(types, 2), given(types, 3)
    if k is None or v is None or len(q) != 3:
        raise ValueError("queries, keys and values packed into one tensor are not supported")
    keys = grouped_keys(node, k[1][1], past[1][2] if past else 0)
    present = (dtype, (q[0], heads, keys, k[1][2] // heads))
    return [(dtype, q), present, present]


PLAIN_GROUPS = (
    "num_heads kv_num_heads scale softcap local_window_size do_rotary rotary_interleaved"
).split()


@decompose("GroupQueryAttention", MICROSOFT)
def _grouped(b: Body) -> bool:
    """Caches take the new keys and values where each sample's sequence ends.

    Input 5 holds the last key of each sample. A prompt (no key before it) starts at place 0.
    """
    if not (b.has(1) and b.has(2)) or any(b.has(i) for i in range(9, 16)) or b.wanted(3):
        return False
    # What is unknown does no harm at its default, and has no counterpart in ONNX otherwise.
    others = [k for k in b.node.attributes if k not in PLAIN_GROUPS]
    if b.has(3) != b.has(4) or any(attribute(b.node, k) not in (0, -1, "NONE") for k in others):
        return False
    q, k = b.shape(0), b.shape(1)
    heads, kv_heads = (int(attribute(b.node, f"{n}num_heads", 1)) for n in ("", "kv_"))
    past = b.shape(3)[2] if b.has(3) else 0
    keys = grouped_keys(b.node, k[1], past)
    prompt = keys == k[1]
    batch, length = q[:2]
    if k[1] != length or keys < length:
        return False
    lens = b.add("Add", b.add("Cast", "i5", to=INT64), b.ints(1))
    starts = b.data(np.zeros(batch, np.int64))
    if not prompt:
        starts = b.add(
            "Max", b.add("Sub", b.add("Reshape", lens, b.ints(-1)), b.ints(length)), starts
        )
    names = ["i0", "i1"]
    if attribute(b.node, "do_rotary", 0):
        row = b.data(np.arange(length, dtype=np.int64)[None, :])
        places = b.add("Add", b.add("Unsqueeze", starts, b.ints(1)), row)
        turn: dict[str, Any] = {"interleaved": int(attribute(b.node, "rotary_interleaved", 0))}
        columns = 2 * b.shape(7)[1]
        if columns != q[2] // heads:
            turn["rotary_embedding_dim"] = columns
        names = [
            b.add("RotaryEmbedding", x, "i7", "i8", places, num_heads=n, **turn)
            for x, n in zip(names, (heads, kv_heads), strict=True)
        ]
    q4 = heads_apart(b, names[0], q, heads)
    caches = [heads_apart(b, x, k, kv_heads) for x in (names[1], "i2")]
    if not prompt:
        caches = [_cached(b, i, x, starts, keys) for i, x in zip((3, 4), caches, strict=True)]
    window = int(attribute(b.node, "local_window_size", -1))
    attrs: dict[str, Any] = {"scale": scale_of(b, q[2] // heads), "is_causal": 1}
    attrs["softcap"] = float(attribute(b.node, "softcap", 0.0))
    # onnxruntime's window counts the position itself, ONNX's the positions before it.
    if window > 0:
        attrs["left_window_size"] = window - 1
    ends = [] if prompt else ["", "", "", b.add("Reshape", lens, b.ints(-1))]
    y = b.add("Attention", q4, *caches, *ends, **attrs)
    flat = b.add("Transpose", y, perm=[0, 2, 1, 3])
    b.add("Reshape", flat, b.ints(*q), out="o0")
    for index in (1, 2):
        if b.wanted(index):
            b.add("Identity", caches[index - 1], out=f"o{index}")
    return True


def _cached(b: Body, index: int, now: str, starts: str, keys: int) -> str:
    """The name of the cache at input `index`, `keys` rows long, with rows `now` at positions
    `starts`.
    """
    shape = b.shape(index)
    cache = f"i{index}"
    if keys > shape[2]:
        rest = (*shape[:2], keys - shape[2], shape[3])
        zeros = b.add("Expand", b.number(0.0), b.ints(*rest))
        cache = b.add("Concat", cache, zeros, axis=2)
    return b.add("TensorScatter", cache, now, starts, axis=2)


@decompose("RotaryEmbedding", MICROSOFT)
def _rotary(b: Body) -> bool:
    """Decompose RotaryEmbedding into ONNX's; a single position is that of the first token.

    False for packed batches and a scale other than 1.
    """
    shape = b.shape(0)
    if attribute(b.node, "is_packed_batching", 0):
        return False
    if float(attribute(b.node, "scale", 1.0)) != 1.0:
        return False
    batch, length = shape[0], shape[1] if len(shape) == 3 else shape[2]
    places = "i1"
    if len(b.shape(1)) == 1:
        row = b.data(np.arange(length, dtype=np.int64)[None, :])
        places = b.add("Expand", b.add("Add", "i1", row), b.ints(batch, length))
    kept = {
        name: int(attribute(b.node, name, 0))
        for name in ("interleaved", "num_heads", "rotary_embedding_dim")
    }
    if len(shape) == 4:
        kept.pop("num_heads")
    elif not kept["num_heads"]:
        columns = kept["rotary_embedding_dim"] or 2 * b.shape(2)[1]
        # Where only some elements are turned, the angles do not tell the size of a head.
        if kept["rotary_embedding_dim"]:
            return False
        kept["num_heads"] = shape[2] // columns
    b.add("RotaryEmbedding", "i0", "i2", "i3", places, out="o0", **kept)
    return True
