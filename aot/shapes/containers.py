# SPDX-License-Identifier: Apache-2.0
"""Sequences and optionals: tuples of values at compile time, gone when inference is done.

Before: s = SplitToSequence(x, 2); n = SequenceLength(s); y = SequenceAt(s, 1)        x: [4]
After: s0, s1 = Split(x, [2, 2]); n = 2; y = Identity(s1)

The modules of `aot/ops` say how each operator is resolved (`unpacks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, given, is_typed, operand, original_name, title
from aot.ir.operators import Interface
from aot.shapes.context import Inference
from aot.shapes.evaluate import Invalid
from aot.shapes.known_late import KnownLate
from aot.shapes.loop_unroll import Steps, release_captures
from aot.shapes.partial_values import lookup

COUNT, PRESENT, INNER = "/count", "/present", "/value"
"""What is added to the name of a sequence for its length, to that of an optional for whether it
holds something, and for the sequence or optional itself where its own name is a tensor's."""


@dataclass(frozen=True, slots=True)
class Items:
    """A sequence of tensors of one element type; `count` is its length where only the run knows."""

    items: tuple[ir.Value, ...]
    dtype: int
    count: ir.Value | None = None


@dataclass(frozen=True, slots=True)
class Maybe:
    """An optional: what it holds, None for nothing; `flag` says at run time whether it does."""

    item: ir.Value | Items | None
    flag: ir.Value | None = None


Held = Items | Maybe


def is_container(value: ir.Value) -> bool:
    """Whether the file or onnx's inference calls the value a sequence or an optional."""
    return isinstance(value.type, ir.SequenceType | ir.OptionalType)


#: How an operator of sequences and optionals is resolved: a rule replaces the node's results.
#: Raises Invalid or UnsupportedError.
unpacks: Interface[Callable[[Containers, ir.Node], None]] = Interface("unpack")

#: The same of an operator that takes tensors, too, for a node that reads a container.
passes: Interface[Callable[[Containers, ir.Node], None]] = Interface("pass")


class Containers:
    """What the sequences and optionals of a model hold; rewrites the nodes that touch them."""

    def __init__(self, sweep: Inference) -> None:
        """Start without sequences and optionals; `held` says what values that hold some are made
        of.
        """
        self.sweep = sweep
        self.held: dict[ir.Value, Held] = {}
        self.steps = Steps(sweep)
        self._dead: list[ir.Node] = []

    def concerns(self, node: ir.Node) -> bool:
        """Whether a node makes, reads or hands on a container (without control flow)."""
        return unpacks.of(node) is not None or any(i in self.held for i in node.inputs if i)

    def ready(self, node: ir.Node) -> bool:
        """Whether everything a node reads is known."""
        return all(i is None or i in self.held or self._is_tensor(i) for i in node.inputs)

    def _is_tensor(self, value: ir.Value) -> bool:
        return is_typed(value) and not is_container(value)

    def visit(self, node: ir.Node) -> None:
        """Resolve one node. Raises Invalid or UnsupportedError."""
        rule = unpacks.of(node) or passes.of(node)
        if rule is None:
            kinds = "sequences and optionals are taken apart at compile time"
            bad = next(i for i in node.inputs if i in self.held)
            assert bad is not None
            what = f'{title(node)}: "{original_name(bad)}" is no tensor'
            raise UnsupportedError(what, hint=kinds)
        rule(self, node)

    def finish(self, graph: ir.Graph) -> None:
        """Open the graph's outputs and drop the nodes of containers."""
        self._open_outputs(graph)
        for node in reversed(self._dead):
            if node.graph is not None and not any(o.uses() for o in node.outputs):
                _release_bodies(node)
                node.graph.remove(node, safe=True)

    # -- what rules do ---------------------------------------------------------------------

    def hold(self, node: ir.Node, what: Held) -> None:
        """The node's result is `what`: nothing runs."""
        self.held[node.outputs[0]] = what
        self._dead.append(node)

    def hold_all(self, node: ir.Node, held: Sequence[Held]) -> None:
        """The node's results are `held`, one for each: nothing runs."""
        self.held.update(zip(node.outputs, held, strict=True))
        self._dead.append(node)

    def give(self, node: ir.Node, value: ir.Value | Held, index: int = 0) -> None:
        """Let output `index` of the node be `value`; the node is removed at the end."""
        old = node.outputs[index]
        if isinstance(value, Items | Maybe):
            self.held[old] = value
        elif old.name:
            copy = self.steps.add("Identity", [value], before=node)
            Editor(self.steps.graph(node)).replace(old, copy)
        if node not in self._dead:
            self._dead.append(node)

    def items(self, node: ir.Node, index: int = 0) -> Items:
        """Input `index` as a sequence."""
        value = node.inputs[index]
        found = None if value is None else self.held.get(value)
        if isinstance(found, Maybe):
            found = found.item if isinstance(found.item, Items) else None
        if not isinstance(found, Items):
            raise Invalid(f"input {index} is no sequence")
        return found

    def fixed(self, node: ir.Node, index: int = 0) -> Items:
        """Input `index` as a sequence of known length; KnownLate if a run decides the length."""
        found = self.items(node, index)
        if found.count is not None:
            value = operand(node, index)
            name = original_name(value)
            what = f'{title(node)}: the length of "{name}" is known at run time only'
            error = KnownLate(what)
            error.deciding = (found.count,)
            raise error
        return found

    def number(self, node: ir.Node, index: int) -> int | None:
        """Input `index` if its one element is known."""
        known = lookup(given(node, index), self.sweep.partial_values)
        return int(known.data.ravel()[0]) if known is not None and known.full else None

    def array(self, node: ir.Node, index: int) -> Array:
        """Input `index` as an array; KnownLate if it is not known at compile time."""
        value = node.inputs[index]
        known = lookup(value, self.sweep.partial_values)
        if known is None or not known.full:
            assert value is not None
            name = original_name(value)
            what = f'{title(node)}: "{name}" is known at run time only'
            raise KnownLate(what)
        return known.data

    def _open_outputs(self, graph: ir.Graph) -> None:
        """Replace outputs that are sequences or optionals by the tensors that they hold."""
        outputs: list[ir.Value] = []
        for value in list(graph.outputs):
            held = self.held.get(value)
            if held is None:
                outputs.append(value)
                continue
            name = original_name(value)
            for part, label in self._parts(graph, name, held):
                outputs.append(self.steps.end(graph, part, label))
        graph.outputs[:] = outputs

    def _parts(self, graph: ir.Graph, name: str, held: Held) -> list[tuple[ir.Value, str]]:
        """The tensors that an output becomes, each with its name: elements and count, or item and
        presence.
        """
        edit = Editor(graph)
        if isinstance(held, Items):
            count = held.count or edit.const(np.array(len(held.items), np.int64), name + COUNT)
            return [(v, f"{name}/{i}") for i, v in enumerate(held.items)] + [(count, name + COUNT)]
        flag = held.flag or edit.const(np.array(held.item is not None), name + PRESENT)
        parts: list[tuple[ir.Value, str]] = []
        if isinstance(held.item, Items):
            parts = self._parts(graph, name, held.item)
        elif held.item is not None:
            parts = [(held.item, name)]
        return [*parts, (flag, name + PRESENT)]


def _release_bodies(node: ir.Node) -> None:
    """Let what the bodies of a node captured have one reader less."""
    for held in node.attributes.values():
        if held.type.name == "GRAPH":
            release_captures(held.as_graph())
