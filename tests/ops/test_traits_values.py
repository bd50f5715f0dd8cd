# SPDX-License-Identifier: Apache-2.0
"""Traits of values, proven on the operators' declared cases with other numbers.

The same checks, turned round, find operators for which a trait holds that no record claims.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import harness
import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from test_traits import Array, same
from test_traits_axes import compute, reduced, small

from aot.errors import BackendError
from aot.ir.operators import Elementwise, Operator, Reduces, Trait, operator, operators
from aot.ir.value_traits import (
    Averages,
    Clamp,
    Compares,
    Converts,
    Curve,
    Dequantises,
    Places,
    Quantises,
    Recurrent,
    Scales,
)
from aot.vendor.cases import Case, case, f32

RNG = np.random.default_rng(23)
#: Elements at which a function of one is looked at: between them it jumps nowhere.
NEAR = np.arange(-30, 30, 1 / 64, dtype=np.float32)
FAR = np.linspace(30, 60, 61, dtype=np.float32)


def curve(record: Operator, trait: Curve, one: Case) -> bool | None:
    """Small steps of the first operand are small steps of the result; far out it only rises or
    falls. Other operands are their first elements."""
    data = np.asarray(one.inputs[0])
    if data.dtype != np.float32 or len(one.inputs) > 3 or not data.size:
        return None
    rest = [None if a is None else np.asarray(a).reshape(-1)[:1] for a in one.inputs[1:]]
    if any(a is not None and np.isnan(a).any() for a in rest):
        return None
    if record.name == "Clip":
        rest = [None if a is None else a.reshape(()) for a in rest]
    with np.errstate(all="ignore"):
        near, left, right = (compute(record, [x, *rest], one.attrs) for x in (NEAR, -FAR, FAR))
    if near.dtype != np.float32 or near.shape != NEAR.shape or not np.isfinite(near).all():
        return False
    steps = np.abs(np.diff(near))
    ends = [np.diff(e[np.isfinite(e)].astype(np.float64)) for e in (left, right)]
    straight = all((e >= -1e-6).all() or (e <= 1e-6).all() for e in ends)
    return bool((steps <= 0.1 * np.maximum(1, np.abs(near[1:]))).all()) and straight


def clamp(record: Operator, trait: Clamp, one: Case) -> bool | None:
    """The result is np.clip of the first operand."""
    names = record.names(len(one.inputs))
    given = dict(zip(names, one.inputs, strict=True))
    bounds = [given.get(b) if isinstance(b, str) else b for b in (trait.low, trait.high)]
    data = np.asarray(one.inputs[0])
    if data.dtype.kind != "f" or np.isnan(data).any():
        return None
    low, high = (
        e if b is None else float(np.asarray(b).ravel()[0])
        for b, e in zip(bounds, (-np.inf, np.inf), strict=True)
    )
    return same(compute(record, one.inputs, one.attrs), np.clip(data, low, high).astype(data.dtype))


def compares(record: Operator, trait: Compares, one: Case) -> bool | None:
    """Other elements in the same order have the same result, of integers."""
    data = np.asarray(one.inputs[0])
    if len(one.inputs) > 1 or data.dtype.kind != "f" or np.isnan(data).any():
        return None
    want = compute(record, one.inputs, one.attrs)
    places = np.unique(data, return_inverse=True)[1].reshape(data.shape)
    got = compute(record, [(places * 3 + 7).astype(data.dtype)], one.attrs)
    varies = not same(compute(record, [-data], one.attrs), want)
    return want.dtype.kind == "i" and same(got, want) and varies


def converts(record: Operator, trait: Converts, one: Case) -> bool | None:
    """Numbers that every type holds stay, in their places."""
    data = np.asarray(one.inputs[0])
    if data.dtype.kind not in "fiu" or not data.size:
        return None
    few = (np.arange(data.size) % 2).reshape(data.shape).astype(data.dtype)
    try:
        got = compute(record, [few, *one.inputs[1:]], one.attrs)
    except Exception:  # a type that onnx.reference makes no numbers of
        return None
    if got.dtype.kind not in "fiu":
        return None
    return got.dtype != data.dtype and got.tolist() == few.tolist()


def averages(record: Operator, trait: Averages, one: Case) -> bool | None:
    """All elements twice have the same mean; the mean of means is that of all elements."""
    data = np.asarray(one.inputs[0])
    axes = reduced(record, Reduces(0, trait.axes), one)
    if data.dtype != np.float32 or not axes or not data.size:
        return None
    rest, data = one.inputs[1:], RNG.standard_normal(data.shape).astype(np.float32)
    want = compute(record, [data, *rest], one.attrs)
    twice = compute(record, [np.concatenate([data, data], axes[0]), *rest], one.attrs)
    level = compute(record, [np.full_like(data, 3), *rest], one.attrs)
    return (
        twice.shape == want.shape
        and np.allclose(twice, want, 1e-4, 1e-5)
        and np.allclose(level, 3)
        and np.allclose(want.mean(), data.mean(), 1e-4, 1e-5)
    )


def recurrent(record: Operator, trait: Recurrent, one: Case) -> bool | None:
    """Steps in two parts, the second from the states of the first, are the steps at once."""
    x = np.asarray(one.inputs[0])
    if one.attrs.get("layout") or one.attrs.get("direction", "forward") != "forward":
        return None
    names, states = record.names(len(record.operands)), trait.states.split()
    given = dict(zip(names, one.inputs, strict=False))
    if x.shape[0] < 2 or given.get("lens") is not None:
        return None
    outputs = ["y", *(f"last_{s}" for s in states)]

    def of(part: Array, start: dict[str, Array]) -> list[Array]:
        values = {**given, names[0]: part, **start}
        feeds = {n: a for n in names if (a := values.get(n)) is not None}
        node = helper.make_node(
            record.name, [n if n in feeds else "" for n in names], outputs, **one.attrs
        )
        return [np.asarray(a) for a in ReferenceEvaluator(node).run(None, feeds)]

    whole, first = of(x, {}), of(x[:1], {})
    second = of(x[1:], dict(zip(states, first[1:], strict=True)))
    joined = np.concatenate([first[0], second[0]])
    return np.allclose(joined, whole[0], 1e-4, 1e-5) and bool(np.abs(joined).max() > 0)


def places(record: Operator, trait: Places, one: Case) -> bool | None:
    """A place counted from the end is the same place; the next one is another."""
    names = record.names(len(one.inputs))
    at, of = names.index(trait.indices), names.index(trait.data)
    data, indices = np.asarray(one.inputs[of]), np.asarray(one.inputs[at])
    size = data.shape[one.attrs.get("axis", record.attributes["axis"].default)]
    if not indices.size or indices.dtype.kind != "i":
        return None

    def given(other: Array) -> list[Array | None]:
        return [other if i == at else a for i, a in enumerate(one.inputs)]

    turned = np.where(indices < 0, indices + size, indices - size)
    want = compute(record, one.inputs, one.attrs)
    other = compute(record, given((indices + 1) % size), one.attrs)
    return same(compute(record, given(turned), one.attrs), want) and not same(other, want)


def quantises(record: Operator, trait: Quantises, one: Case) -> bool | None:
    """The integers are x / scale + zero, rounded and within the range of their type."""
    x = np.asarray(one.inputs[0])
    if x.dtype != np.float32 or x.size < 2 or set(one.attrs) - {"axis"}:
        return None
    known = [n for n in record.names(len(one.inputs)) if n in (trait.scale, trait.zero)]
    outputs = [*record.results]
    feeds = dict(zip(record.names(len(one.inputs)), map(np.asarray, one.inputs), strict=True))
    if known and (len(known) < 2 or feeds[trait.scale].ndim or feeds[trait.zero].dtype.kind == "V"):
        return None
    feeds[record.names(1)[0]] = RNG.standard_normal(x.shape).astype(np.float32)
    node = helper.make_node(record.name, list(feeds), outputs)
    found = dict(zip(outputs, ReferenceEvaluator(node).run(None, feeds), strict=True)) | feeds
    quantised, scale, zero = (np.asarray(found[n]) for n in (outputs[0], trait.scale, trait.zero))
    if quantised.dtype.kind not in "iu":
        return None
    ends = np.iinfo(quantised.dtype)
    want = np.clip(np.rint(feeds[record.names(1)[0]] / scale) + zero, ends.min, ends.max)
    return bool((quantised == want).all())


def dequantises(record: Operator, trait: Dequantises, one: Case) -> bool | None:
    """The numbers are (x - zero) * scale."""
    names = record.names(len(one.inputs))
    given = dict(zip(names, map(np.asarray, one.inputs), strict=True))
    quantised, scale = given[names[0]], given[trait.scale]
    if quantised.dtype.kind not in "iu" or scale.ndim or one.attrs or trait.zero not in given:
        return None
    want = (quantised.astype(np.int64) - given[trait.zero]) * scale
    return same(compute(record, one.inputs, one.attrs), want.astype(scale.dtype))


def scales(record: Operator, trait: Scales, one: Case) -> bool | None:
    """f(s + t, a + b) = f(s, a) + f(t, b); twice the scale without shift is twice the result."""
    names = record.names(len(one.inputs))
    given = dict(zip(names, one.inputs, strict=True))
    if np.asarray(given[trait.scale]).dtype != np.float32 or one.outputs != 1:
        return None
    shifts = trait.shift in names and given[trait.shift] is not None

    def of(scale: Array, shift: Array) -> Array:
        other = {trait.scale: scale, **({trait.shift: shift} if shifts else {})}
        return compute(record, [other.get(n, given[n]) for n in names], one.attrs)

    s, t, a, b = (
        RNG.standard_normal(np.shape(given[n])).astype(np.float32)
        for n in (trait.scale, trait.scale, *[trait.shift if shifts else trait.scale] * 2)
    )
    whole = np.allclose(of(s + t, a + b), of(s, a) + of(t, b), 1e-3, 1e-3, equal_nan=True)
    none = np.zeros_like(a)
    return bool(whole) and np.allclose(of(2 * s, none), 2 * of(s, none), 1e-3, 1e-3, equal_nan=True)


PROOFS: dict[type[Any], Callable[[Operator, Any, Case], bool | None]] = {
    Averages: averages,
    Clamp: clamp,
    Compares: compares,
    Converts: converts,
    Curve: curve,
    Dequantises: dequantises,
    Places: places,
    Quantises: quantises,
    Recurrent: recurrent,
    Scales: scales,
}


def cases_of(name: str) -> list[Case]:
    """Declared cases, and one of numbers where an operator has cases of few kinds only."""
    found = list(small(name))
    if name == "CastLike":
        found.append(case(f32(2, 3), np.zeros(1, np.int32)))
    if name == "GlobalAveragePool":
        found.append(case(f32(2, 3, 4, 5)))
    if name == "QuantizeLinear":
        found.append(case(f32(3, 7), np.float32(0.01), np.int8(3)))
    if name == "DequantizeLinear":
        found.append(case(np.arange(-9, 12, dtype=np.int8), np.float32(0.25), np.int8(3)))
    return found


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        pytest.param(kind, record, id=f"{kind.__name__}-{record.name}")
        for record in operators()
        for kind in PROOFS
        if record.trait(kind)
    ],
)
def test_operators_keep_what_they_claim(kind: type[Trait], record: Operator) -> None:
    trait = record.trait(kind)
    found = [PROOFS[kind](record, trait, one) for one in cases_of(record.name)]
    assert any(f is not None for f in found), "no case proves it"
    assert False not in found, found.index(False)


PROBES: list[Trait] = [
    *(Curve(), Compares(), Converts(), Averages(), Averages("axes"), Averages("axis")),
    *(Scales("scale"), Scales("scale", "bias"), Places("indices", "x")),
    *(Quantises("scale", "zero"), Dequantises("scale", "zero")),
    *(Clamp(0.0, float("inf")), Clamp(float("-inf"), 0.0), Clamp(-1.0, 1.0), Clamp(0.0, 6.0)),
]
UNTABLED = ("Asinh", "Atan", "Cosh", "Sinh")
#: Operators that show a trait and do not claim it.
SHOWN = {
    **{("Curve", name): "no table of quantised values takes it" for name in UNTABLED},
    **{("Curve", name): "it is spelled as Add" for name in ("Mean", "Sum")},
    ("Scales", "DequantizeLinear"): "its operands are quantised values and their scale",
}


def shows(record: Operator, trait: Trait) -> bool:
    """Whether all cases of an operator show a trait, and at least one does."""
    found = False
    for one in cases_of(record.name)[:6]:
        try:
            fits = PROOFS[type(trait)](record, trait, one)
        except Exception:  # other shapes than the operator takes
            return False
        if fits is False:
            return False
        found = found or fits is True
    return found


def test_no_operator_forgets_what_it_shows() -> None:
    names = {p.name for p in harness.load_all().patterns if harness.single(p.graph)}
    known = {r.name: r for r in operators() if not r.domain}
    missed = set()
    for name in sorted(n for n in names if "." not in n):
        claimed = known.get(name, Operator(name, ()))
        first = next(iter(small(name)), None)
        if first is None or first.outputs != 1 or not first.inputs:
            continue
        operands = claimed.operands or ("x", "axes")
        for trait in PROBES:
            axes = getattr(trait, "axes", "")
            if isinstance(trait, Curve) and not claimed.trait(Elementwise):
                continue
            if claimed.trait(type(trait)) or axes not in ("", *operands, *claimed.attributes):
                continue
            if shows(Operator(name, operands, attributes=claimed.attributes), trait):
                missed.add((type(trait).__name__, name))
    assert missed == set(SHOWN), missed


def test_a_bound_or_a_state_that_is_no_operand_is_refused() -> None:
    with pytest.raises(BackendError, match="Toy: Clamp names low"):
        operator("Toy", "x", domain="acme", traits=[Clamp("low", 1.0)])
    with pytest.raises(BackendError, match="Toy: Recurrent names h0"):
        operator("Toy", "x", domain="acme", traits=[Recurrent("h0", "tanh")])
    with pytest.raises(BackendError, match="Toy: Averages names axes"):
        operator("Toy", "x", domain="acme", traits=[Averages("axes")])
