# SPDX-License-Identifier: Apache-2.0
"""Operators of sequences and optionals: the compiler resolves them (`aot/shapes/containers.py`)."""

from __future__ import annotations

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import (
    Array,
    attribute,
    dtype_of,
    graph_of,
    operand,
    original_name,
    shape_of,
    title,
)
from aot.ir.operators import AxisOf, operator
from aot.shapes.containers import COUNT, INNER, PRESENT, Containers, Items, Maybe, passes, unpacks
from aot.shapes.evaluate import Invalid
from aot.shapes.known_late import KnownLate

FLOAT = 1
"""The element type of an empty sequence that names none (TensorProto.DataType)."""

operator("SplitToSequence", "x sizes?", axis=AxisOf("x", 0))


def _graph_input(node: ir.Node, name: str) -> ir.Value | None:
    """The graph input with this name in the user's model; None if there is none."""
    return next((v for v in graph_of(node).inputs if original_name(v) == name), None)


def _opened_name(node: ir.Node) -> str:
    """The name of the container that a node of the loader puts together from single inputs.

    For any other node it is just the name of its result.
    """
    name = original_name(node.outputs[0])
    while name.endswith(INNER):
        name = name.removesuffix(INNER)
    return name


@unpacks("SequenceConstruct")
def construct(c: Containers, node: ir.Node) -> None:
    """Let the result of SequenceConstruct hold its inputs; Invalid for elements of different types.

    An input that was opened to single ones also has its number of elements at run time.
    """
    items = tuple(v for v in node.inputs if v is not None)
    name = _opened_name(node)
    opened = [original_name(v) for v in items] == [f"{name}/{i}" for i in range(len(items))]
    count = _graph_input(node, name + COUNT) if opened else None
    kinds = {v.dtype for v in items}
    if len(kinds) != 1 or items[0].dtype is None:
        raise Invalid("the elements have different types")
    c.hold(node, Items(items, int(items[0].dtype), count))


@unpacks("SequenceEmpty")
def empty(c: Containers, node: ir.Node) -> None:
    """Let the result of SequenceEmpty hold no element."""
    c.hold(node, Items((), int(attribute(node, "dtype", FLOAT))))


@unpacks("SplitToSequence")
def split(c: Containers, node: ir.Node) -> None:
    """Let the result of SplitToSequence hold the pieces of its input along the axis.

    Without sizes pieces have one element, and lose the axis unless keepdims.
    """
    data = operand(node, 0)
    shape = shape_of(data)
    axis = int(attribute(node, "axis", 0)) % max(len(shape), 1)
    given = len(node.inputs) > 1 and node.inputs[1] is not None
    sizes = _chunks(c.array(node, 1) if given else np.array(1), shape[axis])
    parts = c.steps.split(data, sizes, axis, node) if sizes else []
    if not given and not attribute(node, "keepdims", 1):
        parts = [c.steps.add("Squeeze", [p, [axis]], before=node) for p in parts]
    c.hold(node, Items(tuple(parts), int(dtype_of(data))))


def _chunks(split: Array, size: int) -> list[int]:
    """The sizes of the pieces of an axis of `size`: a vector as it is, a number for all but the
    last.

    Invalid for sizes that do not add up, or a number below 1.
    """
    if split.ndim:
        if split.sum() != size or (split < 0).any():
            raise Invalid(
                f"pieces of {split.tolist()} do not add up to the axis, which has {size} elements"
            )
        return [int(s) for s in split]
    step = int(split)
    if step <= 0:
        raise Invalid(f"pieces have {step} elements (needs 1 or more)")
    return [min(step, size - at) for at in range(0, size, step)]


def _place(c: Containers, node: ir.Node, index: int, size: int, last: int) -> int:
    """The known position at input `index`, `last` without one; Invalid outside -size … last."""
    if index >= len(node.inputs) or node.inputs[index] is None:
        return last
    place = int(c.array(node, index).ravel()[0])
    if not -size <= place <= last:
        raise Invalid(f"position {place} is outside a sequence of {size}")
    return place + size if place < 0 else place


@unpacks("SequenceInsert")
def insert(c: Containers, node: ir.Node) -> None:
    """Let the result of SequenceInsert hold one element more, at a known position (default: the
    end).

    Invalid for an element of another type.
    """
    s, value = c.fixed(node), operand(node, 1)
    if int(dtype_of(value)) != s.dtype and s.items:
        raise Invalid("the elements have different types")
    place = _place(c, node, 2, len(s.items), len(s.items))
    c.hold(node, Items((*s.items[:place], value, *s.items[place:]), int(dtype_of(value))))


@unpacks("SequenceErase")
def erase(c: Containers, node: ir.Node) -> None:
    """Let the result of SequenceErase hold one element less, by default the last one."""
    s = c.fixed(node)
    if not s.items:
        raise Invalid("an empty sequence has no element to erase")
    place = _place(c, node, 1, len(s.items), len(s.items) - 1)
    c.hold(node, Items((*s.items[:place], *s.items[place + 1 :]), s.dtype))


