# SPDX-License-Identifier: Apache-2.0
"""Proofs of claims about the places of elements, operands as a whole, and attributes.

A proof gets a record, one of its traits and one of its cases. It returns whether the case says
anything, and raises Counterexample where the claim is false. Its docstring is the rule.
"""

from __future__ import annotations

import numpy as np
from computed import (
    RNG,
    Array,
    Counterexample,
    compute,
    holds,
    is_same,
    node_of,
    same,
)

from aot.ir.operators import (
    AtLeast,
    AttributeRule,
    AxesOf,
    AxisOf,
    Commutative,
    DataSized,
    Elementwise,
    Exact,
    Moves,
    OneOf,
    Operator,
    Random,
)
from aot.shapes.evaluate import Invalid
from aot.shapes.reference import Unknown, by_reference
from aot.vendor.cases import Case


def broadcast(
    record: Operator, trait: Elementwise, case: Case
) -> tuple[list[int], tuple[int, ...]]:
    """The inputs that hold elements, and the shape that they have in common."""
    names = record.names(len(case.inputs))
    meant = trait.operands.split() or names
    places = [i for i, n in enumerate(names) if n in meant and case.inputs[i] is not None]
    held = [i for i in places if trait.broadcasts is None or names[i] not in trait.broadcasts]
    return places, np.broadcast_shapes(*(np.shape(case.inputs[i]) for i in held))


def elementwise(record: Operator, trait: Elementwise, one: Case) -> bool:
    """Exchanging the places of elements exchanges those of the result and nothing else."""
    places, shape = broadcast(record, trait, one)
    want = compute(record, one.inputs, one.attrs)
    holds(want.shape == shape, f"the result is {list(want.shape)}, its operands {list(shape)}")
    order = RNG.permutation(want.size)
    inputs = list(one.inputs)
    for i in places:
        spread = np.broadcast_to(np.asarray(inputs[i]), shape)
        inputs[i] = spread.reshape(-1)[order].reshape(shape)
    got = compute(record, inputs, one.attrs)
    return same(got, want.reshape(-1)[order].reshape(shape))


def commutative(record: Operator, trait: Commutative, one: Case) -> bool:
    """Operands that are exchanged have the same result.

    They are spread to one shape first: onnx.reference's Mean refuses a smaller first one.
    """
    if len(one.inputs) != 2:
        return False
    left, right = (a.copy() for a in np.broadcast_arrays(*one.inputs))
    want = compute(record, (left, right), one.attrs)
    return same(compute(record, (right, left), one.attrs), want)


def random(record: Operator, trait: Random, one: Case) -> bool:
    """Without a seed, two runs on the same inputs differ."""
    first, second = (compute(record, one.inputs, one.attrs) for _ in range(2))
    return holds(not is_same(first, second), "two runs have the same result")


def pure(record: Operator, one: Case) -> bool:
    """Without the trait Random, two runs on the same inputs have the same result."""
    first, second = (compute(record, one.inputs, one.attrs) for _ in range(2))
    return same(second, first, 0)


def recoded(trait: Moves, data: list[Array], kept: Array) -> dict[int, Array]:
    """Other values for those of the arrays, each for each: in the same order where that counts.

    Values of `kept` stay, for a node may put them in by itself.
    """
    old = np.unique(np.concatenate([d.reshape(-1) for d in data] + [kept]))
    if trait.by == "order":
        new = np.arange(old.size).astype(old.dtype)
    else:
        new = old[RNG.permutation(old.size)]
        for value in kept:
            there, here = np.flatnonzero(new == value), np.flatnonzero(old == value)
            new[there], new[here] = new[here].copy(), value
    found = {i: np.asarray(new[np.searchsorted(old, d)]) for i, d in enumerate(data)}
    return {**found, -1: new, -2: old}


