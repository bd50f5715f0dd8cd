# SPDX-License-Identifier: Apache-2.0
"""What the records of operators promise of axes, proven on random inputs by onnx.reference.

Each proof is a function of a trait, the operator's record and one of its declared cases; it tells
whether the promise holds, or None where the case says nothing. The probes ask the same of
operators that claim no such trait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import harness
import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
import test_ml
from onnx import helper
from test_traits import Array, same

from aot.errors import BackendError
from aot.ir.operators import (
    Along,
    AxisOf,
    DataSized,
    Elementwise,
    Linear,
    Operator,
    Reduces,
    Rowwise,
    SizedBy,
    Trait,
    View,
    Window,
    operator,
    operators,
)
from aot.vendor.cases import Case, case, f32, ints
from aot.vendor.pattern import OpPat, Var

RNG = np.random.default_rng(11)
INFINITE = float("inf")
#: The versions of other domains' operators.
OPSET = defaultdict(lambda: 1, TreeEnsembleRegressor=3, TreeEnsembleClassifier=3, TreeEnsemble=5)
#: Cases that operators without a kernel lack; no array has more elements than MOST.
MOST, TRIED = 2000, 3
SCALE, CODE = np.array(0.5, np.float32), np.array(3, np.int8)
CASES: dict[str, list[Case]] = {
    "QLinearConv": [
        case(
            *(ints(2, 3, 6, 7, dtype="int8"), SCALE, CODE),
            *(ints(5, 3, 3, 2, low=-9, high=9, dtype="int8"), SCALE, np.array(0, np.int8)),
            *(np.array(8, np.float32), CODE),
            pads=[1, 0, 2, 1],
        )
    ],
    "GlobalMaxPool": [case(f32(2, 3, 5, 4))],
    "GlobalLpPool": [case(f32(2, 3, 5, 4), p=3)],
    "LayerNormalization": [case(f32(4, 3, 5), f32(3, 5, seed=1), axis=1)],
    "RMSNormalization": [case(f32(4, 3, 5), f32(5, seed=1))],
    "BiasGelu": [case(f32(4, 3, 5), f32(5, seed=1))],
    "FastGelu": [case(f32(4, 3, 5), f32(5, seed=1))],
    "SimplifiedLayerNormalization": [case(f32(4, 3, 5), f32(5, seed=1))],
    "SkipLayerNormalization": [case(f32(4, 3, 5), f32(4, 3, 5, seed=2), f32(5, seed=1))],
    "SkipSimplifiedLayerNormalization": [case(f32(4, 3, 5), f32(4, 3, 5, seed=2), f32(5, seed=1))],
    "AveragePool": [case(f32(2, 3, 9, 8), kernel_shape=[3, 2], strides=[2, 1])],
}


@cache
def small(name: str) -> tuple[Case, ...]:
    """Small cases that an operator declares for onnx.reference, and those of this file."""
    found = next((p for p in harness.load_all().patterns if p.name.split(".")[-1] == name), None)
    declared = [] if found is None or not harness.single(found.graph) else found.all_cases()
    return (*(c for c in declared if not c.expected and is_small(c)), *CASES.get(name, ()))


def is_small(one: Case) -> bool:
    """Whether no array of a case is large."""
    return all(np.size(a) <= MOST for a in one.inputs if a is not None)


def compute(record: Operator, inputs: Sequence[Array | None], attrs: dict[str, Any]) -> Array:
    """The first result; onnx.reference lacks GlobalLpPool, onnxruntime computes other domains."""
    if record.domain and record.name != "TreeEnsemble":
        return by_runtime(record, inputs, attrs)[0]
    if record.name == "GlobalLpPool":
        assert not set(attrs) - {"p"}
        x, p = np.asarray(inputs[0]), float(attrs.get("p", 2))
        powers = np.abs(x) ** p
        return np.asarray(powers.sum(tuple(range(2, x.ndim)), x.dtype, keepdims=True) ** (1 / p))
    one = case(*inputs, **attrs)
    names = tuple(Var(f"v{i}") for i in range(len(inputs)))
    graph = OpPat(record.name, record.domain, names, (), (), 0)
    return harness.reference(harness.model_of(graph, one), one)[0]


def by_runtime(
    record: Operator, inputs: Sequence[Array | None], attrs: dict[str, Any]
) -> list[Array]:
    """What onnxruntime computes of an operator of another domain."""
    given = {f"x{i}": a for i, a in enumerate(inputs) if a is not None}
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)]
    outputs = ["label", "y"] if record.name.endswith("Classifier") else ["y"]
    domain = "" if record.name.startswith("Simplified") else record.domain
    made = helper.make_node(record.name, names, outputs, domain=domain, **attrs)
    kinds = {"label": onnx.TensorProto.INT64, "y": onnx.TensorProto.FLOAT}
    results = [helper.make_tensor_value_info(o, kinds[o], None) for o in outputs]
    typed = [harness.info(n, a) for n, a in given.items()]
    versions = [helper.make_opsetid("", 21), helper.make_opsetid(record.domain, OPSET[record.name])]
    graph = helper.make_graph([made], "g", typed, results)
    proto = helper.make_model(graph, opset_imports=versions, ir_version=10)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return [np.asarray(a) for a in session.run(None, given)]


def like(data: Array) -> Array:
    """Random numbers of the shape and the type of an array."""
    if data.dtype.kind == "f":
        return RNG.standard_normal(data.shape).astype(data.dtype)
    return RNG.integers(-5, 6, data.shape).astype(data.dtype)


def of_forests() -> None:
    """Add the cases of ai.onnx.ml that are compared with onnxruntime elsewhere."""
    for name, x, attrs, _ in test_ml.cases():
        CASES.setdefault(name, []).append(case(x, **attrs))


of_forests()


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


def along(record: Operator, trait: Along, one: Case) -> bool | None:
    """A longer line has the same results in front; slices beside it do not matter."""
    data, rest = np.asarray(one.inputs[0]), one.inputs[1:]
    axis = one.attrs.get(trait.axis, record.attributes[trait.axis].default)
    if not data.ndim or data.size < 2:
        return None
    want = compute(record, one.inputs, one.attrs)
    got = compute(record, (longer(data, [axis], trait.padding), *rest), one.attrs)
    fits = same(np.take(got, range(data.shape[axis]), axis), want)
    for other in {a for a in range(data.ndim) if a != axis % data.ndim}:
        order = RNG.permutation(data.shape[other])
        moved = compute(record, (np.take(data, order, other), *rest), one.attrs)
        fits = fits and same(moved, np.take(want, order, other))
    return fits


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


def node_of(record: Operator, one: Case) -> onnx_ir.Node:
    """The node of a case, for the predicates of traits."""
    made = onnx.helper.make_node(record.name, [], ["y"], domain=record.domain, **one.attrs)
    return onnx_ir.from_proto(made)


def reduces(record: Operator, trait: Reduces, one: Case) -> bool | None:
    """Neutral elements more change nothing."""
    if trait.when is not None and not trait.when(node_of(record, one)):
        return None
    data, rest = np.asarray(one.inputs[0]), one.inputs[1:]
    axes = reduced(record, trait, one)
    if not axes:
        return None
    want = compute(record, one.inputs, one.attrs)
    more = compute(record, (longer(data, axes, trait.neutral), *rest), one.attrs)
    return close(more, want)


def window(record: Operator, trait: Window, one: Case) -> bool | None:
    """Elements added beyond the ends are what the window finds there; a shift shifts the result.

    Channels, where they are computed alone, may change places.
    """
    names = record.names(len(one.inputs))
    place = names.index(trait.operand)
    data, attrs = np.asarray(one.inputs[place]), dict(one.attrs)
    if attrs.get("ceil_mode") or attrs.get("auto_pad", "NOTSET") != "NOTSET" or not data.size:
        return None
    rank = data.ndim - 2
    pads = attrs.pop("pads", None) or [0] * (2 * rank)
    steps = attrs.get("strides") or [1] * rank

    def of(array: Array, ends: list[int]) -> Array:
        inputs = [array if i == place else a for i, a in enumerate(one.inputs)]
        return compute(record, inputs, attrs | {"pads": ends})

    want, fits = of(data, pads), True
    if trait.padding is not None:
        fill = trait.padding
        if isinstance(fill, str):
            fill = float(one.inputs[names.index(fill)] if fill in names else 0)
        ends = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
        full = np.pad(data, ends, constant_values=number(data.dtype, fill))
        fits = same(of(full, [0] * (2 * rank)), want)
    else:
        full = data
        want = of(data, [0] * (2 * rank))
    shifted = np.take(full, range(steps[0], full.shape[2]), 2)
    if want.size and want.shape[2] > 1:
        behind = np.take(want, range(1, want.shape[2]), 2)
        fits = fits and same(of(shifted, [0] * (2 * rank)), behind)
    if trait.per_channel:
        order = RNG.permutation(data.shape[1])
        fits = fits and same(of(np.take(full, order, 1), [0] * (2 * rank)), np.take(want, order, 1))
    return fits


def close(left: Array, right: Array) -> bool:
    """Whether results are equal up to the order of additions in float32."""
    with np.errstate(all="ignore"):
        fits = left.shape == right.shape and left.dtype == right.dtype
        return fits and bool(np.allclose(left, right, 1e-4, 1e-4, equal_nan=True))


def linear(record: Operator, trait: Linear, one: Case) -> bool | None:
    """f(x + y) = f(x) + f(y) of data and of weights; scales and biases of output channels."""
    names = record.names(len(one.inputs))
    places = names.index(trait.data), names.index(trait.weights)
    data, weights = (np.asarray(one.inputs[i]) for i in places)
    if data.dtype.kind != "f" or not data.size or not weights.size:
        return None

    def of(x: Array, w: Array, b: Array | None = None) -> Array:
        known = {trait.data: x, trait.weights: w, trait.bias: b}
        pairs = zip(names, one.inputs, strict=True)
        inputs = [known.get(n, a) for n, a in pairs]
        return compute(record, inputs, one.attrs)

    x, y, v, w = like(data), like(data), like(weights), like(weights)
    fits = close(of(x + y, w), of(x, w) + of(y, w)) and close(of(x, v + w), of(x, v) + of(x, w))
    want = of(x, w)
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
        fits = fits and close(of(x, w * factors.reshape(shape)), scaled)
        if trait.bias in names:
            channels = want.shape[trait.result_axis]
            b = RNG.standard_normal(channels).astype(w.dtype)
            by = float(one.attrs.get("beta", 1))
            fits = fits and close(of(x, w, b), want + by * b.reshape(spread))
    return fits


def rowwise(record: Operator, trait: Rowwise, one: Case) -> bool | None:
    """Rows that change places change those of the results, and each alone has the same result."""
    data = np.asarray(one.inputs[0])
    first = -1
    if trait.axis:
        first = one.attrs.get(trait.axis, record.attributes[trait.axis].default)
    if first % max(1, data.ndim) == 0:
        return None
    want = compute(record, one.inputs, one.attrs)
    fits = True
    for axis in range(first % data.ndim):
        for rows in (RNG.permutation(data.shape[axis]), [data.shape[axis] - 1]):
            inputs = [
                np.take(a, rows, axis) if a is not None and a.ndim == data.ndim else a
                for a in one.inputs
            ]
            moved = compute(record, inputs, one.attrs)
            fits = fits and close(moved, np.take(want, rows, axis))
    return fits


def sized_by(record: Operator, trait: SizedBy, one: Case) -> bool | None:
    """Other elements of other operands leave the shape of the result as it is."""
    names, meant = record.names(len(one.inputs)), trait.operands.split()
    places = [i for i, n in enumerate(names) if n not in meant and one.inputs[i] is not None]
    want = compute(record, one.inputs, one.attrs)
    inputs = [
        like(a) if i in places and a.dtype.kind in "fiu" else a for i, a in enumerate(one.inputs)
    ]
    return compute(record, inputs, one.attrs).shape == want.shape


def view(record: Operator, trait: View, one: Case) -> bool | None:
    """The result has the elements of the first operand in their order."""
    data = np.asarray(one.inputs[0])
    if data.size < 2:
        return None
    if trait.when is not None:
        x = onnx_ir.Value(name="x", shape=onnx_ir.Shape(data.shape))
        if not trait.when(onnx_ir.node(record.name, [x], one.attrs)):
            return None
    want = compute(record, one.inputs, one.attrs)
    return same(want.reshape(-1), data.reshape(-1))


PROOFS: dict[type[Trait], Callable[[Operator, Any, Case], bool | None]] = {
    Along: along,
    Reduces: reduces,
    Window: window,
    Linear: linear,
    Rowwise: rowwise,
    SizedBy: sized_by,
    View: view,
}


def claims() -> list[Any]:
    """Every (trait, record) that this file proves."""
    return [
        pytest.param(kind, record, id=f"{kind.__name__}-{record.name}")
        for record in operators()
        for kind in PROOFS
        if record.trait(kind)
    ]


@pytest.mark.parametrize(("kind", "record"), claims())
def test_operators_keep_what_they_claim(kind: type[Trait], record: Operator) -> None:
    trait = record.trait(kind)
    found = [PROOFS[kind](record, trait, one) for one in small(record.name)]
    assert any(f is not None for f in found), "no case proves it"
    assert False not in found, found.index(False)


#: Traits tried on operators that claim none of the kind.
NUMBERS = (0.0, 1.0, -INFINITE, INFINITE)
PROBES: list[Trait] = [
    View(),
    *(Along("axis", v) for v in NUMBERS),
    *(Reduces(v, axes) for v in NUMBERS for axes in ("", "axis", "axes")),
    *(Window("x", padding=v) for v in NUMBERS),
    Linear("v0", "v1", out_axis=-1, result_axis=-1),
    *(Linear("v0", "v1", out_axis=a) for a in (0, 1)),
]
#: Operators that show a trait and cannot claim it.
SHOWN = {
    ("Along", "DequantizeLinear"): "there may be a scale for each place along the axis",
}


def shows(record: Operator, trait: Trait) -> bool:
    """Whether all cases of an operator show a trait, and at least one does."""
    found = False
    for one in small(record.name)[:TRIED]:
        try:
            fits = PROOFS[type(trait)](record, trait, one)
        except Exception:  # other shapes than the operator takes
            return False
        if fits is False:
            return False
        found = found or fits is True
    return found


def test_no_operator_forgets_what_it_shows() -> None:
    """Elementwise operators are left out: along any axis they show more than that."""
    names = {p.name for p in harness.load_all().patterns if harness.single(p.graph)}
    known = {r.name: r for r in operators() if not r.domain}
    missed = set()
    for name in sorted(n for n in names if "." not in n):
        claimed = known.get(name)
        if claimed is not None and claimed.trait(Elementwise):
            continue
        first = next(iter(small(name)), None)
        if first is None or first.outputs != 1 or not first.inputs:
            continue
        attributes = claimed.attributes if claimed else {}
        for trait in PROBES:
            if claimed is not None and claimed.trait(type(trait)):
                continue
            lines = isinstance(trait, Along)
            if "axis" not in attributes and (lines or getattr(trait, "axes", "") == "axis"):
                continue
            operands = ("x", "axes") if isinstance(trait, Reduces) else ("x",)
            if isinstance(trait, Linear):
                operands = tuple(f"v{i}" for i in range(len(first.inputs)))
            if shows(Operator(name, operands, attributes=attributes), trait):
                missed.add((type(trait).__name__, name))
    assert missed == set(SHOWN), missed


#: Operators that show one of the two, and cannot claim it or need not.
NOT_CLAIMED = {
    "CastLike": "its second operand gives a type",
    "DequantizeLinear": "there may be a scale for each place along the axis",
    "OneHot": "its depth must be known",
    "QuantizeLinear": "there may be a scale for each place along the axis",
    "Squeeze": "its axes must be known",
    "TfIdfVectorizer": "it counts, and has no rule for extents",
    "Unsqueeze": "its axes must be known",
    **{r.name: "its axes must be known" for r in operators() if r.name.startswith("Reduce")},
}


def test_no_operator_forgets_that_it_is_rowwise_or_sized_by_data() -> None:
    """Elements of operands change a shape; rows are alone, with no other trait of axes."""
    names = {p.name for p in harness.load_all().patterns if harness.single(p.graph)}
    known = {r.name: r for r in operators() if not r.domain}
    others = (Elementwise, Along, Reduces, Rowwise)
    missed = set()
    for name in sorted(n for n in names if "." not in n):
        record = known.get(name, Operator(name, ()))
        plain = Operator(name, ("x",), attributes=record.attributes)
        if not any(record.trait(t) for t in others) and shows(plain, Rowwise()):
            missed.add(("Rowwise", name))
        for one in small(name)[:TRIED]:
            try:
                free = sized_by(plain, SizedBy(""), one)
            except Exception:  # numbers that the operator does not take
                continue
            if free is False and not record.trait(SizedBy) and not record.trait(DataSized):
                missed.add(("SizedBy", name))
    assert {name for _, name in missed} <= set(NOT_CLAIMED), missed


def test_a_trait_of_an_axis_or_an_operand_that_is_not_there_is_refused() -> None:
    with pytest.raises(BackendError, match="Toy: Along names axis") as e:
        operator("Toy", "x", domain="acme", traits=[Along("axis", 0)])
    assert "AxisOf" in e.value.hint
    with pytest.raises(BackendError, match="Toy: Reduces names axes"):
        operator("Toy", "x", domain="acme", traits=[Reduces(0, "axes")])
    with pytest.raises(BackendError, match="Toy: Window names w"):
        operator("Toy", "x", domain="acme", traits=[Window("x", kernel="w")])
    with pytest.raises(BackendError, match="Toy: Linear names b, w"):
        operator("Toy", "x", domain="acme", traits=[Linear("x", "w", "b")], axis=AxisOf("x", 0))
