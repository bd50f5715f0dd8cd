# SPDX-License-Identifier: Apache-2.0
"""Loops of few steps: the body once for every step.

Before: s, y = Loop(s0, x, body={s' = Add(s, e); o = Identity(s')}), most=2      x: [2]
After: s1 = Add(s0, Gather(x, 0)); s = Add(s1, Gather(x, 1)); y = Concat(Unsqueeze(s1) …)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import CONTROL, all_nodes, inner_graphs, outside_values
from aot.shapes.control_flow_isolated import Loop, is_isolated

MOST = 256
"""Nodes that unrolling a loop may make: more stay a loop, which is smaller and hardly slower."""
INT64 = 7


def is_unrollable(node: ir.Node) -> bool:
    """Whether the steps are known and not too many."""
    if not is_isolated(node) or node.op_type != "Loop":
        return False
    loop = Loop(node)
    steps = loop.length
    if not steps or any(_is_packed(v) for v in (*loop.outer(), *loop.results())):
        return False
    return steps * (sum(1 for _ in all_nodes(loop.body)) + 2) <= MOST


def _is_packed(value: ir.Value) -> bool:
    """Whether elements share bytes: no Gather picks them."""
    return value.dtype is not None and value.dtype.bitwidth < 8


def captured(node: ir.Node) -> dict[str, ir.Value]:
    """Values from outside that the bodies of a node read, by name."""
    return {str(v.name): v for body in inner_graphs(node) for v in outside_values(body)}


class Unroller:
    """Nodes of the steps, in order."""

    def __init__(self, node: ir.Node) -> None:
        self.loop = Loop(node)
        self.body = ir.serde.serialize_graph(self.loop.body)
        self.nodes: list[onnx.NodeProto] = []
        for tensor in self.body.initializer:
            self.add("Constant", [], f"loop {tensor.name}", value=tensor)
        self.fixed = {t.name: f"loop {t.name}" for t in self.body.initializer}

    def add(self, op_type: str, inputs: list[str], out: str, **attrs: Any) -> str:
        """The output of a new node."""
        self.nodes.append(onnx.helper.make_node(op_type, inputs, [out], **attrs))
        return out

    def number(self, value: int, out: str, shape: tuple[int, ...] = ()) -> str:
        """A constant."""
        return self.add(
            "Constant", [], out, value=onnx.helper.make_tensor("c", INT64, shape, [value])
        )

    def step(self, step_index: int, inputs: list[str]) -> list[str]:
        """The body on `inputs` as step `step_index`; the names of its outputs."""
        names = dict(self.fixed)
        names.update(zip((i.name for i in self.body.input), inputs, strict=True))
        for node in self.body.node:
            names.update((o, f"step {step_index} {o}") for o in node.output if o)
            made = onnx.NodeProto()
            made.CopyFrom(node)
            del made.output[:]
            made.output.extend(names[o] if o else "" for o in node.output)
            renamed(made, names)
            self.nodes.append(made)
        return [names.get(o.name, o.name) for o in self.body.output]

    def stack(self, parts: list[str], axis: int, out: str) -> None:
        """`out` = the parts along a new axis."""
        at = self.number(axis, f"{out} axis", shape=(1,))
        rows = [self.add("Unsqueeze", [p, at], f"{out} part {k}") for k, p in enumerate(parts)]
        self.add("Concat", rows, out, axis=axis)


def renamed(node: onnx.NodeProto, names: dict[str, str]) -> None:
    """Apply `names` to what a node and its subgraphs read."""
    inputs = [names.get(i, i) for i in node.input]
    del node.input[:]
    node.input.extend(inputs)
    if node.domain == CONTROL:  # whose bodies read nothing from around them
        return
    for held in node.attribute:
        for graph in [*([held.g] if held.HasField("g") else []), *held.graphs]:
            for inner in graph.node:
                renamed(inner, names)
            for output in graph.output:
                output.name = names.get(output.name, output.name)


def unrolled(node: ir.Node) -> tuple[list[onnx.NodeProto], list[str]]:
    """(nodes, names of results) of every step of an isolated loop of known length, not in a graph
    yet.

    The names are those of the last states, then of values that are stacked. Values that the body
    reads from around it go to every step as they are.
    """
    u = Unroller(node)
    loop = u.loop
    steps = loop.length
    assert steps is not None
    outer = [str(v.name) for v in loop.outer()]
    states, fixed = outer[: loop.states], outer[loop.states + loop.scanned :]
    rows: list[list[str]] = []
    for t in range(steps):
        count = [u.number(t, f"step {t} count")] if loop.counts else []
        elements = list(_elements(u, t, steps))
        results = u.step(t, count + states + elements + fixed)
        states, row = results[: loop.states], results[loop.states :]
        rows.append(row)
    return u.nodes, states + list(_stacks(u, rows))


def _elements(unroller: Unroller, step_index: int, steps: int) -> Iterator[str]:
    """Element `step_index` of everything that is scanned."""
    loop = unroller.loop
    sequences = loop.outer()[loop.states : loop.states + loop.scanned]
    for k, (value, back) in enumerate(zip(sequences, loop.backward, strict=False)):
        index = unroller.number(
            steps - 1 - step_index if back else step_index, f"step {step_index} index {k}"
        )
        yield unroller.add(
            "Gather", [str(value.name), index], f"step {step_index} element {k}", axis=0
        )


def _stacks(unroller: Unroller, rows: list[list[str]]) -> Iterable[str]:
    """The outputs of all steps, stacked."""
    for k in range(len(rows[0])):
        parts = [row[k] for row in rows]
        back = unroller.loop.backward[unroller.loop.scanned + k]
        unroller.stack(parts[::-1] if back else parts, 0, f"stack {k}")
        yield f"stack {k}"
