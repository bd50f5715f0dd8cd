# SPDX-License-Identifier: Apache-2.0
"""Dimensions of inputs that every run says, within bounds that the user gives.

--dim N=1..64     Before: input x [N, 8]     After: inputs x [64, 8], N (int64 [1]);
                          y = Relu(x)               y = Relu(aot.dynamic.Spread(x, [N, 8]))

A dimension that the file writes as an expression of others (`past + 1`) is computed from these, and
every run compares it with the shape that it is given.

The caller's x has N rows; Spread puts them at their bound, zeros behind, and nothing reads beyond
them. From there on N is a size like any other (`aot.shapes.dynamic.dims`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import lcm, prod

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import DYNAMIC, Array, original_name, set_type, shape_of
from aot.ir.pins import Pin
from aot.shapes.dim_expressions import Numbers, Unsettled, parsed
from aot.shapes.dynamic.dims import INT64, DynamicDims
from aot.shapes.dynamic.equality_constraints import require_equal
from aot.shapes.dynamic.kept_dims import KeptSize, keep_size

DIMENSIONS = "aot.dimensions"
"""Key of a graph's `meta`: the Dimensions whose sizes are its last inputs, in this order."""

MOST_AXES = 8


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension called `name` from `least` to `most`; `axes` are (number of the input, axis)."""

    name: str
    least: int
    most: int
    axes: tuple[tuple[int, int], ...] = ()


def open_dimensions(
    dims: DynamicDims,
    graph: ir.Graph,
    dimensions: Sequence[Dimension],
    states: Mapping[str, str],
) -> dict[ir.Value, Pin]:
    """Give `graph` an input for every dimension; what reads inputs gets the form at the bound.

    Inputs among `states` (input: output) keep their lengths from run to run. Returns the inputs of
    other dimensions, each with the option that would give the dimension one size.
    """
    if not dimensions:
        return {}
    first = next(iter(graph))
    before = list(graph.inputs)
    # States are not said by the caller: they keep their length from run to run.
    kept = {i for i, v in enumerate(before) if original_name(v) in states}
    held = {}
    for d in dimensions:
        if places := tuple(a for a in d.axes if a[0] in kept):
            length = KeptSize(d.name, d.most, places, len(graph.inputs))
            held[d] = keep_size(dims, graph, length, d.least)
    said = {d: replace(d, axes=tuple(a for a in d.axes if a[0] not in kept)) for d in dimensions}
    given = {d: _dimension_size(dims, graph, d) for d in dimensions if said[d].axes}
    sizes = {d: _related(dims, first, d, {**given, **held}) for d in dimensions}
    # What several dimensions say of one size must agree, or the run is refused.
    checked = [(sizes[d], own) for d, own in given.items() if sizes[d] is not own]
    for left, right in () if held else checked:
        require_equal(dims, first, left, right, _EXCLUDED)
    after = {d: _after(dims, first, sizes[d], checked) for d in held}
    for index, value in enumerate(before):
        own = {axis: sizes[d] for d in dimensions for i, axis in d.axes if i == index}
        if own and index in kept:
            dims.kept.add(value)
            dims.set(value, {a: after[d] for d in held for i, a in d.axes if i == index})
        elif own:
            _spread(dims, first, value, own)
    graph.meta[DIMENSIONS] = tuple(said[d] for d in given)
    return {v: single(d, before) for d, v in given.items()}


def single(dimension: Dimension, inputs: Sequence[ir.Value]) -> Pin:
    """The option that gives a dimension its upper end; one without a name is part of a shape."""
    for index, axis in dimension.axes:
        value = inputs[index]
        if dimension.name == f"{value.name}[{axis}]":
            return Pin("--input-shape", original_name(value), shape_of(value), instead=True)
    return Pin("--dim", dimension.name, (dimension.most,), instead=True)


def check_counts(dims: DynamicDims, graph: ir.Graph, counts: Mapping[str, int]) -> None:
    """Let every run compare inputs that are counts with the most that they can be.

    `counts` has the bounds by name of the input; a larger count gives AOT_BAD_SHAPE.
    """
    first = next(iter(graph), None)
    for value in graph.inputs:
        most = counts.get(str(value.name))
        if most is None or first is None:
            continue
        uses = list(value.uses())
        kind = [(INT64, shape_of(value))]
        checked = dims.node(first, "Within", [value], kind, DYNAMIC, most=most)[0]
        for node, index in uses:
            node.replace_input_with(index, checked)
        dims.checks.append(dims.new(checked, most))


def _dimension_size(dims: DynamicDims, graph: ir.Graph, dimension: Dimension) -> ir.Value:
    """The input that says how long a dimension is."""
    value = ir.Value(name=f"{dimension.name} extent")
    set_type(value, INT64, (1,))
    graph.inputs.append(value)
    dims.claim(value)
    return dims.new(value, dimension.most, dimension.least)


def _related(
    dims: DynamicDims, first: ir.Node, dimension: Dimension, sizes: Mapping[Dimension, ir.Value]
) -> ir.Value:
    """The value of a dimension's size: of its expression in terms of other dimensions, if it is
    one.

    `sizes` are values by dimension; a run compares what it cannot compute.
    """
    own, expression = sizes[dimension], parsed(dimension.name)
    values = {d.name: v for d, v in sizes.items()}
    if expression is None or not all(n in values for n in expression.names):
        return own
    given: dict[str, Run] = {n: (values[n], 1) for n in expression.names}
    try:
        computed, divisor = expression.computed(given, run_numbers(dims, first))
    except Unsettled:
        return own  # the model compares what it needs
    if divisor != 1:
        return own
    return dims.new(computed, dimension.most, dimension.least)


_EXCLUDED = "has a shape that its other inputs exclude"


def _after(
    dims: DynamicDims, first: ir.Node, size: ir.Value, checked: Sequence[tuple[ir.Value, ir.Value]]
) -> ir.Value:
    """`size`, computed by comparisons of pairs: no state is touched before all have succeeded."""
    for left, right in checked:
        moved = dims.add(first, size, dims.sub(first, left, right))
        size = require_equal(dims, first, size, moved, _EXCLUDED)
    return size


#: A number that a run knows: a size, divided by a number.
Run = tuple["ir.Value", int]


def run_numbers(x: DynamicDims, first: ir.Node) -> Numbers[Run]:
    """Expressions of dimensions as nodes before `first`.

    They raise Unsettled for divisions by a dimension and for roundings of negative numbers.
    """

    def over(value: Run, divisor: int) -> ir.Value:
        """The numerator of `value` over a multiple of its divisor."""
        return x.mul(first, value[0], x.ints(first, [divisor // value[1]]))

    def both(join: Callable[[ir.Node, ir.Value, ir.Value], ir.Value], left: Run, right: Run) -> Run:
        """Two fractions of a run brought to one divisor, and their numerators joined."""
        divisor = lcm(left[1], right[1])
        return join(first, over(left, divisor), over(right, divisor)), divisor

    def quotient(left: Run, right: Run) -> Run:
        """`left` / `right`, each a Run: an int64 vector of one element and a positive divisor.

        Nodes for it are put in front of `first`. Unsettled unless the numerator of `right` is one
        known positive number.
        """
        # Sizes are integers: dividing by an unknown size has no bound.
        known = x.interval(right[0])
        if known is None or int(known.low[0]) != int(known.high[0]) or int(known.low[0]) <= 0:
            raise Unsettled("divides by a dimension")
        return over(left, left[1] * right[1]), left[1] * int(known.low[0])

    def floor(value: Run, plus: int = 0) -> Run:
        """`value` plus `plus` / its divisor, rounded down."""
        sum_of = x.add(first, value[0], x.ints(first, [plus]))
        limits = x.interval(sum_of)
        # Integer division rounds towards zero, ONNX's floor downwards: below 0 they differ.
        if value[1] > 1 and (limits is None or int(limits.low[0]) < 0):
            raise Unsettled("rounds a number that may be negative")
        return x.div(first, sum_of, x.ints(first, [value[1]])), 1

    joins = {"add": x.add, "sub": x.sub, "largest": x.largest, "smallest": x.smallest}
    return {
        "number": lambda value: (x.ints(first, [value.numerator]), value.denominator),
        **{name: partial(both, join) for name, join in joins.items()},
        "mul": lambda left, right: (x.mul(first, left[0], right[0]), left[1] * right[1]),
        "div": quotient,
        "floor": floor,
        "ceil": lambda value: floor(value, value[1] - 1),
    }


def _spread(dims: DynamicDims, first: ir.Node, value: ir.Value, axes: dict[int, ir.Value]) -> None:
    """Let readers of a graph input read it spread to its bounds; `axes` are the sizes of a run by
    axis.

    UnsupportedError beyond MOST_AXES axes.
    """
    shape = shape_of(value)
    if len(shape) > MOST_AXES:
        what = f'input "{original_name(value)}" has {len(shape)} axes'
        raise UnsupportedError(f"{what} (at most {MOST_AXES} with a dimension known at run time)")
    uses = list(value.uses())
    dims.set(value, axes)
    whole = dims.shape(first, value)
    kind = [(int(value.dtype or 0), shape)]
    spread = dims.node(first, "Spread", [value, whole], kind, DYNAMIC)[0]
    for node, index in uses:
        node.replace_input_with(index, spread)
    dims.discard(value)
    dims.set(spread, axes)


def padded(array: Array, shape: tuple[int, ...]) -> Array:
    """An array as bundles take it: at the bound `shape`, elements first, then zeros."""
    if array.shape == shape:
        return array
    made = np.zeros(prod(shape), array.dtype)
    made[: array.size] = array.ravel()
    return made.reshape(shape)


def dimensions_of(graph: ir.Graph) -> tuple[Dimension, ...]:
    """The dimensions whose sizes are the last inputs of a graph."""
    found: tuple[Dimension, ...] = graph.meta.get(DIMENSIONS, ())
    return found
