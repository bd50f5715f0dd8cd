# SPDX-License-Identifier: Apache-2.0
"""What small integers are in terms of sizes: polynomials, so that equal ones are recognised.

k = Shape(x)[1] * 2 - 2;  j = 2 * (n - 1)       both are 2n - 2, where n is the size of axis 1

What is no sum of products is an atom: a size, floor(p / c) for a polynomial p and a number c,
min and max of two polynomials, an element of a value about which nothing is known.

The modules of `aot/ops` say how operators compute (`polynomials`); operators that move elements
move their polynomials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from math import inf, prod

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array, is_typed, shape_of
from aot.ir.operators import Interface, rearranged_places
from aot.shapes.evaluate import Invalid, evaluate
from aot.shapes.interval_analysis import Bounds
from aot.shapes.partial_values import PartialValues, lookup, operands_first
from aot.shapes.reference import Unknown

Monomial = tuple[int, ...]
Poly = tuple[tuple[Monomial, int], ...]
"""Sorted pairs (sorted numbers of atoms, coefficient that is not 0)."""

#: Vectors of sizes are this short; more elements are data.
MOST_ELEMENTS = 64


def number(value: int) -> Poly:
    """A constant."""
    return (((), value),) if value else ()


def add(a: Poly, b: Poly, times: int = 1) -> Poly:
    """a + times * b."""
    found = dict(a)
    for monomial, factor in b:
        found[monomial] = found.get(monomial, 0) + times * factor
    return tuple(sorted((m, f) for m, f in found.items() if f))


def multiply(a: Poly, b: Poly) -> Poly:
    """a * b."""
    found: dict[Monomial, int] = {}
    for m, f in a:
        for n, g in b:
            key = tuple(sorted((*m, *n)))
            found[key] = found.get(key, 0) + f * g
    return tuple(sorted((m, f) for m, f in found.items() if f))


def constant(a: Poly) -> int | None:
    """The number a polynomial is, None if it has atoms."""
    if not a:
        return 0
    return a[0][1] if len(a) == 1 and a[0][0] == () else None


def divided_by(top: Poly, by: Poly) -> Poly | None:
    """The polynomial p with top == p * by, None if there is none."""
    if not by:
        return None
    found: Poly = ()
    gone, factor = max(by, key=_rank)
    while top:
        monomial, f = max(top, key=_rank)
        rest = Counter(monomial)
        rest.subtract(gone)
        if f % factor or min(rest.values(), default=0) < 0:
            return None
        term: Poly = ((tuple(sorted(rest.elements())), f // factor),)
        found, top = add(found, term), add(top, multiply(by, term), -1)
    return found


def _rank(term: tuple[Monomial, int]) -> tuple[int, list[int]]:
    """Monomials by degree, then by their atoms: products keep this order."""
    return len(term[0]), [-a for a in term[0]]


class Terms:
    """The polynomials of the values of one graph, found on demand."""

    def __init__(self, partial_values: PartialValues, bounds: Bounds) -> None:
        """Start without polynomials; values known in part and intervals settle some of them."""
        self._facts = partial_values
        self._bounds = bounds
        self._found: dict[ir.Value, list[Poly]] = {}
        self._atoms: dict[Hashable, int] = {}
        self._polys: list[Poly] = []
        self._numbers: dict[Poly, int] = {}

    def of(self, value: ir.Value) -> list[Poly]:
        """The polynomials of a value's elements in order; atoms where nothing is known."""
        for each in operands_first(value, self._is_open):
            if each not in self._found:
                found = self._find(each)
                self._found[each] = self._own(each) if found is None else found
        return self._found[value]

    def _is_open(self, value: ir.Value) -> bool:
        """Whether the polynomials of a small typed value are still to be found."""
        most = 16 * MOST_ELEMENTS
        return value not in self._found and is_typed(value) and prod(shape_of(value)) <= most

    def atom(self, *key: Hashable) -> Poly:
        """The polynomial that is one atom, a number that nothing is known of but that `key` makes
        it.

        Keys: ("value", value, index) is an element, ("quotient", a, b, whether integers are
        divided) of polynomials, ("floor", polynomial, number) a quotient rounded down.
        """
        return (((self._atoms.setdefault(key, len(self._atoms)),), 1),)

    def follows(self, poly: Poly, known: Collection[ir.Value]) -> bool:
        """Whether all atoms of `poly` are of `known` values."""
        keys = list(self._atoms)
        return all(self._rests(keys[a], known) for monomial, _ in poly for a in monomial)

    def _rests(self, key: Hashable, known: Collection[ir.Value]) -> bool:
        """Whether the atom `key` depends on values of `known` alone."""
        assert isinstance(key, tuple)
        if key[0] == "value":
            return key[1] in known
        return all(self.follows(p, known) for p in key[1:] if isinstance(p, tuple))

    def equal(self, left: ir.Value, right: ir.Value) -> bool:
        """Whether two values are the same whatever the sizes."""
        return self.of(left) == self.of(right)

    def _own(self, value: ir.Value) -> list[Poly]:
        """A polynomial per element of `value`: its number if that is known, else an atom of its
        own.
        """
        known = lookup(value, self._facts)
        items = known.items() if known is not None and known.data.dtype.kind in "iu" else None
        count = prod(shape_of(value)) if is_typed(value) else 1
        found = [self.atom("value", value, i) for i in range(count)]
        if items is not None and len(items) == count:
            found = [a if i is None else number(i) for a, i in zip(found, items, strict=True)]
        return found

    def _find(self, value: ir.Value) -> list[Poly] | None:
        """A polynomial per element of a value by its node; None without a rule or for fractions."""
        if not is_typed(value) or value.dtype is None:
            return None
        if prod(shape_of(value)) > MOST_ELEMENTS or value.dtype.numpy().kind not in "iuf":
            return None
        known = lookup(value, self._facts)
        if known is not None and known.full:
            whole = np.isfinite(known.data).all() and (np.floor(known.data) == known.data).all()
            return [number(int(v)) for v in known.data.ravel()] if whole else None
        node = value.producer()
        if node is None:
            return None
        if rearranged_places(node):
            return self._moved(node, value)
        rule = polynomials.of(node)
        return None if rule is None else rule(self, node)

    def _moved(self, node: ir.Node, value: ir.Value) -> list[Poly] | None:
        """The polynomials behind a node that moves elements: it moves their numbers."""
        places = rearranged_places(node)
        inputs: list[Array | None] = []
        for index, source in enumerate(node.inputs):
            if source is None:
                inputs.append(None)
            elif index in places:
                # Large tensors hold data, not sizes, and moving them would take long.
                if not is_typed(source) or prod(shape_of(source)) > 16 * MOST_ELEMENTS:
                    return None
                codes = [self._code(p) for p in self.of(source)]
                inputs.append(np.array(codes, np.int64).reshape(shape_of(source)))
            else:
                known = lookup(source, self._facts)
                if known is None or not known.full:
                    return None
                inputs.append(known.data)
        try:
            result = evaluate(node, inputs)[list(node.outputs).index(value)]
        except (Unknown, Invalid):
            return None
        return [self._polys[int(c)] for c in result.ravel()]

    def _code(self, poly: Poly) -> int:
        """The number of a polynomial, a new one at its first mention."""
        if poly not in self._numbers:
            self._numbers[poly] = len(self._polys)
            self._polys.append(poly)
        return self._numbers[poly]

    def operands(self, node: ir.Node) -> list[list[Poly]] | None:
        """The polynomials of all inputs, broadcast to the output's elements."""
        found = []
        for value in node.inputs:
            if value is None or not is_typed(value):
                return None
            found.append(self.spread(value, shape_of(node.outputs[0])))
        return found

    def spread(self, value: ir.Value, shape: tuple[int, ...]) -> list[Poly]:
        """The polynomials of a typed value's elements, broadcast to `shape`."""
        numbers = [self._code(p) for p in self.of(value)]
        own = np.array(numbers, np.int64).reshape(shape_of(value))
        return [self._polys[int(n)] for n in np.broadcast_to(own, shape).ravel()]

    def limits(self, value: ir.Value | None, shape: tuple[int, ...]) -> tuple[Array, Array] | None:
        """The bounds of a value's elements, broadcast and in order."""
        found = self._bounds.of(value)
        if found is None:
            return None
        low, high = np.broadcast_to(found.low, shape), np.broadcast_to(found.high, shape)
        return low.ravel(), high.ravel()

    def range_of(self, poly: Poly) -> tuple[float, float]:
        """The least and the largest that `poly` can be, infinite where nothing is known.

        It is narrower than the operands' bounds give where atoms cancel: (n + 1) - n is 1.
        """
        low = high = 0.0
        for monomial, factor in poly:
            ends = np.array([float(factor)])
            for atom in monomial:
                ends = np.outer(ends, self._ends(atom)).ravel()
            if np.isnan(ends).any():
                return -inf, inf
            low, high = low + float(ends.min()), high + float(ends.max())
        return low, high

    def _ends(self, atom: int) -> tuple[float, float]:
        """The least and the greatest value of an atom."""
        key = list(self._atoms)[atom]
        assert isinstance(key, tuple)
        if key[0] == "value" and (found := self._bounds.of(key[1])) is not None:
            return float(found.low.ravel()[key[2]]), float(found.high.ravel()[key[2]])
        if key[0] in ("min", "max"):
            sides = [self.range_of(p) for p in key[1:]]
            lows, highs = zip(*sides, strict=True)
            return (min(lows), min(highs)) if key[0] == "min" else (max(lows), max(highs))
        if key[0] == "floor":
            low, high = self.range_of(key[1])
            return low // key[2], high // key[2]
        return -inf, inf

    def text(self, poly: Poly, names: Mapping[ir.Value, str]) -> str:
        """A polynomial of the degree 1 as text ("n + 2*m + 1"), "" if an atom has no name."""
        keys, parts = list(self._atoms), []
        for monomial, factor in poly:
            key = keys[monomial[0]] if monomial else None
            assert key is None or isinstance(key, tuple)
            name = "" if key is None or key[0] != "value" else names.get(key[1], "")
            if len(monomial) > 1 or (monomial and not name):
                return ""
            parts.append(str(factor) if not name else name if factor == 1 else f"{factor}*{name}")
        return " + ".join(parts) or "0"

    def divided(self, top: Poly, by: int) -> Poly:
        """floor(top / by)."""
        whole = tuple((m, f // by) for m, f in top if f // by)
        rest = tuple((m, f % by) for m, f in top if f % by)
        fixed = constant(rest)
        if fixed is not None:  # below `by`
            return whole
        return add(whole, self.atom("floor", rest, by))

    def is_whole(self, poly: Poly) -> bool:
        """Whether `poly`, the value of a float, is an integer; all coefficients are.

        False if an atom may be a fraction: a `quotient` that is no division of integers, or
        an element of a value of a floating-point type.
        """
        keys = list(self._atoms)
        for monomial, _ in poly:
            for atom in monomial:
                key = keys[atom]
                assert isinstance(key, tuple)
                if key[0] == "quotient" and not key[3]:
                    return False
                if key[0] == "value" and key[1].dtype.numpy().kind == "f":
                    return False
        return True


Rule = Callable[[Terms, "ir.Node"], list[Poly] | None]

#: The polynomials of the elements of a node's first output, in order; None where nothing is known.
polynomials: Interface[Rule] = Interface("polynomials")


def combined(step: Callable[[Poly, Poly], Poly]) -> Rule:
    """For operators that combine the elements of all operands, one after the other."""

    def rule(terms: Terms, node: ir.Node) -> list[Poly] | None:
        """The polynomials of all operands joined element by element; None if one has none."""
        parts = terms.operands(node)
        if parts is None:
            return None
        total = parts[0]
        for other in parts[1:]:
            total = [step(a, b) for a, b in zip(total, other, strict=True)]
        return total

    return rule


def total(step: Callable[[Poly, Poly], Poly], start: Poly) -> Rule:
    """For reductions of a whole value to one element."""

    def rule(terms: Terms, node: ir.Node) -> list[Poly] | None:
        """The polynomial of the one element of the result; None if it has several."""
        source = node.inputs[0]
        if source is None or prod(shape_of(node.outputs[0])) != 1:
            return None
        found = start
        for part in terms.of(source):
            found = step(found, part)
        return [found]

    return rule


def rounded(terms: Terms, node: ir.Node) -> list[Poly] | None:
    """The polynomials of the result's elements for Floor, Ceil and Round, in row-major order.

    They are those of the operand if every element is surely an integer. None, that is nothing
    known, if an element may be a fraction or if the operand is absent or empty.
    """
    source = node.inputs[0]
    own = [] if source is None else terms.of(source)
    return own if own and all(terms.is_whole(p) for p in own) else None
