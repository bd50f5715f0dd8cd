# SPDX-License-Identifier: Apache-2.0
"""Products along dynamic axes: rows and columns pass; where both operands meet, padding is 0."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import given, shape_of
from aot.shapes.dynamic.dims import Axes, DynamicDims, refused
from aot.shapes.dynamic.equality_constraints import fit_inputs, meet, require_equal
from aot.shapes.dynamic.rules import needed, pass_on, zero_point

APART = "multiplies along dimensions that may differ at run time"


def multiplied(
    x: DynamicDims,
    node: ir.Node,
    left: int,
    right: int,
    of_left: Sequence[int] = (),
    of_right: Sequence[int] = (),
) -> None:
    """A product of the inputs numbered `left` and `right`.

    `of_left` and `of_right` are the inputs with their scales and, last, zero points.
    """
    a, b = needed(node, left), needed(node, right)
    for value, beside in ((a, of_left), (b, of_right)):
        # Scales along a dynamic axis would need padding of their own.
        many = any(prod(shape_of(v)) > 1 for i in beside if (v := given(node, i)) is not None)
        if many and any(axis >= len(shape_of(value)) - 2 for axis in x.run_sizes(value)):
            raise refused(node, "has scales along a dimension known at run time only")
    if any(x.run_sizes(v) for i, v in enumerate(node.inputs) if i not in (left, right)):
        raise refused(node, "has scales along a dimension known at run time only")
    ranks = len(shape_of(a)), len(shape_of(b))
    inner = {left: ranks[0] - 1, right: max(ranks[1] - 2, 0)}
    ends = [x.run_sizes(a).get(inner[left]), x.run_sizes(b).get(inner[right])]
    if ends[0] is not None or ends[1] is not None:
        if ends[0] is None or ends[1] is None:
            raise refused(node, "multiplies a dimension known at run time by a known one")
        require_equal(x, node, ends[0], ends[1], APART)
        # Padding takes part in the sums: it must be the zero point, whose number is 0.
        for index, value, beside in ((left, a, of_left), (right, b, of_right)):
            fill = zero_point(beside[-1])(x, node, value) if beside else 0
            node.replace_input_with(index, x.neutral(node, value, fill, [inner[index]]))
        fit_inputs(x, node, {left: {inner[left]: 0}, right: {inner[right]: 0}})
    rank = max(*ranks, 2)
    found: Axes = {}
    places: dict[int, dict[int, int]] = {left: {}, right: {}}
    for index, value in ((left, a), (right, b)):
        own = len(shape_of(value))
        for axis, n in x.run_sizes(value).items():
            if axis == inner[index]:
                continue
            # Axes count from behind where operands broadcast; a vector has its only axis last.
            place = axis + rank - own if own > 1 else rank - 1
            meet(x, node, found, place, n, f"may repeat dimension {place}, known at run time only")
            places[index][axis] = place
    for index, value, other in ((left, b, right), (right, a, left)):
        own = len(shape_of(value))
        for place in places[index].values():
            axis = place - (rank - own)
            known = place < rank - 2 and axis >= 0 and axis not in places[other]
            if known and shape_of(value)[axis] != 1:
                raise refused(node, f"may repeat dimension {place}, known at run time only")
    fit_inputs(x, node, places)
    # A vector's own axis is no axis of the result.
    gone = {rank - 2} if ranks[0] == 1 else set()
    gone |= {rank - 1} if ranks[1] == 1 else set()
    left_over = [p for p in range(rank) if p not in gone]
    pass_on(x, node, {left_over.index(p): n for p, n in found.items() if p not in gone})
