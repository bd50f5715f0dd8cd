# SPDX-License-Identifier: Apache-2.0
"""Normalisations of com.microsoft with the sums in front of them.

Before: y = com.microsoft.SkipLayerNormalization(x, skip, gamma, beta)
After: y = LayerNormalization(Add(x, skip), gamma, beta)
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute
from aot.ir.operators import AxisOf, Rowwise, operator
from aot.normalise.decompose import FLOAT, INT32, Body, decompose
from aot.ops.microsoft import MICROSOFT
from aot.shapes.types import Type, infer_types, need


@infer_types("SkipLayerNormalization SkipSimplifiedLayerNormalization", MICROSOFT)
def _skip_norm_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The types: y as x, mean and deviation per line, and the sum."""
    dtype, shape = need(types, 0)
    line = (FLOAT, (*shape[:-1], 1))
    return [(dtype, shape), line, line, (dtype, shape)]


@infer_types("EmbedLayerNormalization", MICROSOFT)
def _embed_norm_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The types: y [ids, width], the number of tokens per sample, and the sum."""
    _, ids = need(types, 0)
    dtype, table = need(types, 2)
    shape = (*ids, table[1])
    return [(dtype, shape), (INT32, ids[:1]), (dtype, shape)]


@infer_types("SimplifiedLayerNormalization", MICROSOFT)
def _simplified_norm_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The types: y as x, and the inverse deviation per line."""
    dtype, x = need(types, 0)
    axis = int(attribute(node, "axis", -1)) % max(1, len(x))
    return [(dtype, x), (FLOAT, (*x[:axis], *[1] * (len(x) - axis)))]


def _norm(b: Body, total: str, scale: int, shift: int, rms: bool) -> None:
    """Add output o0: `total` normalised along the last axis, by its scale and shift inputs.

    `rms` subtracts no mean and has no shift.
    """
    epsilon = float(attribute(b.node, "epsilon", 1e-12))
    inputs = [total, f"i{scale}"]
    if rms:
        b.add("RMSNormalization", *inputs, out="o0", axis=-1, epsilon=epsilon)
        return
    if b.has(shift):
        inputs.append(f"i{shift}")
    b.add("LayerNormalization", *inputs, out="o0", axis=-1, epsilon=epsilon)


def _skip(b: Body, rms: bool) -> bool:
    """Decompose a sum and its normalisation; False where mean or deviation are read."""
    total = b.add("Add", "i0", "i1")
    bias = 3 if rms else 4
    if b.has(bias):
        total = b.add("Add", total, f"i{bias}")
    wanted = [bool(o.name) for o in b.node.outputs] + [False] * 4
    if wanted[1] or wanted[2]:
        return False  # onnxruntime itself leaves them unwritten
    _norm(b, total, 2, 3, rms)
    if wanted[3]:
        b.add("Identity", total, out="o3")
    return True


operator(
    "SkipLayerNormalization",
    "x skip gamma beta? bias?",
    domain=MICROSOFT,
    traits=[Rowwise()],
)


@decompose("SkipLayerNormalization", MICROSOFT)
def _skip_norm(b: Body) -> bool:
    """Decompose a SkipLayerNormalization."""
    return _skip(b, rms=False)


operator(
    "SkipSimplifiedLayerNormalization",
    "x skip gamma bias?",
    domain=MICROSOFT,
    traits=[Rowwise()],
)


@decompose("SkipSimplifiedLayerNormalization", MICROSOFT)
def _skip_rms(b: Body) -> bool:
    """Decompose a SkipSimplifiedLayerNormalization."""
    return _skip(b, rms=True)


operator(
    "SimplifiedLayerNormalization",
    "x scale",
    domain=MICROSOFT,
    traits=[Rowwise("axis")],
    axis=AxisOf("x", -1),
)


@decompose("SimplifiedLayerNormalization", MICROSOFT)
def _simplified_norm(b: Body) -> bool:
    """Decompose a SimplifiedLayerNormalization into RMSNormalization; o1 is what it
    multiplies by.
    """
    axis = int(attribute(b.node, "axis", -1))
    epsilon = float(attribute(b.node, "epsilon", 1e-5))
    b.add("RMSNormalization", "i0", "i1", out="o0", axis=axis, epsilon=epsilon)
    if b.wanted(1):
        rank = len(b.shape(0))
        wide = b.add("Cast", "i0", to=FLOAT)
        axes = b.ints(*range(axis % rank, rank))
        square = b.add("ReduceMean", b.add("Mul", wide, wide), axes, keepdims=1)
        root = b.add("Sqrt", b.add("Add", square, b.constant(FLOAT, (), [epsilon])))
        b.add("Reciprocal", root, out="o1")
    return True


@decompose("EmbedLayerNormalization", MICROSOFT)
def _embed_norm(b: Body) -> bool:
    """Decompose an EmbedLayerNormalization: the sum of word, position and segment rows,
    normalised.
    """
    batch, length = b.shape(0)
    total = b.add("Gather", "i2", "i0", axis=0)
    if b.has(8):
        places = b.add("Gather", "i3", "i8", axis=0)
    else:
        row = b.data(np.arange(length, dtype=np.int64))
        places = b.add("Gather", "i3", row, axis=0)
    total = b.add("Add", total, places)
    if b.has(1) and b.has(4):
        total = b.add("Add", total, b.add("Gather", "i4", "i1", axis=0))
    _norm(b, total, 5, 6, False)
    names = [o.name for o in b.node.outputs] + ["", ""]
    if names[1]:
        if b.has(7):
            # Without a mask onnxruntime counts no words.
            b.add("ReduceSum", "i7", b.ints(1), out="o1", keepdims=0)
        else:
            b.add("Identity", b.constant(INT32, (batch,), [0] * batch), out="o1")
    if names[2]:
        b.add("Identity", total, out="o2")
    return True
