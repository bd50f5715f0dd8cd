# SPDX-License-Identifier: Apache-2.0
"""Proofs of claims about values, as those of `proofs_places`."""

from __future__ import annotations

import numpy as np
from computed import RNG, Array, compute, holds, is_same, results, same
from proofs_axes import reduced

from aot.ir.operators import Operator, Reduces
from aot.ir.value_traits import (
    Averages,
    Clamp,
    Compares,
    Converts,
    Curve,
    Dequantises,
    Indexes,
    Quantises,
    Recurrent,
    Scales,
)
from aot.vendor.cases import Case

#: Elements at which a function of one is looked at: between them it jumps nowhere.
NEAR = np.arange(-30, 30, 1 / 64, dtype=np.float32)
FAR = np.linspace(30, 60, 61, dtype=np.float32)


def curve(record: Operator, trait: Curve, one: Case) -> bool:
    """Small steps of the first operand are small steps of the result; far out it only rises or
    falls. Other operands are their first elements."""
    data = np.asarray(one.inputs[0])
    if data.dtype != np.float32 or len(one.inputs) > 3 or not data.size:
        return False
    rest = [None if a is None else np.asarray(a).reshape(-1)[:1] for a in one.inputs[1:]]
    if any(a is not None and np.isnan(a).any() for a in rest):
        return False
    if record.name == "Clip":
        rest = [None if a is None else a.reshape(()) for a in rest]
    with np.errstate(all="ignore"):
        near, left, right = (compute(record, [x, *rest], one.attrs) for x in (NEAR, -FAR, FAR))
    kept = near.dtype == np.float32 and near.shape == NEAR.shape
    holds(kept, f"the result for {list(NEAR.shape)} float32 is {list(near.shape)} {near.dtype}")
    wild = ~np.isfinite(near)
    holds(not wild.any(), f"the result at {NEAR[wild.argmax()]} is {near[wild.argmax()]}")
    jumps = np.abs(np.diff(near)) > 0.1 * np.maximum(1, np.abs(near[1:]))
    at = jumps.argmax()
    where = f"from {NEAR[at]} to {NEAR[at + 1]}"
    holds(not jumps.any(), f"{where} the result goes from {near[at]} to {near[at + 1]}")
    for sign, end in (("-", left), ("", right)):
        rises = np.diff(end[np.isfinite(end)].astype(np.float64))
        one_way = (rises >= -1e-6).all() or (rises <= 1e-6).all()
        holds(one_way, f"it rises and falls from {sign}30 to {sign}60")
    return True


def clamp(record: Operator, trait: Clamp, one: Case) -> bool:
    """The result is np.clip of the first operand."""
    names = record.names(len(one.inputs))
    given = dict(zip(names, one.inputs, strict=True))
    bounds = [given.get(b) if isinstance(b, str) else b for b in (trait.low, trait.high)]
    data = np.asarray(one.inputs[0])
    if data.dtype.kind != "f" or np.isnan(data).any():
        return False
    low, high = (
        e if b is None else float(np.asarray(b).ravel()[0])
        for b, e in zip(bounds, (-np.inf, np.inf), strict=True)
    )
    return same(compute(record, one.inputs, one.attrs), np.clip(data, low, high).astype(data.dtype))


def compares(record: Operator, trait: Compares, one: Case) -> bool:
    """Other elements in the same order have the same result, of integers."""
    data = np.asarray(one.inputs[0])
    if len(one.inputs) > 1 or data.dtype.kind != "f" or np.isnan(data).any():
        return False
    want = compute(record, one.inputs, one.attrs)
    places = np.unique(data, return_inverse=True)[1].reshape(data.shape)
    got = compute(record, [(places * 3 + 7).astype(data.dtype)], one.attrs)
    holds(want.dtype.kind == "i", f"the result is {want.dtype}")
    varies = not is_same(compute(record, [-data], one.attrs), want)
    return same(got, want) and holds(varies, "negative elements have the same result")


def converts(record: Operator, trait: Converts, one: Case) -> bool:
    """Numbers that every type holds stay, in their places."""
    data = np.asarray(one.inputs[0])
    if data.dtype.kind not in "fiu" or not data.size:
        return False
    few = (np.arange(data.size) % 2).reshape(data.shape).astype(data.dtype)
    try:
        got = compute(record, [few, *one.inputs[1:]], one.attrs)
    except Exception:  # a type that onnx.reference makes no numbers of
        return False
    if got.dtype.kind not in "fiu":
        return False
    holds(got.dtype != data.dtype, f"the result is {data.dtype} as its operand")
    return same(got, few.astype(got.dtype))


def averages(record: Operator, trait: Averages, one: Case) -> bool:
    """All elements twice have the same mean; the mean of means is that of all elements."""
    data = np.asarray(one.inputs[0])
    axes = reduced(record, Reduces(0, trait.axes), one)
    if data.dtype != np.float32 or not axes or not data.size:
        return False
    rest, data = one.inputs[1:], RNG.standard_normal(data.shape).astype(np.float32)
    want = compute(record, [data, *rest], one.attrs)
    twice = compute(record, [np.concatenate([data, data], axes[0]), *rest], one.attrs)
    level = compute(record, [np.full_like(data, 3), *rest], one.attrs)
    same(twice, want, 1e-4, 1e-5)
    same(level, np.full_like(level, 3), 1e-5, 1e-8)
    return same(want.mean(), data.mean(), 1e-4, 1e-5)


