# SPDX-License-Identifier: Apache-2.0
"""Encoders as transformers exports them, with random weights: BERT, MiniLM and DeiT by size."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from decoders import Graph

#: Layers, heads, columns and tokens; an image of 224 x 224 has 196 patches and a token of its own.
SIZES = {
    "bert_base_128": (12, 12, 768, 128),
    "minilm_l6_128": (6, 12, 384, 128),
    "deit_tiny": (12, 3, 192, 197),
}


def _gelu(g: Graph, x: str) -> str:
    """Gelu spelled with Erf."""
    half = g("Mul", x, g("Add", g("Erf", g("Div", x, g.const(float(np.sqrt(2))))), g.const(1.0)))
    return g("Mul", half, g.const(0.5))


def _attention(g: Graph, x: str, heads: int, size: int, bias: str) -> str:
    """Self-attention of all tokens, with `bias` on the scores unless it is empty."""
    depth, split = size // heads, g.const([0, 0, heads, size // heads])
    q, k, v = (
        g("Transpose", g("Reshape", g.linear(x, size, size), split), perm=perm)
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    scores = g("Div", g("MatMul", q, k), g.const(float(np.sqrt(depth))))
    scores = g("Add", scores, bias) if bias else scores
    y = g("Transpose", g("MatMul", g("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    return g.linear(g("Reshape", y, g.const([0, 0, size])), size, size)


def encoder(name: str, words: int = 30522, seed: int = 0) -> onnx.ModelProto:
    """The network of SIZES[name]: last hidden states of input_ids and attention_mask [1, tokens],
    normalised behind each sum, or of pixel_values [1, 3, 224, 224], normalised in front of blocks.
    """
    (layers, heads, size, tokens), image = SIZES[name], name.startswith("deit")
    g, bias = Graph(seed), ""
    if image:
        x = g("Conv", "pixel_values", g.weight(size, 3, 16, 16), g.weight(size), strides=[16, 16])
        x = g("Transpose", g("Reshape", x, g.const([0, size, -1])), perm=[0, 2, 1])
        x = g("Concat", g.weight(1, 1, size), x, axis=1)
    else:
        x = g("Gather", g.weight(words, size), "input_ids")
        kept = g("Unsqueeze", g("Cast", "attention_mask", to=TensorProto.FLOAT), g.const([1, 2]))
        bias = g("Mul", g("Sub", g.const(1.0), kept), g.const(-1e9))
    x = g("Add", x, g.weight(1, tokens, size))
    x = x if image else g.norm(x, size)
    for _ in range(layers):
        y = g("Add", x, _attention(g, g.norm(x, size) if image else x, heads, size, bias))
        y = y if image else g.norm(y, size)
        inner = _gelu(g, g.linear(g.norm(y, size) if image else y, size, 4 * size))
        x = g("Add", y, g.linear(inner, 4 * size, size))
        x = x if image else g.norm(x, size)
    g("Identity", g.norm(x, size) if image else x, named="last_hidden_state")
    info = helper.make_tensor_value_info
    ids = [info(n, TensorProto.INT64, [1, tokens]) for n in ("input_ids", "attention_mask")]
    inputs = [info("pixel_values", TensorProto.FLOAT, [1, 3, 224, 224])] if image else ids
    outputs = [info("last_hidden_state", TensorProto.FLOAT, [1, tokens, size])]
    graph = helper.make_graph(g.nodes, name, inputs, outputs, g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
