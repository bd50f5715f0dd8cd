# SPDX-License-Identifier: Apache-2.0
"""Between which numbers the elements of a small value lie, whatever the data.

k = Min(Shape(boxes)[0], 100)        boxes has at most 4420 rows: 0 <= k <= 100
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_nodes import DYNAMIC, Array, is_typed, shape_of, words
from aot.ir.operators import rearranged_places
from aot.shapes.evaluate import Invalid, evaluate
from aot.shapes.limits import SMALL_ELEMENTS
from aot.shapes.partial_values import Facts, lookup
from aot.shapes.reference import Unknown

if TYPE_CHECKING:
    import onnx_ir as ir

WRAPPING = words("Add Sum Sub Mul Div Neg ReduceProd ReduceSum")
DEEPEST = 200
"""Nodes in a row that are looked through."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Elementwise bounds of a value, float64 arrays of its shape (infinite where unknown)."""

    low: Array
    high: Array


class Bounds:
    """Intervals of the values of one graph, found on demand."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._found: dict[ir.Value, Interval | None] = {}

    def extent(self, value: ir.Value, most: float, least: float = 0) -> None:
        """Note that the elements of `value` are extents: `least` to `most`."""
        shape = shape_of(value)
        found = Interval(np.full(shape, float(least)), np.full(shape, float(most)))
        known = self._found.get(value)
        if known is not None:  # what was proved stays
            low, high = np.maximum(found.low, known.low), np.minimum(found.high, known.high)
            found = Interval(low, high)
        self._found[value] = found

    def of(self, value: ir.Value | None, depth: int = 0) -> Interval | None:
        """The bounds of a small value, None if nothing can be said."""
        if value is None or not is_typed(value) or value.dtype is None:
            return None
        if int(np.prod(shape_of(value), dtype=np.float64)) > SMALL_ELEMENTS or depth > DEEPEST:
            return None
        if value not in self._found:
            self._found[value] = self._find(value, depth)
        return self._found[value]

    def _find(self, value: ir.Value, depth: int) -> Interval | None:
        known = lookup(value, self._facts)
        if known is not None and known.full and known.data.dtype.kind in "iufb":
            data = known.data.astype(np.float64)
            return Interval(data, data)
        widest = _of_type(value)
        node = value.producer()
        if node is None or node.domain not in ("", DYNAMIC):
            return widest
        rule = RULES.get(node.op_type) if not node.domain else None
        if rearranged_places(node):
            found = self._moved(node, value, depth)
        elif rule is not None:
            inputs = [self.of(v, depth + 1) for v in node.inputs]
            with np.errstate(all="ignore"):
                found = rule(node, inputs)
            if found is not None and widest is not None and node.op_type in WRAPPING:
                found = _unless_wrapped(found, widest)
        else:
            found = None
        return found or widest

    def _moved(self, node: ir.Node, value: ir.Value, depth: int) -> Interval | None:
        places = rearranged_places(node)
        lows: list[Array | None] = []
        highs: list[Array | None] = []
        for index, source in enumerate(node.inputs):
            if index in places:
                found = self.of(source, depth + 1)
                if found is None:
                    return None
                lows.append(found.low)
                highs.append(found.high)
            else:
                known = lookup(source, self._facts)
                if source is not None and (known is None or not known.full):
                    return None
                data = None if known is None else known.data
                lows.append(data)
                highs.append(data)
        at = list(node.outputs).index(value)
        try:
            return Interval(evaluate(node, lows)[at], evaluate(node, highs)[at])
        except (Unknown, Invalid):
            return None


def _of_type(value: ir.Value) -> Interval | None:
    assert value.dtype is not None
    kind, shape = value.dtype.numpy(), shape_of(value)
    if kind.kind == "b":
        return Interval(np.zeros(shape), np.ones(shape))
    if kind.kind in "iu":
        info = np.iinfo(kind)
        wide = kind.itemsize > 2
        low, high = (-inf if wide and info.min < 0 else info.min), (inf if wide else info.max)
        return Interval(np.full(shape, float(low)), np.full(shape, float(high)))
    if kind.kind == "f":
        return Interval(np.full(shape, -inf), np.full(shape, inf))
    return None


def _unless_wrapped(found: Interval, widest: Interval) -> Interval:
    """Nothing is known of elements that may have left the range of their type."""
    inside = (found.low >= widest.low) & (found.high <= widest.high)
    inside &= (np.abs(found.low) < 2.0**53) & (np.abs(found.high) < 2.0**53)
    low = np.where(inside, found.low, widest.low)
    return Interval(low, np.where(inside, found.high, widest.high))


Inputs = list[Interval | None]
Rule = Callable[["ir.Node", Inputs], Interval | None]


def _all(inputs: Inputs) -> list[Interval] | None:
    found = [i for i in inputs if i is not None]
    return found if len(found) == len(inputs) and found else None


def _corners(function: Callable[[Array, Array], Array]) -> Rule:
    """For functions whose extremes over a box of inputs lie in its corners."""

    def rule(node: ir.Node, inputs: Inputs) -> Interval | None:
        found = _all(inputs)
        if found is None:
            return None
        total = found[0]
        for other in found[1:]:
            corners = [
                function(a, b) for a in (total.low, total.high) for b in (other.low, other.high)
            ]
            if any(np.isnan(c).any() for c in corners):
                return None
            total = Interval(np.minimum.reduce(corners), np.maximum.reduce(corners))
        return total

    return rule


def _smallest(node: ir.Node, inputs: Inputs) -> Interval | None:
    found = _all(inputs)
    if found is None:
        return None
    low, high = found[0].low, found[0].high
    for other in found[1:]:
        low, high = np.minimum(low, other.low), np.minimum(high, other.high)
    return Interval(low, high)


def _largest(node: ir.Node, inputs: Inputs) -> Interval | None:
    found = _all(inputs)
    if found is None:
        return None
    low, high = found[0].low, found[0].high
    for other in found[1:]:
        low, high = np.maximum(low, other.low), np.maximum(high, other.high)
    return Interval(low, high)


def _divide(node: ir.Node, inputs: Inputs) -> Interval | None:
    """By positive numbers only; integers round towards zero."""
    found = _all(inputs)
    if found is None or not (found[1].low > 0).all():
        return None
    a, b = found
    corners = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
    if any(np.isnan(c).any() for c in corners):
        return None
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    source = node.inputs[0]
    if source is not None and source.dtype is not None and source.dtype.numpy().kind in "iu":
        low, high = np.trunc(low), np.trunc(high)
    return Interval(low, high)


def _cast(node: ir.Node, inputs: Inputs) -> Interval | None:
    """Numbers that the type holds stay; fractions are cut off."""
    result, found = node.outputs[0], inputs[0]
    widest = _of_type(result) if result.dtype is not None else None
    if found is None or widest is None or result.dtype is None:
        return widest
    kind = result.dtype.numpy().kind
    if kind == "f":
        small = (np.abs(found.low) < 2**24).all() and (np.abs(found.high) < 2**24).all()
        return found if small else widest
    if kind == "b" or not ((found.low >= widest.low) & (found.high <= widest.high)).all():
        return widest
    return Interval(np.trunc(found.low), np.trunc(found.high))


def _rounded(function: Callable[[Array], Array]) -> Rule:
    def rule(node: ir.Node, inputs: Inputs) -> Interval | None:
        found = inputs[0]
        return None if found is None else Interval(function(found.low), function(found.high))

    return rule


def _negated(node: ir.Node, inputs: Inputs) -> Interval | None:
    found = inputs[0]
    return None if found is None else Interval(-found.high, -found.low)


def _where(node: ir.Node, inputs: Inputs) -> Interval | None:
    found = _all(inputs)
    if found is None:
        return None
    condition, yes, no = found
    low, high = np.minimum(yes.low, no.low), np.maximum(yes.high, no.high)
    sure, never = condition.low > 0, condition.high <= 0
    low = np.where(sure, yes.low, np.where(never, no.low, low))
    return Interval(low, np.where(sure, yes.high, np.where(never, no.high, high)))


def _reduced(function: Callable[..., Array]) -> Rule:
    """Over all of a vector of numbers that are not negative."""

    def rule(node: ir.Node, inputs: Inputs) -> Interval | None:
        found, result = inputs[0], node.outputs[0]
        if found is None or found.low.ndim != 1 or prod(shape_of(result)) != 1:
            return None
        if not (found.low >= 0).all():
            return None
        low, high = (np.full(shape_of(result), function(v)) for v in (found.low, found.high))
        return None if np.isnan(high).any() else Interval(low, high)

    return rule


def _compared(surely: Callable[[Interval, Interval], tuple[Array, Array]]) -> Rule:
    """A comparison; `surely` says where it holds and where it does not, whatever the elements."""

    def rule(node: ir.Node, inputs: Inputs) -> Interval | None:
        found = _all(inputs)
        if found is None:
            return None
        yes, no = surely(*found)
        return Interval(yes.astype(np.float64), (~no).astype(np.float64))

    return rule


def _less(a: Interval, b: Interval) -> tuple[Array, Array]:
    return a.high < b.low, a.low >= b.high


def _less_or_equal(a: Interval, b: Interval) -> tuple[Array, Array]:
    return a.high <= b.low, a.low > b.high


def _equal(a: Interval, b: Interval) -> tuple[Array, Array]:
    alone = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
    return alone, (a.high < b.low) | (a.low > b.high)


def _not(node: ir.Node, inputs: Inputs) -> Interval | None:
    found = inputs[0]
    return None if found is None else Interval(1 - found.high, 1 - found.low)


RULES: dict[str, Rule] = {
    "Equal": _compared(_equal),
    "Less": _compared(_less),
    "LessOrEqual": _compared(_less_or_equal),
    "Greater": _compared(lambda a, b: _less(b, a)),
    "GreaterOrEqual": _compared(lambda a, b: _less_or_equal(b, a)),
    "And": _smallest,
    "Or": _largest,
    "Not": _not,
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "Add": _corners(np.add),
    "Sum": _corners(np.add),
    "Sub": lambda node, inputs: _corners(np.add)(node, [inputs[0], _negated(node, inputs[1:])]),
    "Mul": _corners(np.multiply),
    "Div": _divide,
    "Min": _smallest,
    "Max": _largest,
    "Neg": _negated,
    "Floor": _rounded(np.floor),
    "Ceil": _rounded(np.ceil),
    "Cast": _cast,
    "Where": _where,
}
