# SPDX-License-Identifier: Apache-2.0
"""Shape rules of onnxruntime's operators for transformers (domain com.microsoft)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aot.ir.graph_nodes import array, attribute, title
from aot.shapes.known_late import KnownLate
from aot.shapes.types import Rule, Type

if TYPE_CHECKING:
    import onnx_ir as ir


FLOAT, INT32 = 1, 6


def need(types: list[Type | None], index: int) -> Type:
    """The type of an input that must be there."""
    found = types[index] if index < len(types) else None
    if found is None:
        raise ValueError(f"input {index} is absent")
    return found


def _given(types: list[Type | None], index: int) -> Type | None:
    return types[index] if index < len(types) else None


def _first(node: ir.Node, types: list[Type | None]) -> list[Type]:
    return [need(types, 0)]


def turned(shape: tuple[int, ...], batch: bool, matrix: bool) -> tuple[int, ...]:
    """The order of axes of an operand of FusedMatMul, applied to `shape`."""
    axes = list(range(len(shape)))
    if batch and len(axes) > 2:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if matrix and len(axes) > 1:
        axes[-2:] = [axes[-1], axes[-2]]
    return tuple(shape[a] for a in axes)


def _fused_matmul(node: ir.Node, types: list[Type | None]) -> list[Type]:
    import numpy as np

    dtype, a = need(types, 0)
    _, b = need(types, 1)
    left, right = (
        turned(s, bool(attribute(node, f"transBatch{k}")), bool(attribute(node, f"trans{k}")))
        for k, s in (("A", a), ("B", b))
    )
    wide = (1, *left) if len(left) == 1 else left
    tall = (*right, 1) if len(right) == 1 else right
    if wide[-1] != tall[-2]:
        raise ValueError(f"{wide[-1]} columns times {tall[-2]} rows")
    batch = tuple(np.broadcast_shapes(wide[:-2], tall[:-2]))
    rows = wide[-2:-1] if len(left) > 1 else ()
    return [(dtype, (*batch, *rows, *(tall[-1:] if len(right) > 1 else ())))]


def _fused_gemm(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, a = need(types, 0)
    _, b = need(types, 1)
    rows = a[1] if attribute(node, "transA", 0) else a[0]
    return [(dtype, (rows, b[0] if attribute(node, "transB", 0) else b[1]))]


def _nbits(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, a = need(types, 0)
    return [(dtype, (*a[:-1], int(attribute(node, "N", 0))))]


def _skip_norm(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, shape = need(types, 0)
    line = (FLOAT, (*shape[:-1], 1))
    return [(dtype, shape), line, line, (dtype, shape)]


def _embed_norm(node: ir.Node, types: list[Type | None]) -> list[Type]:
    _, ids = need(types, 0)
    dtype, table = need(types, 2)
    shape = (*ids, table[1])
    return [(dtype, shape), (INT32, ids[:1]), (dtype, shape)]


def _attention(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, x = need(types, 0)
    _, w = need(types, 1)
    sizes = attribute(node, "qkv_hidden_sizes") or [w[1] // 3] * 3
    heads = int(attribute(node, "num_heads", 1))
    past = _given(types, 4)
    total = x[1] + (past[1][3] if past else 0)
    width = int(sizes[2])
    present = (2, x[0], heads, total, width // max(1, heads))
    return [(dtype, (*x[:2], width)), (dtype, present)]


def _quantised_attention(node: ir.Node, types: list[Type | None]) -> list[Type]:
    _, x = need(types, 0)
    _, w = need(types, 1)
    return [(need(types, 2)[0], (*x[:2], w[1] // 3))]


def _simplified_norm(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, x = need(types, 0)
    axis = int(attribute(node, "axis", -1)) % max(1, len(x))
    return [(dtype, x), (FLOAT, (*x[:axis], *[1] * (len(x) - axis)))]


def _multi_head(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, q = need(types, 0)
    heads = int(attribute(node, "num_heads", 1))
    k, v = _given(types, 1), _given(types, 2)
    if len(q) != 3 or k is None or v is None or len(k[1]) not in (3, 4):
        raise ValueError("keys and values packed into one tensor are not supported")
    past = _given(types, 6)
    apart = len(k[1]) == 4
    keys = (k[1][2] if apart else k[1][1]) + (past[1][2] if past else 0)
    columns = [v[1][3] if apart else v[1][2] // heads, k[1][3] if apart else k[1][2] // heads]
    present = [(dtype, (q[0], heads, keys, c)) for c in reversed(columns)]
    return [(dtype, (*q[:2], columns[0] * heads)), *present]


def grouped_keys(node: ir.Node, now: int, past: int) -> int:
    """Keys in the caches that a GroupQueryAttention gives back."""
    total = array(node.inputs[6]) if len(node.inputs) > 6 else None
    if total is None and past:
        what = "total_sequence_length (input 6) is not known before the run"
        raise KnownLate(f"{title(node)}: {what}")
    return now if total is None else max(past, int(total.ravel()[0]))


def _grouped(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, q = need(types, 0)
    heads = int(attribute(node, "kv_num_heads", 1))
    k, v, past = _given(types, 1), _given(types, 2), _given(types, 3)
    if k is None or v is None or len(q) != 3:
        raise ValueError("queries, keys and values packed into one tensor are not supported")
    keys = grouped_keys(node, k[1][1], past[1][2] if past else 0)
    present = (dtype, (q[0], heads, keys, k[1][2] // heads))
    return [(dtype, q), present, present]


def _dynamic_lstm(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, x = need(types, 0)
    _, r = need(types, 2)
    if len(x) != 3 or len(r) != 3:
        raise ValueError(f"an input of rank {len(x)}, weights of rank {len(r)} instead of 3")
    ways, hidden = r[:2]
    state = (ways, x[1], hidden)
    scales = ((ways,), (ways, 4 * hidden))
    fitting = {
        1: ((ways, x[2], 4 * hidden),),
        2: ((ways, hidden, 4 * hidden),),
        3: ((ways, 8 * hidden),),
        4: ((x[1],),),
        5: (state,),
        6: (state,),
        7: ((ways, 3 * hidden),),
        **dict.fromkeys(range(8, 12), scales),
    }
    for index, shapes in fitting.items():
        found = _given(types, index) if 2 < index < 8 else need(types, index)
        if found is not None and tuple(found[1]) not in shapes:
            raise ValueError(f"input {index} is {list(found[1])} (needs {list(shapes[0])})")
    return [(dtype, (x[0], *state)), (dtype, state), (dtype, state)]


ADOPTED = ("SimplifiedLayerNormalization",)
"""Operators that onnxruntime's own files put in ONNX's domain."""

MICROSOFT: dict[tuple[str, str], Rule] = {
    ("com.microsoft", name): rule
    for name, rule in {
        "Attention": _attention,
        "DynamicQuantizeLSTM": _dynamic_lstm,
        "EmbedLayerNormalization": _embed_norm,
        "FusedGemm": _fused_gemm,
        "FusedMatMul": _fused_matmul,
        "GroupQueryAttention": _grouped,
        "MatMulNBits": _nbits,
        "MultiHeadAttention": _multi_head,
        "QAttention": _quantised_attention,
        "RotaryEmbedding": _first,
        "SimplifiedLayerNormalization": _simplified_norm,
        "SkipLayerNormalization": _skip_norm,
        "SkipSimplifiedLayerNormalization": _skip_norm,
    }.items()
}
