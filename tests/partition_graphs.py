# SPDX-License-Identifier: Apache-2.0
"""Graphs and backends for tests and benchmarks of the partitioner."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from aot.vendor.backend import Backend
from graphs import model

UNARY = ("Exp", "Neg", "Abs", "Relu", "Sigmoid", "Tanh", "Sin", "Cos", "Elu", "Sqrt")
BINARY = ("Add", "Mul", "Conv")


def vendor(name: str, *operators: str) -> Backend:
    """A backend that takes each of these operators alone."""
    made = Backend(name)
    for operator in operators:
        if operator in BINARY:
            pattern = made.pattern(lambda op, x, z, _o=operator: getattr(op, _o)(x, z))
        else:
            pattern = made.pattern(lambda op, x, _o=operator: getattr(op, _o)(x))
        pattern.name = operator.lower()
    return made


def host() -> Backend:
    """Portable C, as far as these graphs need it."""
    return vendor("c", *UNARY, *BINARY)


def typed_graph(rows: list[Any], x: list[int], out: str, consts: Any = None) -> ir.Graph:
    """A graph with input x, output `out` and every shape known."""
    proto = model(rows, {"x": x}, {out: None}, consts)
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto)).graph


def densenet(layers: int = 58) -> ir.Graph:
    """About 700 nodes of the operators, in the order, that DenseNet-121 has them."""
    consts = {"w": np.ones((4, 4, 1, 1), np.float32), "s": np.ones((4, 1, 1), np.float32)}
    rows, last = [], "x"
    for i in range(2 * layers):
        p = f"l{i}"
        rows += [
            ("Mul", f"{last} s", f"{p}m"),
            ("Add", f"{p}m s", f"{p}a"),
            ("Relu", f"{p}a", f"{p}r"),
            ("Conv", f"{p}r w", f"{p}c"),
            ("Sigmoid", f"{p}c", f"{p}g"),
            ("Mul", f"{p}g {p}c", f"{p}y"),
        ]
        last = f"{p}y"
    return typed_graph(rows, [1, 4, 2, 2], last, consts)


def tangle(nodes: int, r: random.Random) -> ir.Graph:
    """Random unary and binary operators that read the last 30 values."""
    rows: list[Any] = []
    for i in range(nodes):
        reads = [f"t{r.randrange(max(0, i - 30), i)}" if i else "x" for _ in range(2)]
        kind = r.choice(("Add", "Mul", "Exp", "Neg", "Abs", "Sin", "Cos"))
        rows.append((kind, " ".join(reads if kind in BINARY else reads[:1]), f"t{i}"))
    return typed_graph(rows, [2], f"t{nodes - 1}")


def table(kinds: int) -> Backend:
    """A table like oneDNN's: convolutions with a bias, a sum, an activation."""
    made = Backend("acme")
    acts = ("Relu", "Tanh", "Sigmoid", "Elu", "Abs")
    for i in range(kinds):

        def fused(op, x, w, b, r, _act=acts[i % 5], _i=i):
            v = op.Conv(x, w) if _i % 2 else op.Conv(x, w, b)
            v = op.Add(v, r) if _i % 3 else v
            act = getattr(op, _act)(v)
            return op.Mul(act, v) if _i % 4 else act

        made.pattern(fused).name = f"fused{i}"
    return made
