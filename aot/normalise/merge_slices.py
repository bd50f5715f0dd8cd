# SPDX-License-Identifier: Apache-2.0
"""Taking pieces of a tensor: one Slice.

Before: Split(x, [2, 6])               Gather(x, 3, axis=1)             Slice(Slice(x, [0]), [1])
After:  Slice(x, 0:2), Slice(x, 2:8)   Reshape(Slice(x, 3:4, axis 1))   Slice(x, [0, 1])
Slices that lie contiguous need no copy later.
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, is_used, producer, single_use
from aot.ir.graph_nodes import array, attribute, shape_of
from aot.load.options import LoadOptions


def pieces(edit: Editor, options: LoadOptions) -> None:
    """Rewrite Split, Gather of evenly spaced constant indices, and Slice of Slice as Slices."""
    for node in edit.graph:
        if node.domain:
            continue
        if node.op_type == "Split":
            _split(edit, node)
        elif node.op_type == "Gather":
            _gather(edit, node)
        elif node.op_type == "Slice":
            _merge(edit, node)


def cut(
    edit: Editor, before: ir.Node, x: ir.Value, axis: int, start: int, stop: int, step: int = 1
) -> ir.Value:
    """The elements `start` to `stop` of `x` on one axis, by `step`: a Slice in front of
    `before`.
    """
    shape = list(shape_of(x))
    shape[axis] = len(range(start, stop, step))
    bounds = [
        edit.ints([v], f"{before.name}_{n}")
        for n, v in (("starts", start), ("ends", stop), ("axes", axis), ("steps", step))
    ]
    return edit.node("Slice", [x, *bounds], before=before, shape=shape)


def _split(edit: Editor, node: ir.Node) -> None:
    """Replace a Split of constant sizes by a Slice per result that is used."""
    x = node.inputs[0]
    if x is None or any(i is not None and array(i) is None for i in node.inputs[1:]):
        return
    axis, start = int(attribute(node, "axis", 0)), 0
    for value in node.outputs:
        stop = start + (shape_of(value)[axis] if value.name else 0)
        if not value.name:
            return
        if is_used(value):
            edit.replace(value, cut(edit, node, x, axis, start, stop))
        start = stop
    edit.remove(node)


def _gather(edit: Editor, node: ir.Node) -> None:
    """Replace a Gather of evenly spaced, rising constant indices by a Slice."""
    x, index = node.inputs[0], array(node.inputs[1])
    if x is None or index is None or index.size == 0:
        return
    axis = int(attribute(node, "axis", 0))
    size = shape_of(x)[axis]
    places = [int(i) + size if i < 0 else int(i) for i in index.ravel()]
    step = places[1] - places[0] if len(places) > 1 else 1
    if step < 1 or places != list(range(places[0], places[-1] + 1, step)):
        return
    new = cut(edit, node, x, axis, places[0], places[-1] + 1, step)
    wanted = shape_of(node.outputs[0])
    if shape_of(new) != wanted:
        target = edit.ints(wanted, f"{node.name}_shape")
        new = edit.node("Reshape", [new, target], before=node, shape=wanted)
    edit.substitute(node, new)


def _bounds(node: ir.Node) -> list[list[int]] | None:
    """[starts, ends, axes, steps] of a canonical Slice."""
    parts = [array(i) for i in node.inputs[1:5]]
    if len(parts) < 4 or any(p is None for p in parts):
        return None
    return [[int(v) for v in p.ravel()] for p in parts if p is not None]


def _merge(edit: Editor, node: ir.Node) -> None:
    """Join a Slice with the one before it where they cut different axes and nobody reads in
    between.
    """
    inner = producer(node.inputs[0], "Slice")
    if inner is None or single_use(inner.outputs[0]) is not node:
        return
    first, second = _bounds(inner), _bounds(node)
    if first is None or second is None or set(first[2]) & set(second[2]):
        return
    for index in range(4):
        merged: Sequence[int] = [*first[index], *second[index]]
        edit.set_input(node, index + 1, edit.ints(merged, f"{node.name}_{index}"))
    edit.set_input(node, 0, inner.inputs[0])
    edit.remove(inner)
