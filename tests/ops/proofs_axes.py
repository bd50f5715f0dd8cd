# SPDX-License-Identifier: Apache-2.0
"""Proofs of claims about axes, as those of `proofs_places`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from computed import RNG, Array, close, compute, holds, like, node_of, same

from aot.ir.operators import Along, Linear, Operator, Reduces, Rowwise, SizedBy, View, Window
from aot.vendor.cases import Case


def number(dtype: np.dtype[Any], value: float) -> float:
    """`value`, or the number of the type that stands for an infinite one."""
    if np.isfinite(value) or dtype.kind == "f":
        return value
    if dtype.kind == "b":
        return value > 0
    return int(np.iinfo(dtype).max if value > 0 else np.iinfo(dtype).min)


def longer(data: Array, axes: Sequence[int], value: float) -> Array:
    """An array with two more elements, all `value`, at the end of every axis."""
    for axis in axes:
        shape = list(data.shape)
        shape[axis] = 2
        more = np.full(shape, number(data.dtype, value), data.dtype)
        data = np.concatenate([data, more], axis)
    return data


def along(record: Operator, trait: Along, one: Case) -> bool:
    """A longer line has the same results in front; slices beside it do not matter."""
    data, rest = np.asarray(one.inputs[0]), one.inputs[1:]
    axis = one.attrs.get(trait.axis, record.attributes[trait.axis].default)
    if not data.ndim or data.size < 2:
        return False
    want = compute(record, one.inputs, one.attrs)
    got = compute(record, (longer(data, [axis], trait.padding), *rest), one.attrs)
    same(np.take(got, range(data.shape[axis]), axis), want)
    for other in {a for a in range(data.ndim) if a != axis % data.ndim}:
        order = RNG.permutation(data.shape[other])
        moved = compute(record, (np.take(data, order, other), *rest), one.attrs)
        same(moved, np.take(want, order, other))
    return True


def reduced(record: Operator, trait: Reduces, one: Case) -> list[int]:
    """The axes that a case reduces."""
    rank = np.ndim(one.inputs[0])
    if not trait.axes:
        return list(range(2, rank))
    if trait.axes in record.attributes:
        return [one.attrs.get(trait.axes, record.attributes[trait.axes].default)]
    place = record.names(2).index(trait.axes)
    given = one.inputs[place] if len(one.inputs) > place else None
    if given is None or not np.size(given):
        return [] if one.attrs.get("noop_with_empty_axes") else list(range(rank))
    return [int(a) for a in given]


def reduces(record: Operator, trait: Reduces, one: Case) -> bool:
    """Neutral elements more change nothing."""
    if trait.when is not None and not trait.when(node_of(record, one.inputs, one.attrs)):
        return False
    data, rest = np.asarray(one.inputs[0]), one.inputs[1:]
    axes = reduced(record, trait, one)
    if not axes:
        return False
    want = compute(record, one.inputs, one.attrs)
    more = compute(record, (longer(data, axes, trait.neutral), *rest), one.attrs)
    return close(more, want)


def window(record: Operator, trait: Window, one: Case) -> bool:
    """Elements added beyond the ends are what the window finds there; a shift shifts the result.

    Channels, where they are computed alone, may change places.
    """
    names = record.names(len(one.inputs))
    place = names.index(trait.operand)
    data, attrs = np.asarray(one.inputs[place]), dict(one.attrs)
    if attrs.get("ceil_mode") or attrs.get("auto_pad", "NOTSET") != "NOTSET" or not data.size:
        return False
    rank = data.ndim - 2
    pads = attrs.pop("pads", None) or [0] * (2 * rank)
    steps = attrs.get("strides") or [1] * rank

    def of(array: Array, ends: list[int]) -> Array:
        inputs = [array if i == place else a for i, a in enumerate(one.inputs)]
        return compute(record, inputs, attrs | {"pads": ends})

    want = of(data, pads)
    if trait.padding is not None:
        fill = trait.padding
        if isinstance(fill, str):
            fill = float(one.inputs[names.index(fill)] if fill in names else 0)
        ends = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
        full = np.pad(data, ends, constant_values=number(data.dtype, fill))
        close(want, of(full, [0] * (2 * rank)))
    else:
        full = data
        want = of(data, [0] * (2 * rank))
    shifted = np.take(full, range(steps[0], full.shape[2]), 2)
    if want.size and want.shape[2] > 1:
        behind = np.take(want, range(1, want.shape[2]), 2)
        close(of(shifted, [0] * (2 * rank)), behind)
    if trait.per_channel:
        order = RNG.permutation(data.shape[1])
        close(of(np.take(full, order, 1), [0] * (2 * rank)), np.take(want, order, 1))
    return True


def linear(record: Operator, trait: Linear, one: Case) -> bool:
    """f(x + y) = f(x) + f(y) of data and of weights; scales and biases of output channels."""
    names = record.names(len(one.inputs))
    places = names.index(trait.data), names.index(trait.weights)
    data, weights = (np.asarray(one.inputs[i]) for i in places)
    if data.dtype.kind != "f" or not data.size or not weights.size:
        return False

    def of(x: Array, w: Array, b: Array | None = None) -> Array:
        known = {trait.data: x, trait.weights: w, trait.bias: b}
        pairs = zip(names, one.inputs, strict=True)
        inputs = [known.get(n, a) for n, a in pairs]
        return compute(record, inputs, one.attrs)

    x, y, v, w = like(data), like(data), like(weights), like(weights)
    want = of(x, w)
    close(of(x + y, w), want + of(y, w))
    close(of(x, v + w), of(x, v) + want)
    axis = trait.out_axis % w.ndim
    axis = 1 - axis if one.attrs.get(trait.transposed) else axis
    groups = int(one.attrs.get(trait.groups, 1)) if axis else 1
    factors = RNG.integers(1, 5, w.shape[axis]).astype(w.dtype)
    shape = [1] * w.ndim
    shape[axis] = -1
    if w.ndim > 1:
        spread = [1] * want.ndim
        spread[trait.result_axis] = -1
        scaled = want * np.tile(factors, groups).reshape(spread)
        close(of(x, w * factors.reshape(shape)), scaled)
        if trait.bias in names:
            channels = want.shape[trait.result_axis]
            b = RNG.standard_normal(channels).astype(w.dtype)
            by = float(one.attrs.get("beta", 1))
            close(of(x, w, b), want + by * b.reshape(spread))
    return True


def rowwise(record: Operator, trait: Rowwise, one: Case) -> bool:
    """Rows that change places change those of the results, and each alone has the same result."""
    data = np.asarray(one.inputs[0])
    first = -1
    if trait.axis:
        first = one.attrs.get(trait.axis, record.attributes[trait.axis].default)
    if first % max(1, data.ndim) == 0:
        return False
    want = compute(record, one.inputs, one.attrs)
    for axis in range(first % data.ndim):
        for rows in (RNG.permutation(data.shape[axis]), [data.shape[axis] - 1]):
            inputs = [
                np.take(a, rows, axis) if a is not None and a.ndim == data.ndim else a
                for a in one.inputs
            ]
            moved = compute(record, inputs, one.attrs)
            close(moved, np.take(want, rows, axis))
    return True


def sized_by(record: Operator, trait: SizedBy, one: Case) -> bool:
    """Other elements of other operands leave the shape of the result as it is."""
    names, meant = record.names(len(one.inputs)), trait.operands.split()
    places = [i for i, n in enumerate(names) if n not in meant and one.inputs[i] is not None]
    want = compute(record, one.inputs, one.attrs)
    inputs = [
        like(a) if i in places and a.dtype.kind in "fiu" else a for i, a in enumerate(one.inputs)
    ]
    shape = compute(record, inputs, one.attrs).shape
    return holds(shape == want.shape, f"other elements: {list(shape)} for {list(want.shape)}")


def view(record: Operator, trait: View, one: Case) -> bool:
    """The result has the elements of the first operand in their order."""
    data = np.asarray(one.inputs[0])
    if data.size < 2:
        return False
    if trait.when is not None and not trait.when(node_of(record, one.inputs, one.attrs)):
        return False
    want = compute(record, one.inputs, one.attrs).reshape(-1)
    whole = data.reshape(-1)
    starts = range(1 + len(whole) - len(want)) if trait.part else [0]
    found = [whole[i : i + len(want)] for i in starts]
    near = [run for run in found if np.array_equal(want, run)]
    return same(want, (near or found)[0])
