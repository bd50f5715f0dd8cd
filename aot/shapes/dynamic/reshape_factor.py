# SPDX-License-Identifier: Apache-2.0
"""Reshape of the padded form: axes regrouped so that padding stays padding, or elements packed
anew.

[b, s, 384] -> [b, s, 12, 32]      b | s | 384 = 12 * 32: every group has one dynamic axis at most,
                                   at its beginning, on both sides
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import DYNAMIC, original_name, shape_of
from aot.shapes.dynamic.dims import INT64, Axes, DynamicDims, no_bound
from aot.shapes.dynamic.equality_constraints import require_equal
from aot.shapes.dynamic.rows import whole_numbers
from aot.shapes.dynamic.rules import BOOL_TYPE, items_of, total_of
from aot.shapes.partial_values import lookup
from aot.shapes.symbolic import Poly, constant, divided_by, multiply, number

MOST_TIMES, MOST = 64, 1 << 16
"""A bound may have this many times the elements there are, or this many."""


@dataclass(frozen=True, slots=True)
class Side:
    """Axes of a shape as polynomials; numbers of the dynamic ones."""

    dims: Sequence[Poly]
    dynamic: frozenset[int]

    def fixed(self, axes: Sequence[int]) -> int:
        """The product of the static axes among `axes`."""
        return prod(constant(self.dims[a]) or 0 for a in axes if a not in self.dynamic)

    def leads(self, axes: Sequence[int]) -> int | None:
        """The one dynamic axis of a group, which nothing but ones precede; None otherwise."""
        moving = [a for a in axes if a in self.dynamic]
        if len(moving) != 1:
            return None
        before = axes[: list(axes).index(moving[0])]
        return moving[0] if self.fixed(before) == 1 else None


def regrouped(x: DynamicDims, node: ir.Node, data: ir.Value, target: ir.Value, zero: bool) -> bool:
    """Replace a Reshape by one at the bound where every group allows it; else nothing is done.

    `zero`: an element 0 of `target` copies the size of the axis.
    """
    before = Side([x.terms.of(x.dim(node, data, a))[0] for a in _axes(data)], _dynamic(x, data))
    after = _wanted(x, target, before, zero)
    groups = None if after is None else _groups(before, after)
    if after is None or groups is None:
        return False
    shape, result, found = shape_of(data), [0] * len(after.dims), {}
    for left, right in groups:
        for axis in right:
            if axis not in after.dynamic:
                result[axis] = constant(after.dims[axis]) or 0
        if not any(a in before.dynamic for a in left) and not any(
            b in after.dynamic for b in right
        ):
            continue
        a, b = before.leads(left), after.leads(right)
        if a is None or b is None:
            return False
        inner, outer = before.fixed(left), after.fixed(right)
        # The dynamic axis takes what its group leaves, so the sizes beside it must divide its
        # bound.
        if outer == 0 or shape[a] * inner % outer:
            return False
        result[b] = shape[a] * inner // outer
        if inner % outer == 0:
            found[b] = (a, inner // outer)
        elif _item(x, target, b) is None:
            found[b] = (-1, 0)
        else:
            return False
    # All groups are settled before anything is replaced.
    _replace(x, node, data, target, result, found)
    return True


def _axes(value: ir.Value) -> range:
    return range(len(shape_of(value)))


def _dynamic(x: DynamicDims, value: ir.Value) -> frozenset[int]:
    """The numbers (0 to rank - 1) of the axes of `value` whose size only a run decides."""
    return frozenset(x.run_sizes(value))


def _item(x: DynamicDims, target: ir.Value, index: int) -> int | None:
    """Element `index` of the shape `target` if it is known, else None."""
    known = lookup(target, x.sweep.partial_values)
    return None if known is None else known.items()[index]


def _wanted(x: DynamicDims, target: ir.Value, before: Side, zero: bool) -> Side | None:
    """The axes that a Reshape gives, its -1 worked out; None where that is no polynomial."""
    dims: list[Poly] = list(x.terms.of(target))
    open_: list[int] = []
    for i, dim in enumerate(dims):
        item = constant(dim)
        if item == 0 and zero and i < len(before.dims):
            dims[i] = before.dims[i]
        elif item == -1:
            open_.append(i)
        elif item is None and not _counts(x, target, i):
            return None
    # A -1 is what is left of all elements, where that can be said as a polynomial.
    total = _times(before.dims)
    rest = _times([d for i, d in enumerate(dims) if i not in open_])
    if len(open_) > 1:
        return None
    if open_:
        left = divided_by(total, rest)
        if left is None:
            return None
        dims[open_[0]] = left
    elif total != rest:
        return None
    return Side(dims, frozenset(i for i, d in enumerate(dims) if constant(d) is None))


def _counts(x: DynamicDims, target: ir.Value, index: int) -> bool:
    """Whether an element of a shape is surely no -1 and no 0 that copies: it is a size."""
    limits = x.interval(target)
    return limits is not None and limits.low[index] >= 0


def _times(dims: Sequence[Poly]) -> Poly:
    """The product of polynomials."""
    total = number(1)
    for dim in dims:
        total = multiply(total, dim)
    return total


def _point(poly: Poly) -> int:
    """The polynomial where every atom is another large number: only says what to take next."""
    return sum(f * prod(1_000_003 + 7_919 * a for a in monomial) for monomial, f in poly)


def _groups(before: Side, after: Side) -> list[tuple[list[int], list[int]]] | None:
    """The shortest runs of axes with equal products on both sides, as (axes before, axes after).

    None if the products never meet.
    """
    found = []
    i = j = 0
    while i < len(before.dims) or j < len(after.dims):
        left, right = [], []
        p = q = number(1)
        while True:
            # The side with the smaller product goes on, so that the runs end as early as they can.
            if (_point(p) <= _point(q) or j == len(after.dims)) and i < len(before.dims):
                p = multiply(p, before.dims[i])
                left.append(i)
                i += 1
            elif j < len(after.dims):
                q = multiply(q, after.dims[j])
                right.append(j)
                j += 1
            else:
                return None
            if p == q and (left or right):
                break
            # A product of 0 never meets another one again.
            if not p or not q:
                return None
        found.append((left, right))
    return found


def _replace(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    target: ir.Value,
    result: Sequence[int],
    found: dict[int, tuple[int, int]],
) -> None:
    """Replace a Reshape by one to the bounds `result`.

    `found` has, by axis of the result, (axis of the data, factor); -1 is an axis whose size
    `target` says.
    """
    own, axes = x.run_sizes(data), Axes()
    for b, (a, times) in found.items():
        if a < 0:
            axes[b] = x.new(x.at(node, target, b), result[b])
        elif times == 1:
            axes[b] = own[a]
        else:
            axes[b] = x.new(x.mul(node, own[a], x.ints(node, [times])), result[b])
    where = x.ints(node, result)
    y = x.node(node, "Reshape", [data, where], [(int(data.dtype or 0), tuple(result))])[0]
    x.substitute(node, y, axes)


def reshape_to(
    x: DynamicDims, node: ir.Node, data: ir.Value, target: ir.Value, zero: bool = False
) -> None:
    """Replace `node` by `data` in the shape `target`; `zero` copies sizes as Reshape does."""
    if not regrouped(x, node, data, target, zero):
        _repacked(x, node, data, target, zero)


def _repacked(x: DynamicDims, node: ir.Node, data: ir.Value, target: ir.Value, zero: bool) -> None:
    """Replace a Reshape by all elements in a row, spread to the new bounds; KnownLate without a
    bound.

    `zero` says whether 0 in `target` keeps the size of the data.
    """
    shape = shape_of(data)
    count, rank = prod(shape), shape_of(target)[0]
    items = items_of(x, target)
    wanted = whole_numbers(x, node, target)
    total = total_of(x, node, data)
    _all_of(x, node, data, items, total, zero)
    if zero:
        own = [x.dim(node, data, a) for a in range(len(shape))][:rank]
        own += [x.ints(node, [0])] * (rank - len(own))
        # A 0 copies the size of the axis at the same place.
        wanted = _where(x, node, "Equal", wanted, x.joined(node, own) if own else wanted, wanted)
    one = x.ints(node, [1] * rank)
    rest = _where(x, node, "Less", wanted, one, wanted)
    product = x.node(node, "ReduceProd", [rest, x.ints(node, [0])], [(INT64, (1,))], keepdims=1)[0]
    # The -1 gets the elements that the other sizes leave.
    left = x.div(node, total, x.largest(node, product, x.ints(node, [1])))
    wanted = _where(x, node, "Less", wanted, left, wanted)
    fixed = prod(
        i for k, i in enumerate(items) if i is not None and i > 0 and not (i == 0 and k >= 0)
    )
    result, axes = [], {}
    for i, item in enumerate(items):
        if item == 0 and zero and i < len(shape) and i not in x.run_sizes(data):
            item = shape[i]
        if item is not None and item >= 0 and not (item == 0 and zero):
            result.append(item)
            continue
        high = x.run_sizes(data) and item == 0 and shape[i]
        bound = int(high) if high else count // max(fixed, 1)
        limits = x.interval(target) if item is None else None
        if limits is not None and limits.low[i] > 0:
            bound = int(min(float(bound), float(limits.high[i])))
        # Without elements one size is 0, which says nothing of the others.
        if not count and item is None:
            raise no_bound(node, f'"{original_name(target)}" can be any shape without elements')
        result.append(bound)
        axes[i] = x.new(x.at(node, wanted, i), bound)
    # A bound far above the data would take memory for nothing.
    if prod(result) > max(MOST_TIMES * count, MOST):
        raise no_bound(node, f'"{original_name(target)}" can be any shape of {count} elements')
    kind = int(data.dtype or 0)
    parts = x.flat(node, data)
    y = x.node(node, "Spread", [parts, wanted], [(kind, tuple(result))], DYNAMIC)[0]
    x.substitute(node, y, axes)


def _all_of(
    x: DynamicDims,
    node: ir.Node,
    data: ir.Value,
    items: Sequence[int | None],
    total: ir.Value,
    zero: bool,
) -> None:
    """Let every run compare the number of elements with that of the new shape, where `items` settle
    it.
    """
    if None in items or not x.said(total):
        return
    product = x.ints(node, [prod(i for i in items if i is not None and i > 0)])
    for i, item in enumerate(items):
        if item == 0:
            own = x.dim(node, data, i) if zero and i < len(shape_of(data)) else x.ints(node, [0])
            product = x.mul(node, product, own)
    if -1 in items:
        divisor = x.largest(node, product, x.ints(node, [1]))
        product = x.mul(node, x.div(node, total, divisor), product)
    require_equal(x, node, total, product, "is not of as many elements")


def _where(
    x: DynamicDims, node: ir.Node, test: str, wanted: ir.Value, yes: ir.Value, no: ir.Value
) -> ir.Value:
    """`yes` where an element of `wanted` is 0 (Equal) or negative (Less), else `no`."""
    rank = shape_of(wanted)
    zero = x.ints(node, [0])
    chosen = x.node(node, test, [wanted, zero], [(BOOL_TYPE, rank)])[0]
    return x.node(node, "Where", [chosen, yes, no], [(INT64, rank)])[0]
