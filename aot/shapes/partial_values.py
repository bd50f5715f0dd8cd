# SPDX-License-Identifier: Apache-2.0
"""Values that are known in part: the forward interpreter behind shape inference.

A Known is an array with a mask. Moving operators (Gather, Concat, Slice …) move the mask the same
way; arithmetic is known where all its operands are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor
from aot.ir.graph_nodes import Array, constant, elements_of, is_typed, shape_of, static_shape
from aot.ir.operators import Moves, element_places, moved_places, rearranged_places, trait_of
from aot.shapes.evaluate import evaluate, is_computable, reads_shape
from aot.shapes.limits import SMALL_ELEMENTS
from aot.shapes.reference import Unknown


@dataclass(frozen=True, slots=True)
class Known:
    """The elements of a value; `mask` is None where all are known, else True where one is."""

    data: Array
    mask: Array | None = None

    @property
    def full(self) -> bool:
        """Whether every element is known."""
        return self.mask is None

    def items(self) -> list[int | None]:
        """The elements in order, None where unknown."""
        mask = np.ones(self.data.shape, bool) if self.mask is None else self.mask
        pairs = zip(self.data.ravel(), mask.ravel(), strict=True)
        return [int(v) if k else None for v, k in pairs]


PartialValues = dict["ir.Value", Known]


def lookup(value: ir.Value | None, partial_values: PartialValues) -> Known | None:
    """The elements known of `value`: a small constant's, or those propagated; None if nothing is
    known.
    """
    if value is None:
        return None
    found = partial_values.get(value)
    if found is None:
        tensor = constant(value)
        if tensor is not None and tensor.size <= SMALL_ELEMENTS:
            data = elements_of(value)
            found = partial_values[value] = Known(data)
    return found


def operands_first(value: ir.Value, wanted: Callable[[ir.Value], bool]) -> Iterator[ir.Value]:
    """`value` behind those of the values that it is computed of that are `wanted`, operands first.

    No recursion: chains of hundreds of nodes are usual. A value may come twice.
    """
    waiting, entered = [value], set[ir.Value]()
    while waiting:
        last = waiting[-1]
        node = last.producer()
        more: list[ir.Value] = []
        if node is not None and last not in entered and wanted(last):
            more = [v for v in node.inputs if v is not None and wanted(v)]
        entered.add(last)
        waiting += more
        if not more:
            yield waiting.pop()


def propagate(node: ir.Node, partial_values: PartialValues) -> None:
    """Record what is known of the node's outputs. Raises Invalid as `evaluate` does."""
    if not is_computable(node):
        return
    if any(is_typed(o) and _too_big(o) for o in node.outputs):
        return
    results = _shape_values(node) or _full(node, partial_values) or _partial(node, partial_values)
    for value, known in zip(node.outputs, results, strict=False):
        if known.data.size > SMALL_ELEMENTS:
            continue
        if known.mask is None or known.mask.all():
            partial_values[value] = Known(known.data)
        elif known.mask.any():
            partial_values[value] = known


def settle(graph: ir.Graph, partial_values: PartialValues) -> None:
    """Let nodes of a typed graph read constants instead of integers that are known.

    Folding knows values of constants only, and the element of a shape may be known where another
    one is not.
    """
    edit = Editor(graph)
    for node in graph:
        for value in node.outputs:
            known = partial_values.get(value)
            if known is None or not known.full or known.data.dtype.kind not in "iu":
                continue
            if value.dtype is None or known.data.shape != static_shape(value):
                continue
            if constant(value) is None and value.uses():
                new = edit.const(known.data, str(value.name), value.dtype)
                for use in list(value.uses()):
                    use.node.replace_input_with(use.idx, new)


def _too_big(value: ir.Value) -> bool:
    return prod(shape_of(value)) > SMALL_ELEMENTS


def _shape_values(node: ir.Node) -> list[Known]:
    """The result of a node that reads no elements; nothing for other nodes."""
    rule = reads_shape.of(node)
    source = node.inputs[0] if node.inputs else None
    shape = None if source is None else static_shape(source)
    return [] if rule is None or shape is None else [Known(rule(node, shape))]


def _full(node: ir.Node, partial_values: PartialValues) -> list[Known]:
    """The node's results where all inputs are known; [] elsewhere."""
    inputs: list[Array | None] = []
    for value in node.inputs:
        known = lookup(value, partial_values)
        if value is not None and (known is None or not known.full):
            return []
        inputs.append(None if known is None else known.data)
    if not inputs:
        return []
    try:
        return [Known(a) for a in evaluate(node, inputs)]
    except Unknown:
        return []


def _partial(node: ir.Node, partial_values: PartialValues) -> list[Known]:
    """The node's results in part, where inputs that it moves or computes by element are known in
    part.
    """
    moved = rearranged_places(node) or element_places(node)
    if not moved:
        return []
    data: list[Array | None] = []
    masks: list[Array | None] = []
    useful = False
    for index, value in enumerate(node.inputs):
        known = lookup(value, partial_values)
        if value is None:
            data.append(None)
            masks.append(None)
        elif index in moved:
            known = known or _blank(value)
            if known is None:
                return []
            mask = np.ones(known.data.shape, bool) if known.mask is None else known.mask
            useful = useful or bool(mask.any())
            data.append(known.data)
            masks.append(mask)
        elif known is None or not known.full:
            return []
        else:
            # What says how elements move must be the same for elements and masks.
            data.append(known.data)
            masks.append(known.data)
    # Nothing known comes in, so nothing known can come out.
    if not useful:
        return []
    try:
        return _apply(node, data, masks)
    except Unknown:
        return []


def _blank(value: ir.Value) -> Known | None:
    """A value of which only type and shape are known, if it is a small integer tensor."""
    if not is_typed(value) or _too_big(value) or value.dtype is None:
        return None
    dtype = value.dtype.numpy()
    if dtype.kind not in "iub":
        return None
    shape = shape_of(value)
    return Known(np.ones(shape, dtype), np.zeros(shape, bool))


def _apply(node: ir.Node, data: list[Array | None], masks: list[Array | None]) -> list[Known]:
    """The results of a node for `data` of which `masks` tell the known elements."""
    if rearranged_places(node):
        pairs = zip(evaluate(node, data), evaluate(node, masks), strict=True)
        return [Known(v, m.astype(bool)) for v, m in pairs]
    filled = [
        None if d is None or m is None else np.where(m, d, np.ones_like(d))
        for d, m in zip(data, masks, strict=True)
    ]
    moves = trait_of(node, Moves)
    if moves is not None and moves.by == "choice":
        # Known are chosen elements that are known, where all that chooses is known.
        picked = moved_places(node)
        chosen = [m if i in picked else d for i, (d, m) in enumerate(zip(data, masks, strict=True))]
        choosing = [m for i, m in enumerate(masks) if m is not None and i not in picked]
        mask = np.logical_and.reduce(np.broadcast_arrays(evaluate(node, chosen)[0], *choosing))
        return [Known(evaluate(node, data)[0], np.asarray(mask))]
    mask = np.logical_and.reduce(np.broadcast_arrays(*(m for m in masks if m is not None)))
    return [Known(evaluate(node, filled)[0], np.asarray(mask))]
