# SPDX-License-Identifier: Apache-2.0
"""Between which numbers the elements of a small value lie, whatever the data.

k = Min(Shape(boxes)[0], 100)        boxes has at most 4420 rows: 0 <= k <= 100

The modules of `aot/ops` say how operators bound their results (`bounds`); operators that move
elements move their bounds. The rest of this file is what several rules share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array, dtype_of, is_typed, shape_of
from aot.ir.operators import Interface, element_places, rearranged_places
from aot.shapes.evaluate import Invalid, evaluate
from aot.shapes.limits import SMALL_ELEMENTS
from aot.shapes.partial_values import PartialValues, lookup, operands_first
from aot.shapes.reference import Unknown


@dataclass(frozen=True, slots=True)
class Interval:
    """Elementwise bounds of a value, float64 arrays of its shape (infinite where unknown).

    Those of a large value have its rank and one element, for all of its elements.
    """

    low: Array
    high: Array


Inputs = list[Interval | None]
Rule = Callable[["ir.Node", Inputs], Interval | None]

#: The bounds of a node's first output for bounds of its inputs (None where nothing is known).
bounds: Interface[Rule] = Interface("bounds")

#: The inputs among whose elements those of a node's first output are, wherever they come from.
gathers: Interface[Callable[[ir.Node], Sequence[int]]] = Interface("gathers")

#: The output of a node that holds positions, and how many there are: its elements are less.
positions: Interface[Callable[[ir.Node], tuple[int, int]]] = Interface("positions")


class Bounds:
    """Intervals of the values of one graph, found on demand."""

    def __init__(self, partial_values: PartialValues) -> None:
        """Start with nothing found; `partial_values` are values known in part."""
        self._facts = partial_values
        self._found: dict[ir.Value, Interval | None] = {}

    def size(self, value: ir.Value, most: float, least: float = 0) -> None:
        """Note that the elements of `value` are sizes: `least` to `most`."""
        shape = shape_of(value)
        found = Interval(np.full(shape, float(least)), np.full(shape, float(most)))
        known = self._found.get(value)
        if known is not None:  # what was proved stays
            low, high = np.maximum(found.low, known.low), np.minimum(found.high, known.high)
            found = Interval(low, high)
        self._found[value] = found

    def outside(self, body: ir.Graph) -> Bounds:
        """What is known, but of values that nodes of `body` compute and of its inputs."""
        made = Bounds(self._facts)
        own = {*body.inputs, *(o for node in body for o in node.outputs)}
        made._found = {v: i for v, i in self._found.items() if v not in own}
        return made

    def of(self, value: ir.Value | None) -> Interval | None:
        """The bounds of a small value, None if nothing can be said."""
        return None if value is None or not _is_small(value) else self._of_any(value)

    def surely_in(self, value: ir.Value, low: float, high: float) -> bool:
        """Whether every element of a small or large value is from `low` to `high`."""
        found = _joined(self._of_any(value))
        return found is not None and bool(found.low.min() >= low and found.high.max() <= high)

    def _of_any(self, value: ir.Value | None) -> Interval | None:
        """The bounds of a small or large value, None if nothing can be said."""
        if value is None:
            return None
        for each in operands_first(value, self._is_open):
            if self._is_open(each):
                self._found[each] = self._find(each)
        found = self._found.get(value)
        wide = is_typed(value) and not _is_small(value)
        return of_type(value) if found is None and wide else found

    def _is_open(self, value: ir.Value) -> bool:
        """Whether the bounds of a typed value are still to be found, and may be: of a large value
        a node must say them.
        """
        if value in self._found or not is_typed(value) or value.dtype is None:
            return False
        if _is_small(value):
            return True
        node = value.producer()
        if node is None:
            return False
        ways = rearranged_places(node), _is_by_element(node), gathers.of(node), positions.of(node)
        return any(map(bool, ways))

    def _find(self, value: ir.Value) -> Interval | None:
        """The interval of each element of a value by the rule of its node; of its type without a
        rule.
        """
        known = lookup(value, self._facts)
        if known is not None and known.full and known.data.dtype.kind in "iufb":
            data = known.data.astype(np.float64)
            return Interval(data, data)
        assert value.dtype is not None
        # What the element type can hold is always true.
        widest = of_type(value)
        node = value.producer()
        if node is None:
            return widest
        rule, placed = bounds.of(node), positions.of(node)
        if placed is not None:
            index, size = placed(node)
            shape = _own_shape(value)
            own = Interval(np.zeros(shape), np.full(shape, max(size - 1.0, 0.0)))
            found = own if value is node.outputs[index] else None
        elif rearranged_places(node):
            found = self._moved(node, value)
        elif (places := gathers.of(node)) is not None:
            first = value is node.outputs[0]
            found = self._anywhere(places(node), node, value) if first else None
        elif rule is not None:
            # Large tensors have one interval for all elements, small ones an interval for each.
            wide = _is_by_element(node) and not _is_small(value)
            inputs = [_joined(self._of_any(v)) if wide else self.of(v) for v in node.inputs]
            with np.errstate(all="ignore"):
                found = _rounded(rule(node, inputs), value.dtype.numpy())
            found = _joined(found, len(shape_of(value))) if wide else found
        else:
            found = None
        return found or widest

    def _anywhere(self, places: Sequence[int], node: ir.Node, value: ir.Value) -> Interval | None:
        """The bounds of elements that come from places a run computes: those of all elements."""
        sources = [self._of_any(node.inputs[p]) for p in places]
        found = [i for i in sources if i is not None and i.low.size]
        if len(found) != len(places):
            return None
        shape = _own_shape(value)
        low = np.full(shape, min(i.low.min() for i in found))
        return Interval(low, np.full(shape, max(i.high.max() for i in found)))

    def _moved(self, node: ir.Node, value: ir.Value) -> Interval | None:
        """The interval behind a node that moves elements: it moves lower and upper ends alike."""
        places = rearranged_places(node)
        moved = [v for p in places if (v := node.inputs[p]) is not None]
        # Lower and upper ends are moved by the node itself: no rule can disagree with it.
        if not all(map(_is_small, [value, *moved])):
            return self._anywhere(places, node, value)
        lows: list[Array | None] = []
        highs: list[Array | None] = []
        for index, source in enumerate(node.inputs):
            if index in places:
                found = self.of(source)
                if found is None:
                    return None
                lows.append(found.low)
                highs.append(found.high)
            else:
                known = lookup(source, self._facts)
                if source is not None and (known is None or not known.full):
                    return self._anywhere(places, node, value)
                data = None if known is None else known.data
                lows.append(data)
                highs.append(data)
        at = list(node.outputs).index(value)
        try:
            return Interval(evaluate(node, lows)[at], evaluate(node, highs)[at])
        except (Unknown, Invalid):
            return None


def _is_small(value: ir.Value) -> bool:
    """Whether each element of a typed value has an interval of its own."""
    return is_typed(value) and prod(shape_of(value)) <= SMALL_ELEMENTS


def _own_shape(value: ir.Value) -> tuple[int, ...]:
    """The shape of the ends of the value's interval."""
    return shape_of(value) if _is_small(value) else (1,) * len(shape_of(value))


