# SPDX-License-Identifier: Apache-2.0
"""Decoders with a growing cache, as exporters of transformers write them: GPT-2's blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PAST, LENGTH = "past_sequence_length", "sequence_length"


class Graph:
    """Nodes and weights that are collected one after the other."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(seed)

    def __call__(self, op: str, *inputs: str, named: str = "", **attributes: object) -> str:
        """The result of a new node."""
        name = named or f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def const(self, data: np.ndarray | Sequence[int] | float) -> str:
        """A constant: whole numbers are int64, others float32."""
        array = np.asarray(data)
        array = array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
        name = f"const_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int) -> str:
        """A random matrix or vector."""
        scale = 0.5 / np.sqrt(shape[0]) if len(shape) > 1 else 0.1
        return self.const(self.random.standard_normal(shape, np.float32) * np.float32(scale))

    def norm(self, x: str, size: int) -> str:
        """A LayerNormalization along the last axis."""
        scale = self.const(1 + 0.1 * self.random.standard_normal(size))
        return self("LayerNormalization", x, scale, self.weight(size), axis=-1)

    def linear(self, x: str, rows: int, columns: int) -> str:
        """x times a matrix, plus a bias."""
        return self("Add", self("MatMul", x, self.weight(rows, columns)), self.weight(columns))


def gpt2(
    layers: int = 2, heads: int = 2, size: int = 16, words: int = 40, places: int = 64,
    length: str | int = LENGTH, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """Logits and caches of tokens [1, length] that follow `past` cached ones.

    Embedding and head share one matrix. Inputs: input_ids, attention_mask of past and new tokens,
    position_ids, past.I.key and past.I.value [1, heads, past, size / heads]; outputs: logits,
    present.I.key and present.I.value.
    """
    g, depth = Graph(seed), size // heads
    table = g.weight(words, size)
    zero, one = g.const([0]), g.const([1])
    x = g(
        "Add", g("Gather", table, "input_ids"), g("Gather", g.weight(places, size), "position_ids")
    )
    split = g.const([0, 0, heads, depth])
    # Query i of the new tokens sees the past, and new tokens up to itself.
    new = g("Gather", g("Shape", "input_ids"), one)
    all_ = g("Gather", g("Shape", "attention_mask"), one)
    scalar = [g("Squeeze", v, zero) for v in (new, all_)]
    keys = g("Range", g.const(np.int64(0)), scalar[1], g.const(np.int64(1)))
    start = g("Sub", scalar[1], scalar[0])
    rows = g("Unsqueeze", g("Range", start, scalar[1], g.const(np.int64(1))), one)
    seen = g("LessOrEqual", g("Unsqueeze", keys, zero), rows)
    kept = g("Cast", g("Unsqueeze", "attention_mask", g.const([1, 2])), to=TensorProto.BOOL)
    seen = g("And", g("Unsqueeze", seen, g.const([0, 1])), kept)
    bias = g("Where", seen, g.const(0.0), g.const(-1e9))
    for i in range(layers):
        inner = g.linear(g.norm(x, size), size, 3 * size)
        parts = [f"part{i}_{k}" for k in range(3)]
        cut = g.const([size] * 3)
        g.nodes.append(helper.make_node("Split", [inner, cut], parts, axis=-1))
        q, k, v = (g("Transpose", g("Reshape", p, split), perm=[0, 2, 1, 3]) for p in parts)
        k = g("Concat", f"past.{i}.key", k, named=f"present.{i}.key", axis=-2)
        v = g("Concat", f"past.{i}.value", v, named=f"present.{i}.value", axis=-2)
        scores = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g("Add", g("Div", scores, g.const(float(np.sqrt(depth)))), bias)
        y = g("MatMul", g("Softmax", scores, axis=-1), v)
        y = g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), g.const([0, 0, size]))
        x = g("Add", x, g.linear(y, size, size))
        inner = g("Gelu", g.linear(g.norm(x, size), size, 4 * size), approximate="tanh")
        x = g("Add", x, g.linear(inner, 4 * size, size))
    g("MatMul", g.norm(x, size), g("Transpose", table, perm=[1, 0]), named="logits")
    total = f"{PAST} + {length}"
    ids = {"input_ids": [1, length], "attention_mask": [1, total], "position_ids": [1, length]}
    info, ends = (
        helper.make_tensor_value_info,
        [(i, k) for i in range(layers) for k in ("key", "value")],
    )
    inputs = [info(n, TensorProto.INT64, s) for n, s in ids.items()]
    inputs += [info(f"past.{i}.{k}", TensorProto.FLOAT, [1, heads, PAST, depth]) for i, k in ends]
    outputs = [info("logits", TensorProto.FLOAT, [1, length, words])]
    outputs += [
        info(f"present.{i}.{k}", TensorProto.FLOAT, [1, heads, total, depth]) for i, k in ends
    ]
    graph = helper.make_graph(g.nodes, "decoder", inputs, outputs, g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
