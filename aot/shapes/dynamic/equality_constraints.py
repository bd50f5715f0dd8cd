# SPDX-License-Identifier: Apache-2.0
"""Sizes that must be equal: proved to be, or compared by every run (`AOT_BAD_SHAPE`)."""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import DYNAMIC, operand, shape_of
from aot.shapes.dynamic.dims import INT64, Axes, DynamicDims, refused


def require_equal(
    x: DynamicDims, node: ir.Node, left: ir.Value, right: ir.Value, what: str = ""
) -> ir.Value:
    """The one size of two that must be equal; UnsupportedError with `what` if they may well differ.

    Those that the caller says (`--dim`), or that follow from them, are compared when the model
    runs: a dimension of 1 is not repeated then. Without `what` no size of 1 is ever repeated, and
    every run compares the two, whatever decides them.
    """
    if x.same(left, right):
        return left
    said = x.said(left) and x.said(right)
    if what and not said:
        raise refused(node, what)
    made = x.node(node, "RequireEqual", [left, right], [(INT64, (1,))], DYNAMIC)[0]
    limits = [x.interval(v) for v in (left, right)]
    most = min(float(v.high[0]) for v in limits if v is not None)
    least = max(float(v.low[0]) for v in limits if v is not None)
    x.checks.append(made)
    if said:
        x.claim(made)
    return x.new(made, int(most), int(least))


def agreed(
    x: DynamicDims, node: ir.Node, left: ir.Value | None, right: ir.Value | None, what: str
) -> ir.Value | None:
    """The one size of two axes of which both are dynamic, None where neither is.

    UnsupportedError with `what` if one is (None: it is not), or if they may well differ.
    """
    if left is not None and right is not None:
        return require_equal(x, node, left, right, what)
    if left is not right:
        raise refused(node, what)
    return None


def meet(
    x: DynamicDims, node: ir.Node, found: Axes, place: int, value: ir.Value, what: str = ""
) -> None:
    """Note that axis `place` of the result is as long as `value` says, as others may have said.

    `what` is as in `require_equal`.
    """
    known = found.get(place)
    found[place] = value if known is None else require_equal(x, node, known, value, what)


def fitted(x: DynamicDims, node: ir.Node, value: ir.Value, axis: int, size: int) -> ir.Value:
    """`value` with at most `size` elements on a dynamic axis, whose size is no more than that."""
    shape = shape_of(value)
    if shape[axis] <= size:
        return value
    own = x.run_sizes(value)
    cut = [x.ints(node, [v]) for v in (0, size, axis)]
    smaller = (*shape[:axis], size, *shape[axis + 1 :])
    made = x.node(node, "Slice", [value, *cut], [(int(value.dtype or 0), smaller)])[0]
    x.set(made, own)
    return made


def fit_inputs(x: DynamicDims, node: ir.Node, places: dict[int, dict[int, int]]) -> None:
    """Cut inputs of `node` to the least bound where they meet.

    `places` has, by number of the input, the place in the result by axis.
    """
    least: dict[int, int] = {}
    for index, own in places.items():
        value = operand(node, index)
        for axis, place in own.items():
            size = shape_of(value)[axis]
            least[place] = min(least.get(place, size), size)
    for index, own in places.items():
        for axis, place in own.items():
            value = operand(node, index)
            small = fitted(x, node, value, axis, least[place])
            if small is not value:
                node.replace_input_with(index, small)


__all__ = ["agreed", "fit_inputs", "fitted", "meet", "require_equal"]