def recurrent(record: Operator, trait: Recurrent, one: Case) -> bool:
    """Steps in two parts, the second from the states of the first, are the steps at once."""
    x = np.asarray(one.inputs[0])
    if one.attrs.get("layout") or one.attrs.get("direction", "forward") != "forward":
        return False
    names, states = record.names(len(record.operands)), trait.states.split()
    given = dict(zip(names, one.inputs, strict=False))
    if x.shape[0] < 2 or given.get("lens") is not None:
        return False

    def of(part: Array, start: dict[str, Array]) -> list[Array]:
        values = {**given, names[0]: part, **start}
        return results(record, [values.get(n) for n in names], one.attrs, 1 + len(states))

    whole, first = of(x, {}), of(x[:1], {})
    second = of(x[1:], dict(zip(states, first[1:], strict=True)))
    joined = np.concatenate([first[0], second[0]])
    return same(joined, whole[0], 1e-4, 1e-5) and bool(np.abs(joined).max() > 0)


def places(record: Operator, trait: Indexes, one: Case) -> bool:
    """A place counted from the end is the same place; the next one is another."""
    names = record.names(len(one.inputs))
    at, of = names.index(trait.indices), names.index(trait.data)
    data, indices = np.asarray(one.inputs[of]), np.asarray(one.inputs[at])
    size = data.shape[one.attrs.get("axis", record.attributes["axis"].default)]
    if not indices.size or indices.dtype.kind != "i":
        return False

    def given(other: Array) -> list[Array | None]:
        return [other if i == at else a for i, a in enumerate(one.inputs)]

    turned = np.where(indices < 0, indices + size, indices - size)
    want = compute(record, one.inputs, one.attrs)
    other = compute(record, given((indices + 1) % size), one.attrs)
    same(compute(record, given(turned), one.attrs), want)
    return holds(not is_same(other, want), "the next places have the same result")


def quantises(record: Operator, trait: Quantises, one: Case) -> bool:
    """The integers are x / scale + zero, rounded and within the range of their type."""
    x = np.asarray(one.inputs[0])
    if x.dtype != np.float32 or x.size < 2 or set(one.attrs) - {"axis"}:
        return False
    known = [n for n in record.names(len(one.inputs)) if n in (trait.scale, trait.zero)]
    names = record.names(len(one.inputs))
    feeds = dict(zip(names, map(np.asarray, one.inputs), strict=True))
    if known and (len(known) < 2 or feeds[trait.scale].ndim):
        return False
    if known and feeds[trait.zero].dtype.kind not in "iu":
        return False
    feeds[names[0]] = RNG.standard_normal(x.shape).astype(np.float32)
    made = results(record, list(feeds.values()), {}, len(record.results))
    found = dict(zip(record.results, made, strict=True)) | feeds
    quantised, scale, zero = (
        np.asarray(a) for a in (made[0], found[trait.scale], found[trait.zero])
    )
    holds(quantised.dtype.kind in "iu", f"the result is {quantised.dtype}")
    ends = np.iinfo(quantised.dtype)
    want = np.clip(np.rint(feeds[names[0]] / scale) + zero, ends.min, ends.max)
    return same(quantised, want.astype(quantised.dtype))


def dequantises(record: Operator, trait: Dequantises, one: Case) -> bool:
    """The numbers are (x - zero) * scale."""
    names = record.names(len(one.inputs))
    given = dict(zip(names, map(np.asarray, one.inputs), strict=True))
    quantised, scale = given[names[0]], given[trait.scale]
    if quantised.dtype.kind not in "iu" or scale.ndim or one.attrs or trait.zero not in given:
        return False
    want = (quantised.astype(np.int64) - given[trait.zero]) * scale
    return same(compute(record, one.inputs, one.attrs), want.astype(scale.dtype))


def scales(record: Operator, trait: Scales, one: Case) -> bool:
    """f(s + t, a + b) = f(s, a) + f(t, b); twice the scale without shift is twice the result."""
    names = record.names(len(one.inputs))
    given = dict(zip(names, one.inputs, strict=True))
    if np.asarray(given[trait.scale]).dtype != np.float32 or one.outputs != 1:
        return False
    shifts = trait.shift in names and given[trait.shift] is not None

    def of(scale: Array, shift: Array) -> Array:
        other = {trait.scale: scale, **({trait.shift: shift} if shifts else {})}
        return compute(record, [other.get(n, given[n]) for n in names], one.attrs)

    s, t, a, b = (
        RNG.standard_normal(np.shape(given[n])).astype(np.float32)
        for n in (trait.scale, trait.scale, *[trait.shift if shifts else trait.scale] * 2)
    )
    same(of(s + t, a + b), of(s, a) + of(t, b), 1e-3, 1e-3)
    none = np.zeros_like(a)
    return same(of(2 * s, none), 2 * of(s, none), 1e-3, 1e-3)