def moves(record: Operator, trait: Moves, one: Case) -> bool:
    """Other values of the operands are the other values of the result."""
    names = record.names(len(one.inputs))
    meant = trait.operands.split() or names
    places = [i for i, n in enumerate(names) if n in meant and one.inputs[i] is not None]
    data = [np.asarray(one.inputs[i]) for i in places]
    known = all(d.dtype.kind in "fiu" and d.dtype.itemsize > 1 and d.size for d in data)
    if not known or any(np.isnan(d).any() for d in data):
        return False
    if trait.when and not trait.when(node_of(record, one.inputs, one.attrs)):
        return False
    fill = dict(zip(names, one.inputs, strict=True)).get(trait.fills)
    kept = np.zeros(1) if fill is None else np.reshape(fill, (1,))
    table = recoded(trait, data, kept[: 1 if trait.fills else 0].astype(data[0].dtype))
    old, new = table[-2], table[-1]
    inputs = list(one.inputs)
    for i, place in enumerate(places):
        inputs[place] = table[i]
    want = compute(record, one.inputs, one.attrs)
    at = np.minimum(np.searchsorted(old, want), old.size - 1)
    holds(want.dtype == old.dtype, f"the result is {want.dtype}, its operands {old.dtype}")
    if (old[at] != want).any():
        raise Counterexample(f"the result has {want[old[at] != want][0]}, which no operand has")
    return same(compute(record, inputs, one.attrs), new[at])


def exact(record: Operator, trait: Exact, one: Case) -> bool:
    """onnx.reference computes the operator, and finds the result that the case expects."""
    holds(not record.domain, f"onnx.reference has no operators of {record.domain}")
    inputs = [None if a is None else np.asarray(a) for a in one.inputs]
    if trait.when is not None and not trait.when(node_of(record, inputs, one.attrs), inputs):
        return False
    try:
        found = by_reference(node_of(record, inputs, one.attrs), inputs)[0]
    except Unknown as error:
        raise Counterexample(f"onnx.reference refuses it: {error}") from None
    return not one.expected or same(found, np.asarray(one.expected[0]), one.rtol, one.atol)


def data_sized(record: Operator, trait: DataSized, one: Case) -> bool:
    """Some other elements of the operands have a result of another size."""
    want = compute(record, one.inputs, one.attrs)
    for change in (more, np.zeros_like):
        others = [None if a is None else change(np.asarray(a)) for a in one.inputs]
        try:
            if compute(record, others, one.attrs).shape != want.shape:
                return True
        except (ValueError, IndexError, ZeroDivisionError, Invalid):  # no numbers for the operator
            continue
    return False


def more(array: Array) -> Array:
    """Elements that are one more, of another truth value, or a word longer."""
    if array.dtype.kind == "b":
        return ~array
    return array + (" more" if array.dtype.kind == "O" else array.dtype.type(1))


def axes_of(record: Operator, trait: AxesOf, one: Case) -> bool:
    """An axis counted from the end is the same axis."""
    names = record.names(len(one.inputs))
    given = dict(zip(names, one.inputs, strict=True))
    lists, rank = given.get(trait.lists), np.ndim(given[trait.data])
    if lists is None or not np.size(lists):
        return False
    turned = np.where(lists < 0, lists + rank, lists - rank)
    inputs = [turned if n == trait.lists else a for n, a in given.items()]
    return same(compute(record, inputs, one.attrs), compute(record, one.inputs, one.attrs))


def attribute(record: Operator, name: str, rule: AttributeRule, one: Case) -> bool:
    """The default is the meaning of a missing attribute; an axis may be counted from the end."""
    value = one.attrs.get(name, rule.default)
    if value is None or (not isinstance(rule, AxisOf) and name in one.attrs):
        return False
    want = compute(record, one.inputs, one.attrs)
    if isinstance(rule, OneOf | AtLeast):
        return same(compute(record, one.inputs, one.attrs | {name: value}), want)
    rank = np.ndim(one.inputs[record.names(len(one.inputs)).index(rule.operand)])
    if rule.end and value == rank:
        return False
    turned = value + rank if value < 0 else value - rank
    others = {turned, value} if name not in one.attrs else {turned}
    return all([same(compute(record, one.inputs, one.attrs | {name: v}), want) for v in others])
