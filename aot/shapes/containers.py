# SPDX-License-Identifier: Apache-2.0
"""Sequences and optionals: tuples of values at compile time, gone when inference is done.

Before: s = SplitToSequence(x, 2); n = SequenceLength(s); y = SequenceAt(s, 1)        x: [4]
After: s0, s1 = Split(x, [2, 2]); n = 2; y = Identity(s1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, attribute, is_typed, original_name, shape_of, title, words
from aot.shapes.context import Inference
from aot.shapes.evaluate import Invalid
from aot.shapes.known_late import KnownLate
from aot.shapes.loop_unroll import Steps, forget
from aot.shapes.partial_values import lookup

if TYPE_CHECKING:
    import onnx_ir as ir


OPERATORS = words(
    "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt "
    "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap "
    "SplitToSequence"
)
COUNT, PRESENT, INNER = "/count", "/present", "/value"
"""What is added to the name of a sequence for its length, to that of an optional for whether it
holds something, and for the sequence or optional itself where its own name is a tensor's."""
FLOAT = 1


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
    import onnx_ir as ir

    return isinstance(value.type, ir.SequenceType | ir.OptionalType)


class Containers:
    """What the sequences and optionals of a model hold; rewrites the nodes that touch them."""

    def __init__(self, sweep: Inference) -> None:
        self.sweep = sweep
        self.held: dict[ir.Value, Held] = {}
        self.steps = Steps(sweep)
        self._dead: list[ir.Node] = []

    def concerns(self, node: ir.Node) -> bool:
        """Whether a node makes, reads or hands on a container (control flow apart)."""
        if node.domain:
            return False
        return node.op_type in OPERATORS or any(i in self.held for i in node.inputs if i)

    def ready(self, node: ir.Node) -> bool:
        """Whether everything a node reads is known."""
        return all(i is None or i in self.held or self._is_tensor(i) for i in node.inputs)

    def _is_tensor(self, value: ir.Value) -> bool:
        return is_typed(value) and not is_container(value)

    def visit(self, node: ir.Node) -> None:
        """Resolve one node. Raises Invalid or UnsupportedError."""
        rule = _RULES.get(node.op_type)
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
                _forget_bodies(node)
                node.graph.remove(node, safe=True)

    # -- what rules do ---------------------------------------------------------------------

    def hold(self, node: ir.Node, what: Held) -> None:
        """The node's result is `what`: nothing runs."""
        self.held[node.outputs[0]] = what
        self._dead.append(node)

    def give(self, node: ir.Node, value: ir.Value | Held, index: int = 0) -> None:
        """Output `index` of the node is `value`."""
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
        """Input `index` as a sequence of known length."""
        found = self.items(node, index)
        if found.count is not None:
            value = node.inputs[index]
            assert value is not None
            name = original_name(value)
            what = f'{title(node)}: the length of "{name}" is known at run time only'
            error = KnownLate(what)
            error.deciding = (found.count,)
            raise error
        return found

    def number(self, node: ir.Node, index: int) -> int | None:
        """Input `index` if its one element is known."""
        value = node.inputs[index] if index < len(node.inputs) else None
        known = lookup(value, self.sweep.facts)
        return int(known.data.ravel()[0]) if known is not None and known.full else None

    def array(self, node: ir.Node, index: int) -> Array:
        """Input `index`, which must be known."""
        value = node.inputs[index]
        known = lookup(value, self.sweep.facts)
        if known is None or not known.full:
            assert value is not None
            name = original_name(value)
            what = f'{title(node)}: "{name}" is known at run time only'
            raise KnownLate(what)
        return known.data

    def _open_outputs(self, graph: ir.Graph) -> None:
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
        """The tensors an output becomes, and their names."""
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


def _graph_input(node: ir.Node, name: str) -> ir.Value | None:
    """The input of the node's graph that the loader made under this name."""
    assert node.graph is not None
    return next((v for v in node.graph.inputs if original_name(v) == name), None)


