# SPDX-License-Identifier: Apache-2.0
"""What operators do to axes whose size the data decide, where no trait of theirs says it.

The modules of `aot/ops` give the rules beside their operators; here is what rules have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, prod
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import dtype_of, given, original_name, shape_of
from aot.ir.operators import DataSized, Interface, SizedBy, trait_of
from aot.shapes.dynamic.dims import INT64, Axes, DynamicDims, no_bound, refused
from aot.shapes.evaluate import Invalid
from aot.shapes.limits import MAX_ELEMENTS
from aot.shapes.partial_values import lookup

Rule = Callable[[DynamicDims, "ir.Node"], None]

#: Element types by their numbers in ONNX.
FLOAT_TYPE, INT32_TYPE, BOOL_TYPE = 1, 6, 9

dynamic: Interface[Rule] = Interface("dynamic")
"""A rule puts the node, or others in its place, at the bounds of its axes and notes the dynamic
axes of the results. It is asked where an input has a dynamic axis, and where data decide the shape
of a result (`is_sized_by_data`). Raises UnsupportedError where it has no answer."""


def is_sized_by_data(node: ir.Node) -> bool:
    """Whether elements of its operands decide how large the results of the node are."""
    return trait_of(node, DataSized) is not None or trait_of(node, SizedBy) is not None


def needed(node: ir.Node, index: int) -> ir.Value:
    """Input `index`; Invalid if it is absent."""
    found = given(node, index)
    if found is None:
        raise Invalid(f"input {index} is missing")
    return found


def number_of(value: ir.Value, number: float) -> float | int:
    """`number` in the value's type: for -inf and inf of integers the smallest and the largest."""
    kind = dtype_of(value).numpy()
    if isfinite(number) or kind.kind not in "iub":
        return number
    if kind.kind == "b":
        return int(number > 0)
    return int(np.iinfo(kind).max if number > 0 else np.iinfo(kind).min)


def pass_on(x: DynamicDims, node: ir.Node, axes: Axes, *outputs: int) -> None:
    """Keep the node; `axes` are those of its outputs (of all, or those listed)."""
    x.sweep.type_outputs(node)
    for index, value in enumerate(node.outputs):
        if value.name and (not outputs or index in outputs):
            x.set(value, axes)


def only_first(x: DynamicDims, node: ir.Node) -> ir.Value:
    """The first input, the only one that may have dynamic axes."""
    if any(x.run_sizes(i) for i in node.inputs[1:]):
        raise refused(node, "runs along a dimension known at run time only")
    return needed(node, 0)


def zero_point(index: int) -> Callable[[DynamicDims, ir.Node, ir.Value], Any]:
    """The function that finds the value of padding in an integer product: its zero point.

    It gives 0 if the node has no input `index`, else that input, one number, as a value [1].
    """

    def fill(x: DynamicDims, node: ir.Node, data: ir.Value) -> Any:
        """The zero point of `node` as a vector of one element, 0 if it has none."""
        zero = given(node, index)
        if zero is None:
            return 0
        where = x.ints(node, [1])
        return x.node(node, "Reshape", [zero, where], [(int(zero.dtype or 0), (1,))])[0]

    return fill


def every_axis(x: DynamicDims, node: ir.Node) -> None:
    """Every element is computed alone, or left out by its place."""
    data = needed(node, 0)
    if any(x.run_sizes(i) for i in node.inputs[1:]):
        raise refused(node, "takes numbers along a dimension known at run time only")
    pass_on(x, node, x.run_sizes(data))


def with_input(node: ir.Node, index: int, value: ir.Value) -> None:
    """Give a node an input that it may not have had."""
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


def total_of(x: DynamicDims, node: ir.Node, value: ir.Value) -> ir.Value:
    """How many elements a value has."""
    shape = x.shape(node, value)
    axes = x.ints(node, [0])
    total = x.node(node, "ReduceProd", [shape, axes], [(INT64, (1,))], keepdims=1)[0]
    return x.new(total, prod(shape_of(value)))


def items_of(x: DynamicDims, vector: ir.Value) -> list[int | None]:
    """The elements of an integer vector, None for those that are not known at compile time."""
    known = lookup(vector, x.sweep.partial_values)
    return known.items() if known is not None else [None] * shape_of(vector)[0]


def run_time_shape(x: DynamicDims, node: ir.Node, vector: ir.Value) -> tuple[list[int], Axes]:
    """(bounds, sizes by axis) of a shape that the vector `vector` says at run time.

    KnownLate if an element has no bound, UnsupportedError for an unknown rank.
    """
    if x.run_sizes(vector):
        raise refused(node, "gets a shape of unknown rank")
    rank = shape_of(vector)[0]
    known = lookup(vector, x.sweep.partial_values)
    items = known.items() if known is not None else [None] * rank
    limits = x.interval(vector)
    bound: list[int] = []
    axes: Axes = {}
    # A known element is a size of every run; others get a bound from what is known of them.
    for axis, item in enumerate(items):
        if item is not None:
            bound.append(item)
            continue
        high = inf if limits is None else float(limits.high[axis])
        if not high <= MAX_ELEMENTS:
            what = f'dimension {axis} is element {axis} of "{original_name(vector)}"'
            raise no_bound(node, what)
        bound.append(max(0, int(high)))
        axes[axis] = x.new(x.at(node, vector, axis), max(0, int(high)))
    if prod(bound) > MAX_ELEMENTS:
        raise no_bound(node, f"all its dimensions together can be {bound}")
    return bound, axes
