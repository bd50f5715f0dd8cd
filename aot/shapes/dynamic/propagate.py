# SPDX-License-Identifier: Apache-2.0
"""What a node does to dynamic axes, by the rule or the traits of its operator.

Operators with neither are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute, given, original_name, shape_of
from aot.ir.node_traits import axes_of
from aot.ir.operators import (
    Along,
    Elementwise,
    Reduces,
    Rowwise,
    SizedBy,
    Window,
    operand_names,
    places_of,
    trait_of,
)
from aot.shapes.dynamic.dims import Axes, DynamicDims, axis_of, constant_ints, refused
from aot.shapes.dynamic.equality_constraints import fit_inputs, meet, require_equal
from aot.shapes.dynamic.rules import Rule, dynamic, needed, number_of, pass_on
from aot.shapes.dynamic.windows import windowed


def elementwise(x: DynamicDims, node: ir.Node, trait: Elementwise) -> None:
    """Follow dynamic axes through operands that broadcast: a dynamic axis meets its equal, or 1.

    UnsupportedError where another operand has a fixed size there.
    """
    inputs = {i: v for i, v in enumerate(node.inputs) if v is not None}
    rank = max(len(shape_of(v)) for v in inputs.values())
    found: Axes = {}
    places: dict[int, dict[int, int]] = {}
    for index, value in inputs.items():
        # Axes that an operand lacks are in front.
        more = rank - len(shape_of(value))
        places[index] = {a: a + more for a in x.run_sizes(value)}
        for axis, n in x.run_sizes(value).items():
            what = f"may repeat dimension {axis + more}, known at run time only"
            meet(x, node, found, axis + more, n, what)
    for value in inputs.values():
        shape = shape_of(value)
        for place in found:
            axis = place - (rank - len(shape))
            if axis >= 0 and axis not in x.run_sizes(value) and shape[axis] != 1:
                what = f"has {shape[axis]} elements along dimension {place}, known at run time only"
                raise refused(node, what)
    fit_inputs(x, node, places)
    pass_on(x, node, found)


def reduced_axes(x: DynamicDims, node: ir.Node, trait: Reduces) -> tuple[list[int], bool]:
    """(axes of a reduction from 0 to rank - 1, whether they stay as 1).

    UnsupportedError if the axes come at run time.
    """
    rank, keep = len(shape_of(needed(node, 0))), bool(attribute(node, "keepdims", 1))
    if not trait.axes:
        return list(range(2, rank)), True
    rule = next((r for name, r, _ in axes_of(node) if name == trait.axes), None)
    if rule is not None:
        return [axis_of(node, rank, rule.default or 0, trait.axes)], keep
    names = operand_names(node)
    wanted = given(node, names.index(trait.axes)) if trait.axes in names else None
    axes = constant_ints(x, wanted) if wanted is not None else []
    if axes is None:
        raise refused(node, "gets its axes at run time")
    if not axes and not attribute(node, "noop_with_empty_axes", 0):
        axes = list(range(rank))
    return [a + rank if a < 0 else a for a in axes], keep


def axes_left(x: DynamicDims, data: ir.Value, axes: Sequence[int], keep: bool) -> Axes:
    """The dynamic axes that a reduction leaves."""
    stay = [a for a in range(len(shape_of(data))) if keep or a not in axes]
    return {stay.index(a): n for a, n in x.run_sizes(data).items() if a not in axes}


def reduction(x: DynamicDims, node: ir.Node, trait: Reduces) -> None:
    """Follow dynamic axes through a reduction, padding along reduced ones filled with the neutral
    element.

    UnsupportedError if the attributes make no element neutral.
    """
    data = needed(node, 0)
    axes, keep = reduced_axes(x, node, trait)
    left = axes_left(x, data, axes, keep)
    inside = [a for a in x.run_sizes(data) if a in axes]
    if inside and trait.when is not None and not trait.when(node):
        raise refused(node, "reduces a dimension known at run time only, with such attributes")
    if inside:
        fill = number_of(data, trait.neutral)
        node.replace_input_with(0, x.neutral(node, data, fill, inside))
    pass_on(x, node, left)


def along_axis(x: DynamicDims, node: ir.Node, trait: Along) -> None:
    """Every line alone; the padding of a dynamic axis is filled with the trait's `padding`."""
    data = needed(node, 0)
    default = next(rule.default for name, rule, _ in axes_of(node) if name == trait.axis)
    axis = axis_of(node, len(shape_of(data)), default or 0, trait.axis)
    if axis in x.run_sizes(data):
        fill = number_of(data, trait.padding)
        node.replace_input_with(0, x.neutral(node, data, fill, [axis]))
    pass_on(x, node, x.run_sizes(data))


def rowwise(x: DynamicDims, node: ir.Node, trait: Rowwise) -> None:
    """Follow dynamic axes through an operator on rows: axes in front of a row pass.

    UnsupportedError for a dynamic axis within a row or an operand that may repeat it.
    """
    data = needed(node, 0)
    own, rank = x.run_sizes(data), len(shape_of(data))
    first = rank - 1
    for name, rule, _ in axes_of(node):
        if name == trait.axis:
            first = axis_of(node, rank, rule.default or 0, name)
    if any(a >= first for a in own):
        raise refused(node, "mixes along a dimension known at run time only")
    for value in node.inputs[1:]:
        shape = () if value is None else shape_of(value)
        for axis in own:
            # An operand that repeats along the axis has 1 there; another fixed size would not fit
            # every run.
            there = axis - (rank - len(shape))
            if there >= 0 and there not in x.run_sizes(value) and shape[there] != 1:
                raise refused(node, f"has {shape[there]} elements along dimension {axis}")
        for axis, n in x.run_sizes(value).items():
            ours = own.get(axis) if value is not None and len(shape_of(value)) == rank else None
            if ours is None:
                raise refused(node, f"may repeat dimension {axis}, known at run time only")
            require_equal(x, node, ours, n, f"may repeat dimension {axis}, known at run time only")
    x.sweep.type_outputs(node)
    for value in node.outputs:
        if value.name:
            x.set(value, {a: n for a, n in own.items() if a < len(shape_of(value))})


def by_trait(node: ir.Node) -> Rule | None:
    """The rule that a trait of the node's operator gives, None without one."""
    for kind, rule in BY_TRAIT:
        if (trait := trait_of(node, kind)) is not None:
            return partial(rule, trait=trait)
    return None


def flows(x: DynamicDims, node: ir.Node) -> None:
    """Follow the dynamic axes of the node's inputs. Raises UnsupportedError without a rule."""
    rule = dynamic.of(node) or by_trait(node)
    if rule is None:
        raise refused(node, "meets a dimension known at run time only (it has no rule for that)")
    sized = trait_of(node, SizedBy)
    if sized is not None:
        for index in places_of(node, sized.operands):
            if x.run_sizes(node.inputs[index]):
                name = original_name(needed(node, index))
                raise refused(node, f'takes as many numbers from "{name}" as a run says')
    rule(x, node)


#: What the traits of an operator say, the first that it has.
BY_TRAIT: tuple[tuple[Any, Callable[..., None]], ...] = (
    (Window, windowed),
    (Reduces, reduction),
    (Along, along_axis),
    (Rowwise, rowwise),
    (Elementwise, elementwise),
)