def _forget_bodies(node: ir.Node) -> None:
    """Let what the bodies of a node captured have one reader less."""
    for held in node.attributes.values():
        if held.type.name == "GRAPH":
            forget(held.as_graph())


def _opened_name(node: ir.Node) -> str:
    """The input of the user's that the node puts together again, if it is the loader's."""
    name = original_name(node.outputs[0])
    while name.endswith(INNER):
        name = name.removesuffix(INNER)
    return name


# -- rules, one per operator -------------------------------------------------------------------


def _construct(c: Containers, node: ir.Node) -> None:
    items = tuple(v for v in node.inputs if v is not None)
    name = _opened_name(node)
    opened = [original_name(v) for v in items] == [f"{name}/{i}" for i in range(len(items))]
    count = _graph_input(node, name + COUNT) if opened else None
    kinds = {v.dtype for v in items}
    if len(kinds) != 1 or items[0].dtype is None:
        raise Invalid("elements of different types")
    c.hold(node, Items(items, int(items[0].dtype), count))


def _empty(c: Containers, node: ir.Node) -> None:
    c.hold(node, Items((), int(attribute(node, "dtype", FLOAT))))


def _split(c: Containers, node: ir.Node) -> None:
    data = node.inputs[0]
    assert data is not None
    shape = shape_of(data)
    axis = int(attribute(node, "axis", 0)) % max(len(shape), 1)
    given = len(node.inputs) > 1 and node.inputs[1] is not None
    sizes = _chunks(c.array(node, 1) if given else np.array(1), shape[axis])
    parts = c.steps.split(data, sizes, axis, node) if sizes else []
    if not given and not attribute(node, "keepdims", 1):
        parts = [c.steps.add("Squeeze", [p, [axis]], before=node) for p in parts]
    assert data.dtype is not None
    c.hold(node, Items(tuple(parts), int(data.dtype)))


def _chunks(split: Array, size: int) -> list[int]:
    """Extents of the pieces of an axis: a number is the extent of all but the last."""
    if split.ndim:
        if split.sum() != size or (split < 0).any():
            raise Invalid(f"pieces of {split.tolist()} for an axis of {size}")
        return [int(s) for s in split]
    step = int(split)
    if step <= 0:
        raise Invalid(f"pieces of {step}")
    return [min(step, size - at) for at in range(0, size, step)]


def _place(c: Containers, node: ir.Node, index: int, size: int, last: int) -> int:
    """The known position at input `index`, `last` without one; Invalid outside -size … last."""
    if index >= len(node.inputs) or node.inputs[index] is None:
        return last
    place = int(c.array(node, index).ravel()[0])
    if not -size <= place <= last:
        raise Invalid(f"position {place} in a sequence of {size}")
    return place + size if place < 0 else place


def _insert(c: Containers, node: ir.Node) -> None:
    s, value = c.fixed(node), node.inputs[1]
    assert value is not None and value.dtype is not None
    if int(value.dtype) != s.dtype and s.items:
        raise Invalid("elements of different types")
    place = _place(c, node, 2, len(s.items), len(s.items))
    c.hold(node, Items((*s.items[:place], value, *s.items[place:]), int(value.dtype)))


def _erase(c: Containers, node: ir.Node) -> None:
    s = c.fixed(node)
    if not s.items:
        raise Invalid("nothing to erase in an empty sequence")
    place = _place(c, node, 1, len(s.items), len(s.items) - 1)
    c.hold(node, Items((*s.items[:place], *s.items[place + 1 :]), s.dtype))


def _length(c: Containers, node: ir.Node) -> None:
    s = c.items(node)
    edit = Editor(c.steps.graph(node))
    c.give(node, s.count or edit.const(np.array(len(s.items), np.int64), "length"))