def _is_by_element(node: ir.Node) -> bool:
    """Whether the node has a rule for bounds and computes by element."""
    return bool(element_places(node)) and bounds.of(node) is not None


def _joined(found: Interval | None, rank: int = 0) -> Interval | None:
    """One interval, of `rank` axes, for all elements."""
    if found is None or not found.low.size:
        return None
    low, high = (np.full((1,) * rank, v) for v in (found.low.min(), found.high.max()))
    return Interval(low, high)


def of_type(value: ir.Value) -> Interval | None:
    """The interval of all numbers of the value's type; infinite for wide integers and floats."""
    kind, shape = dtype_of(value).numpy(), _own_shape(value)
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


def _rounded(found: Interval | None, kind: Any) -> Interval | None:
    """Bounds that hold when the run rounds the result to the type `kind`.

    10 * 0.7f is 6.99999988, and 7 as a float32: a bound between two numbers of the type is moved
    outwards to the next one. Nothing is known of types that NumPy has not.
    """
    if found is None or kind.kind in "iub":
        return found
    if kind.kind != "f":
        return None
    low, high = found.low.astype(kind), found.high.astype(kind)
    low = np.where(low == found.low, low, np.nextafter(low, kind.type(-inf)))
    high = np.where(high == found.high, high, np.nextafter(high, kind.type(inf)))
    return Interval(low.astype(np.float64), high.astype(np.float64))