@unpacks("SequenceLength")
def length(c: Containers, node: ir.Node) -> None:
    """Give SequenceLength its number: a constant, or the number that a run has."""
    s = c.items(node)
    edit = Editor(c.steps.graph(node))
    c.give(node, s.count or edit.const(np.array(len(s.items), np.int64), "length"))


@unpacks("SequenceAt")
def at(c: Containers, node: ir.Node) -> None:
    """Give SequenceAt its element: by a known position, or a Gather of the stacked elements.

    KnownLate for elements of different shapes by a position known at run time only.
    """
    s = c.items(node)
    if c.number(node, 1) is not None and s.count is None:
        c.give(node, s.items[_place(c, node, 1, len(s.items), len(s.items) - 1)])
        return
    shapes = {shape_of(v) for v in s.items}
    if len(shapes) != 1:
        what = f"{title(node)}: an element of {sorted(shapes)} by a position known at run time"
        raise KnownLate(f"{what} only")
    place = operand(node, 1)
    # A negative position counts from an end that only a run knows.
    if s.count is not None:
        edit = Editor(c.steps.graph(node))
        zero = edit.const(np.zeros((), place.dtype.numpy() if place.dtype else np.int64), "zero")
        count = c.steps.add("CastLike", [s.count, place], before=node)
        back = c.steps.add("Add", [place, count], before=node)
        below = c.steps.add("Less", [place, zero], before=node)
        place = c.steps.add("Where", [below, back, place], before=node)
    rows = c.steps.stack(s.items, 0, node)
    c.give(node, c.steps.add("Gather", [rows, place], {"axis": 0}, before=node))


@unpacks("ConcatFromSequence")
def concat(c: Containers, node: ir.Node) -> None:
    """Give ConcatFromSequence the concatenation, or the stack with new_axis, of all elements."""
    s = c.fixed(node)
    if not s.items:
        raise Invalid("an empty sequence has nothing to concatenate")
    axis = int(attribute(node, "axis", 0))
    if attribute(node, "new_axis", 0):
        c.give(node, c.steps.stack(s.items, axis, node))
    else:
        c.give(node, c.steps.add("Concat", list(s.items), {"axis": axis}, before=node))


@unpacks("SequenceMap")
def map(c: Containers, node: ir.Node) -> None:
    """Let the results of SequenceMap hold its body's results for each element; the body is copied.

    Invalid for sequences of different lengths; UnsupportedError for a result without element and
    type.
    """
    first = c.items(node)
    others = [c.held.get(v) if v is not None else None for v in node.inputs[1:]]
    size = len(first.items)
    same = all(not isinstance(o, Items) or len(o.items) == size for o in others)
    if not same or (first.count is not None and any(isinstance(o, Items) for o in others)):
        raise Invalid("the sequences have different lengths")
    body = attribute(node, "body")
    rows = []
    for i in range(size):
        args = [first.items[i]]
        for value, other in zip(node.inputs[1:], others, strict=True):
            assert value is not None
            args.append(other.items[i] if isinstance(other, Items) else value)
        rows.append(c.steps.instance(body, args, node))
    held: list[Items] = []
    for k in range(len(node.outputs)):
        kind = body.outputs[k].dtype
        made = tuple(row[k] for row in rows)
        if kind is None and not made:
            raise UnsupportedError(
                f"{title(node)}: the sequence has no element, and its body declares no type"
            )
        # Without an element the type that the body declares is all that is known.
        dtype = made[0].dtype if made else kind
        assert dtype is not None
        held.append(Items(made, int(dtype), first.count))
    c.hold_all(node, held)


@passes("Identity")
def identity(c: Containers, node: ir.Node) -> None:
    """Let the result of an Identity hold the items that its input holds."""
    c.hold(node, c.held[operand(node, 0)])


@unpacks("Optional")
def optional(c: Containers, node: ir.Node) -> None:
    """Let the result of Optional hold its input, or nothing, with the flag of a run if it
    has one.
    """
    value = node.inputs[0] if node.inputs else None
    name = _opened_name(node)
    flag = _graph_input(node, name + PRESENT)
    held = None if value is None else c.held.get(value, value)
    if isinstance(held, Maybe):
        raise Invalid("an optional holds another optional")
    c.hold(node, Maybe(held, flag if value is not None else None))


@unpacks("OptionalHasElement")
def has(c: Containers, node: ir.Node) -> None:
    """Give OptionalHasElement a constant, or the flag that a run has."""
    value = node.inputs[0] if node.inputs else None
    held = None if value is None else c.held.get(value, value)
    if isinstance(held, Maybe) and held.flag is not None:
        c.give(node, held.flag)
        return
    there = held.item is not None if isinstance(held, Maybe) else held is not None
    c.give(node, Editor(c.steps.graph(node)).const(np.array(there), "present"))


@unpacks("OptionalGetElement")
def get(c: Containers, node: ir.Node) -> None:
    """Give OptionalGetElement the element; Invalid if the optional is known to be empty."""
    value = operand(node, 0)
    held = c.held.get(value, value)
    if isinstance(held, Maybe):
        if held.item is None:
            raise Invalid("the optional is empty")
        held = held.item
    c.give(node, held)