def _at(c: Containers, node: ir.Node) -> None:
    s = c.items(node)
    if c.number(node, 1) is not None and s.count is None:
        c.give(node, s.items[_place(c, node, 1, len(s.items), len(s.items) - 1)])
        return
    shapes = {shape_of(v) for v in s.items}
    if len(shapes) != 1:
        what = f"{title(node)}: an element of {sorted(shapes)} by a position known at run time"
        raise KnownLate(f"{what} only")
    place = node.inputs[1]
    assert place is not None
    if s.count is not None:
        edit = Editor(c.steps.graph(node))
        zero = edit.const(np.zeros((), place.dtype.numpy() if place.dtype else np.int64), "zero")
        count = c.steps.add("CastLike", [s.count, place], before=node)
        back = c.steps.add("Add", [place, count], before=node)
        below = c.steps.add("Less", [place, zero], before=node)
        place = c.steps.add("Where", [below, back, place], before=node)
    rows = c.steps.stack(s.items, 0, node)
    c.give(node, c.steps.add("Gather", [rows, place], {"axis": 0}, before=node))


def _concat(c: Containers, node: ir.Node) -> None:
    s = c.fixed(node)
    if not s.items:
        raise Invalid("an empty sequence has nothing to concatenate")
    axis = int(attribute(node, "axis", 0))
    if attribute(node, "new_axis", 0):
        c.give(node, c.steps.stack(s.items, axis, node))
    else:
        c.give(node, c.steps.add("Concat", list(s.items), {"axis": axis}, before=node))


def _map(c: Containers, node: ir.Node) -> None:
    first = c.items(node)
    others = [c.held.get(v) if v is not None else None for v in node.inputs[1:]]
    size = len(first.items)
    same = all(not isinstance(o, Items) or len(o.items) == size for o in others)
    if not same or (first.count is not None and any(isinstance(o, Items) for o in others)):
        raise Invalid("sequences of different lengths")
    body = attribute(node, "body")
    rows = []
    for i in range(size):
        args = [first.items[i]]
        for value, held in zip(node.inputs[1:], others, strict=True):
            assert value is not None
            args.append(held.items[i] if isinstance(held, Items) else value)
        rows.append(c.steps.instance(body, args, node))
    for k, value in enumerate(node.outputs):
        kind = body.outputs[k].dtype
        made = tuple(row[k] for row in rows)
        if kind is None and not made:
            raise UnsupportedError(f"{title(node)}: no element and no type")
        dtype = made[0].dtype if made else kind
        assert dtype is not None
        c.held[value] = Items(made, int(dtype), first.count)
    c._dead.append(node)


def _identity(c: Containers, node: ir.Node) -> None:
    assert node.inputs[0] is not None
    c.hold(node, c.held[node.inputs[0]])


def _optional(c: Containers, node: ir.Node) -> None:
    value = node.inputs[0] if node.inputs else None
    name = _opened_name(node)
    flag = _graph_input(node, name + PRESENT)
    held = None if value is None else c.held.get(value, value)
    if isinstance(held, Maybe):
        raise Invalid("an optional of an optional")
    c.hold(node, Maybe(held, flag if value is not None else None))


def _has(c: Containers, node: ir.Node) -> None:
    value = node.inputs[0] if node.inputs else None
    held = None if value is None else c.held.get(value, value)
    if isinstance(held, Maybe) and held.flag is not None:
        c.give(node, held.flag)
        return
    there = held.item is not None if isinstance(held, Maybe) else held is not None
    c.give(node, Editor(c.steps.graph(node)).const(np.array(there), "present"))


def _get(c: Containers, node: ir.Node) -> None:
    value = node.inputs[0]
    assert value is not None
    held = c.held.get(value, value)
    if isinstance(held, Maybe):
        if held.item is None:
            raise Invalid("the optional is empty")
        held = held.item
    c.give(node, held)


_RULES: dict[str, Callable[[Containers, ir.Node], None]] = {
    "ConcatFromSequence": _concat,
    "Identity": _identity,
    "Optional": _optional,
    "OptionalGetElement": _get,
    "OptionalHasElement": _has,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SequenceMap": _map,
    "SplitToSequence": _split,
}

__all__ = ["COUNT", "INNER", "PRESENT", "Containers", "Items", "Maybe", "is_container"]