def _unless_wrapped(found: Interval, widest: Interval) -> Interval:
    """Nothing is known of elements that may have left the range of their type."""
    inside = (found.low >= widest.low) & (found.high <= widest.high)
    inside &= (np.abs(found.low) < 2.0**53) & (np.abs(found.high) < 2.0**53)
    low = np.where(inside, found.low, widest.low)
    return Interval(low, np.where(inside, found.high, widest.high))


def given(inputs: Inputs) -> list[Interval] | None:
    """The bounds of all inputs, None if one has none."""
    found = [i for i in inputs if i is not None]
    return found if len(found) == len(inputs) and found else None


def wrapping(rule: Rule) -> Rule:
    """`rule`, computed in numbers without end, for integers that wrap around."""

    def wrapped(node: ir.Node, inputs: Inputs) -> Interval | None:
        """The interval of the rule, or all numbers of the type if an integer may wrap around."""
        found, widest = rule(node, inputs), of_type(node.outputs[0])
        return found if found is None or widest is None else _unless_wrapped(found, widest)

    return wrapped


def corners(function: Callable[[Array, Array], Array]) -> Rule:
    """For functions whose extremes over a box of inputs lie in its corners."""

    def rule(node: ir.Node, inputs: Inputs) -> Interval | None:
        """The least and the greatest result at the corners of the operands' intervals."""
        found = given(inputs)
        if found is None:
            return None
        total = found[0]
        for other in found[1:]:
            results = [
                function(a, b) for a in (total.low, total.high) for b in (other.low, other.high)
            ]
            # Infinity times 0: nothing is known then.
            if any(np.isnan(r).any() for r in results):
                return None
            total = Interval(np.minimum.reduce(results), np.maximum.reduce(results))
        return total

    return rule


def rising(function: Callable[..., Array]) -> Rule:
    """For functions that no larger input makes smaller."""

    def rule(node: ir.Node, inputs: Inputs) -> Interval | None:
        """The function at the lower and at the upper ends."""
        found = given(inputs)
        if found is None:
            return None
        return Interval(function(*(i.low for i in found)), function(*(i.high for i in found)))

    return rule


def approximated(function: Callable[..., Array], least: float = -inf) -> Rule:
    """For rising functions of one number, of which kernels compute the last digits differently.

    Nothing is known where the argument may be below `least`, where the function is not defined.
    """

    def rule(node: ir.Node, inputs: Inputs) -> Interval | None:
        """The function at both ends, a little wider, as machines round it differently."""
        found = inputs[0]
        if found is None or not (found.low >= least).all():
            return None
        low, high = function(found.low), function(found.high)
        return Interval(low - _slack(low), high + _slack(high))

    return rule


def _slack(x: Array) -> Array:
    """More than any kernel errs by, which is 2 ULP, and more than a few roundings of a sum."""
    return np.where(np.isfinite(x), np.abs(x) * 1e-5 + 1e-6, 0.0)


def in_steps(rule: Rule, parts: Callable[[ir.Node], int] = lambda _: 1) -> Rule:
    """`rule` for numbers that a kernel rounds several times, then divides by `parts`.

    Integers are not rounded.
    """

    def of_steps(node: ir.Node, inputs: Inputs) -> Interval | None:
        """The interval of the rule, wider for floats by the rounding of each step."""
        found, kind = rule(node, inputs), node.outputs[0].dtype
        if found is None or kind is None or kind.numpy().kind in "iu":
            return found
        low, high = found.low / parts(node), found.high / parts(node)
        return Interval(low - _slack(low), high + _slack(high))

    return of_steps
