# SPDX-License-Identifier: Apache-2.0
"""Graphs of a hundred thousand nodes, of nodes with thousands of inputs, and bulky files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx

from hostile.case import Case, info, lazily, net, node

X, Y = [info("x", (2,))], [info("y", (2,))]
FIVE = ("Exp", "Tanh", "Neg", "Sigmoid", "Erf")
CHAINS = {
    "Relu": ("Relu", {}),
    "Exp": ("Exp", {}),
    "Identity": ("Identity", {}),
    "Neg": ("Neg", {}),
}


def cases() -> Iterator[Case]:
    def chain(op: str, count: int) -> onnx.ModelProto:
        nodes = [node(op, f"v{i}", f"v{i + 1}") for i in range(count)]
        return net(nodes, [info("v0", (2,))], [info(f"v{count}", (2,))])

    def alternating(count: int, ops: tuple[str, ...]) -> onnx.ModelProto:
        nodes = [node(ops[i % len(ops)], f"v{i}", f"v{i + 1}") for i in range(count)]
        return net(nodes, [info("v0", (2,))], [info(f"v{count}", (2,))])

    def binary(count: int) -> onnx.ModelProto:
        nodes = [node("Add", f"v{i} c{i}", f"v{i + 1}") for i in range(count)]
        consts = {f"c{i}": np.full(2, i, np.float32) for i in range(count)}
        return net(nodes, [info("v0", (2,))], [info(f"v{count}", (2,))], consts)

    def wide(count: int, op: str) -> onnx.ModelProto:
        nodes = [
            node("Exp", "x", f"e{i}") if i % 2 else node("Mul", f"x c{i}", f"e{i}")
            for i in range(count)
        ]
        attrs = {"axis": 0} if op == "Concat" else {}
        nodes.append(node(op, " ".join(f"e{i}" for i in range(count)), "y", **attrs))
        consts = {f"c{i}": np.full(2, i, np.float32) for i in range(0, count, 2)}
        return net(nodes, X, [info("y", None)], consts)

    def many(count: int, what: str) -> onnx.ModelProto:
        names = range(count)
        if what == "outputs":
            return net(
                [node("Exp", "x", f"y{i}") for i in names], X, [info(f"y{i}", (2,)) for i in names]
            )
        ins = [info(f"x{i}", (2,)) for i in names]
        return net([node("Sum", " ".join(f"x{i}" for i in names), "y")], ins, Y)

    def split(count: int) -> onnx.ModelProto:
        names = " ".join(f"p{i}" for i in range(count))
        nodes = [
            node("Split", "x", names, axis=0, num_outputs=count),
            node("Concat", names, "y", axis=0),
        ]
        return net(nodes, [info("x", (count,))], [info("y", None)])

    def ladder(count: int) -> onnx.ModelProto:
        """Every value used twice, later too: a hard order."""
        nodes = [node("Add", f"v{i} v{i // 2}", f"v{i + 1}") for i in range(count)]
        return net(nodes, [info("v0", (2,))], [info(f"v{count}", (2,))])

    builds: dict[str, Callable[[], onnx.ModelProto]] = {
        **{f"chain of 100000 {op}": lambda op=op: chain(op, 100_000) for op in CHAINS},  # type: ignore[misc]
        "chain of 100000, Exp and Tanh": lambda: alternating(100_000, ("Exp", "Tanh")),
        "chain of 100000, five kinds": lambda: alternating(100_000, FIVE),
        "chain of 20000 Add": lambda: binary(20_000),
        "chain of 100000 Add": lambda: binary(100_000),
        "Sum of 2000": lambda: wide(2_000, "Sum"),
        "Sum of 20000": lambda: wide(20_000, "Sum"),
        "Concat of 20000": lambda: wide(20_000, "Concat"),
        "20000 outputs": lambda: many(20_000, "outputs"),
        "20000 inputs": lambda: many(20_000, "inputs"),
        "Split into 20000": lambda: split(20_000),
        "ladder of 5000": lambda: ladder(5_000),
        "ladder of 50000": lambda: ladder(50_000),
        "100000 dead nodes": lambda: _dead(100_000),
        "100000 constants": lambda: _constants(100_000),
        "name of 10 MiB": lambda: _long("n" * (10 << 20)),
        "doc of 50 MiB": lambda: net([node("Relu", "x", "y")], X, Y, doc_string="d" * (50 << 20)),
        "100000 metadata entries": lambda: _entries(100_000),
        "constant of 200 MiB": lambda: net(
            [node("Add", "x w", "y")],
            [info("x", (1,))],
            [info("y", None)],
            {"w": np.zeros(50 << 20, np.float32)},
        ),
    }
    for name, build in builds.items():
        yield Case("size", name, lazily(build))


def _long(name: str) -> onnx.ModelProto:
    return net([node("Relu", name, "y")], [info(name, (2,))], Y)


def _dead(count: int) -> onnx.ModelProto:
    nodes = [node("Exp", "x", f"d{i}") for i in range(count)]
    return net([*nodes, node("Relu", "x", "y")], X, Y)


def _constants(count: int) -> onnx.ModelProto:
    consts = {f"c{i}": np.full(2, i, np.float32) for i in range(count)}
    return net([node("Relu", "x", "y")], X, Y, consts)


def _entries(count: int) -> onnx.ModelProto:
    model = net([node("Relu", "x", "y")], X, Y)
    for i in range(count):
        model.metadata_props.add(key=f"k{i}", value="v")
    return model
