# SPDX-License-Identifier: Apache-2.0
"""Expand before an operator that broadcasts anyway, and other Expands sunk towards such operators.

Before: y = Mul(Expand(x, [1, 8, 4]), z[1, 8, 4])      After: y = Mul(x, z)
Before: y = Cast(Expand(x, s))      After: y = Expand(Cast(x), s)
Before: y = ReduceSum(Expand(x, [8, 4]), [0])      After: y = Expand(ReduceSum(x, [0]), [1, 4])
An Expand passes operators of one element, and reductions along axes that it leaves as they are,
where only one of them reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import array, attribute, operand, shape_of
from aot.ir.operators import (
    Elementwise,
    Random,
    Reduces,
    element_places,
    operand_names,
    trait_of,
)
from aot.ir.value_traits import Averages
from aot.load.options import LoadOptions
from aot.normalise.form import Form
from aot.normalise.transposes import CLASSES as CLASSES

FORMS = (Form("UNARY(Expand(x, s))", "Expand(UNARY(x), s)", "other nodes read the Expand"),)


def broadcasts(edit: Editor, options: LoadOptions) -> None:
    """Read the small tensor instead of its expansion."""
    for node in edit.graph:
        trait, places = trait_of(node, Elementwise), element_places(node)
        if trait is None:
            _reduce(edit, node)
        elif len(places) == 1:
            _sink(edit, node, places[0])
        else:
            _absorb(edit, node, trait, places)


def _absorb(edit: Editor, node: ir.Node, trait: Elementwise, places: Sequence[int]) -> None:
    """Let an elementwise node of several operands read what an Expand reads."""
    names = operand_names(node)
    for index in places:
        value = node.inputs[index]
        expand = producer(value, "Expand")
        if expand is None or expand.inputs[0] is None:
            continue
        if trait.broadcasts is not None and names[index] not in trait.broadcasts:
            continue
        inputs = [i for p, i in enumerate(node.inputs) if p in places and i is not None]
        shapes = [shape_of(expand.inputs[0] if i is value else i) for i in inputs]
        # The small tensor alone must still give the shape of the result: another operand has to
        # have it.
        if np.broadcast_shapes(*shapes) == shape_of(node.outputs[0]):
            edit.set_input(node, index, expand.inputs[0])


def _sink(edit: Editor, node: ir.Node, place: int, reduced: Sequence[int] | None = None) -> None:
    """Compute a node of one result before the Expand of its operand `place`, if only it reads that.

    A reduction goes along the axes `reduced`, from the front, with the attribute `keepdims`.
    """
    expand = producer(node.inputs[place], "Expand")
    source = None if expand is None else expand.inputs[0]
    if expand is None or source is None or single_use(expand.outputs[0]) is not node:
        return
    shape, small = shape_of(expand.outputs[0]), list(shape_of(source))
    if trait_of(node, Random) is not None or len(node.outputs) > 1 or shape == tuple(small):
        return
    if reduced is not None:
        if len(small) != len(shape) or any(small[a] != shape[a] for a in reduced):
            return
        keeps = bool(attribute(node, "keepdims", 1))
        kept = [1 if a in reduced else n for a, n in enumerate(small)]
        small = kept if keeps else [n for a, n in enumerate(small) if a not in reduced]
    inputs, result = list(node.inputs), node.outputs[0]
    inputs[place] = source
    made = edit.again(node, inputs, before=node, shape=small, dtype=result.dtype)
    target = edit.ints(shape_of(result), f"{result.name}_shape")
    edit.substitute(node, edit.node("Expand", [made, target], before=node, shape=shape_of(result)))


def _reduce(edit: Editor, node: ir.Node) -> None:
    """Reduce before an Expand; constant axes are given by the second operand."""
    found = trait_of(node, Reduces) or trait_of(node, Averages)
    if found is None or found.axes != "axes" or node.domain:
        return
    axes = array(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is not None and axes.size:
        rank = len(shape_of(operand(node, 0)))
        _sink(edit, node, 0, sorted({int(a) % rank for a in axes.ravel()}))
