# SPDX-License-Identifier: Apache-2.0
"""Scan, and Loop of a known trip count: the body once for every step.

Before: s, y = Scan(s0, x, body={s' = Add(s, e); o = Identity(s')})      x: [2]
After: s1 = Add(s0, Gather(x, 0)); s = Add(s1, Gather(x, 1)); y = Concat(Unsqueeze(s1) …)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from aot.shapes.control import runs_through
from aot.shapes.nodes import array, attribute, shape_of

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

MOST = 4096
"""Nodes that unrolling one loop may make."""
INT64, BOOL = 7, 9


def is_unrollable(node: ir.Node) -> bool:
    """Whether the steps are known and not too many."""
    if node.domain or node.op_type not in ("Loop", "Scan"):
        return False
    steps = _steps(node)
    return steps is not None and steps * (len(list(attribute(node, "body"))) + 2) <= MOST


def _steps(node: ir.Node) -> int | None:
    if node.op_type == "Scan":
        count = int(attribute(node, "num_scan_inputs"))
        value = node.inputs[-1]
        assert value is not None
        axes = list(attribute(node, "scan_input_axes") or [0] * count)
        return shape_of(value)[axes[-1]] or None
    trips = array(node.inputs[0])
    if trips is None or not runs_through(node, attribute(node, "body")):
        return None
    return max(0, int(trips.ravel()[0])) or None


def captured(node: ir.Node) -> dict[str, ir.Value]:
    """Values from outside that the bodies of a node read, by name."""
    found: dict[str, ir.Value] = {}
    for held in node.attributes.values():
        if held.type.name != "GRAPH":
            continue
        body = held.as_graph()
        inner = [body, *body.subgraphs()]
        own = {id(v) for g in inner for v in [*g.inputs, *g.initializers.values()]}
        own |= {id(v) for g in inner for n in g for v in n.outputs}
        read = [v for g in inner for n in g for v in n.inputs] + [
            v for g in inner for v in g.outputs
        ]
        for value in read:
            if value is not None and id(value) not in own:
                found[str(value.name)] = value
    return found


class Unroller:
    """Nodes of the steps, in order."""

    def __init__(self, node: ir.Node) -> None:
        import onnx_ir as ir

        self.node = node
        self.body = ir.serde.serialize_graph(attribute(node, "body"))
        self.nodes: list[onnx.NodeProto] = []
        for tensor in self.body.initializer:
            self.add("Constant", [], f"loop {tensor.name}", value=tensor)
        self.fixed = {t.name: f"loop {t.name}" for t in self.body.initializer}

    def add(self, op_type: str, inputs: list[str], out: str, **attrs: Any) -> str:
        """The output of a new node."""
        from onnx import helper

        self.nodes.append(helper.make_node(op_type, inputs, [out], **attrs))
        return out

    def number(self, value: int, out: str, kind: int = INT64, shape: tuple[int, ...] = ()) -> str:
        """A constant."""
        from onnx import helper

        return self.add("Constant", [], out, value=helper.make_tensor("c", kind, shape, [value]))

    def step(self, t: int, inputs: list[str]) -> list[str]:
        """The body on `inputs` as step `t`; the names of its outputs."""
        import onnx

        names = dict(self.fixed)
        names.update(zip((i.name for i in self.body.input), inputs, strict=True))
        for node in self.body.node:
            names.update((o, f"step {t} {o}") for o in node.output if o)
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
    for held in node.attribute:
        for graph in [*([held.g] if held.HasField("g") else []), *held.graphs]:
            for inner in graph.node:
                renamed(inner, names)
            for output in graph.output:
                output.name = names.get(output.name, output.name)


def unrolled(node: ir.Node) -> tuple[list[onnx.NodeProto], list[str]]:
    """The nodes of every step, and the names of the node's outputs (states, then stacks)."""
    u = Unroller(node)
    steps = _steps(node)
    assert steps is not None
    scans = node.op_type == "Scan"
    scanned = int(attribute(node, "num_scan_inputs")) if scans else 0
    first = 0 if scans else 2
    last = len(node.inputs) - scanned
    states = [str(v.name) for v in node.inputs[first:last] if v is not None]
    rows: list[list[str]] = []
    for t in range(steps):
        if scans:
            results = u.step(t, states + list(_elements(u, node, scanned, t, steps)))
        else:
            known = [u.number(t, f"step {t} count"), u.number(1, f"step {t} go", BOOL)]
            results = u.step(t, known + states)[1:]
        states, row = results[: len(states)], results[len(states) :]
        rows.append(row)
    return u.nodes, states + list(_stacks(u, node, rows))


def _elements(u: Unroller, node: ir.Node, scanned: int, t: int, steps: int) -> Iterator[str]:
    """Element `t` of every sequence."""
    axes = list(attribute(node, "scan_input_axes") or [0] * scanned)
    backward = list(attribute(node, "scan_input_directions") or [0] * scanned)
    sequences = node.inputs[len(node.inputs) - scanned :]
    for k, (value, axis, back) in enumerate(zip(sequences, axes, backward, strict=True)):
        assert value is not None
        index = u.number(steps - 1 - t if back else t, f"step {t} index {k}")
        yield u.add("Gather", [str(value.name), index], f"step {t} element {k}", axis=axis)


def _stacks(u: Unroller, node: ir.Node, rows: list[list[str]]) -> Iterable[str]:
    """The outputs of all steps, stacked."""
    count = len(rows[0])
    axes = list(attribute(node, "scan_output_axes") or [0] * count)
    backward = list(attribute(node, "scan_output_directions") or [0] * count)
    for k in range(count):
        parts = [row[k] for row in rows]
        u.stack(parts[::-1] if backward[k] else parts, axes[k], f"stack {k}")
        yield f"stack {k}"
