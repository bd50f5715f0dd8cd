# SPDX-License-Identifier: Apache-2.0
"""What the records of operators promise, proven on the operators' declared cases.

`elementwise` exchanges the places of elements: an elementwise operator exchanges those of its
result likewise. `exchanged` swaps two operands. The same checks, turned round, find operators for
which a trait holds that no record claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import harness
import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.reference import ReferenceEvaluator

import aot
from aot.errors import BackendError
from aot.ir.operators import (
    Commutative,
    Elementwise,
    Interface,
    Moves,
    Operator,
    Random,
    operator,
    operator_named,
    operators,
)
from aot.options import Options
from aot.pipeline import compile_model
from aot.vendor.cases import Case
from graphs import model

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)
#: Elementwise by accident or by the sizes of their cases: what no record may claim.
NOT_ELEMENTWISE = {
    "Bernoulli": "draws numbers",
    "DequantizeLinear": "per axis where the scale is no scalar",
    "QuantizeLinear": "per axis where the scale is no scalar",
}
#: Inputs of a Dropout that trains; other operators draw with the first one or none.
TRAINED = [np.full((1, 64), 0.5, np.float32), np.array(0.5, np.float32), np.array(True)]


def jobs(name: str) -> Iterator[harness.Job]:
    """The declared cases of an operator of ONNX that onnx.reference computes alone."""
    for job in harness.collect((name,)):
        if job.model is not None and not job.fused and not job.case.expected:
            yield job


def run(job: harness.Job, inputs: Sequence[Array | None]) -> Array:
    """The first output for other inputs of the case."""
    case = replace(job.case, inputs=tuple(inputs), const=())
    pattern = next(p for p in harness.load_all().patterns if job.label.startswith(f"{p.name}["))
    return harness.reference(harness.model_of(pattern.graph, case), case)[0]


def broadcast(
    record: Operator, trait: Elementwise, case: Case
) -> tuple[list[int], tuple[int, ...]]:
    """The inputs that hold elements, and the shape that they have in common."""
    names = record.names(len(case.inputs))
    meant = trait.operands.split() or names
    places = [i for i, n in enumerate(names) if n in meant and case.inputs[i] is not None]
    held = [i for i in places if trait.broadcasts is None or names[i] not in trait.broadcasts]
    return places, np.broadcast_shapes(*(np.shape(case.inputs[i]) for i in held))


def elementwise(record: Operator, trait: Elementwise, job: harness.Job) -> bool:
    """Whether exchanging the places of elements exchanges those of the result and nothing else."""
    places, shape = broadcast(record, trait, job.case)
    want = run(job, job.case.inputs)
    if want.shape != shape:
        return False
    order = RNG.permutation(want.size)
    inputs = list(job.case.inputs)
    for i in places:
        spread = np.broadcast_to(np.asarray(inputs[i]), shape)
        inputs[i] = spread.reshape(-1)[order].reshape(shape)
    got = run(job, inputs)
    return same(got, want.reshape(-1)[order].reshape(shape))


def same(left: Array, right: Array) -> bool:
    """Whether the arrays are equal but for the last bits that libm gives lanes of a vector."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return bool(np.allclose(left, right, 1e-6, 0, equal_nan=True))
    if left.dtype.kind == "V":  # types that NumPy lacks, among them NaNs
        return left.tobytes() == right.tobytes()
    return bool((left == right).all())


@pytest.mark.parametrize("name", [o.name for o in operators() if o.trait(Elementwise)])
def test_elementwise_operators_are(name: str) -> None:
    record = operator_named(name)
    assert record is not None
    trait, count = record.trait(Elementwise), 0
    assert trait is not None
    for job in jobs(name):
        assert elementwise(record, trait, job), job.label
        count += 1
    assert count or name == "Dropout", "no case proves it"


@pytest.mark.parametrize("name", [o.name for o in operators() if o.trait(Commutative)])
def test_commutative_operators_are(name: str) -> None:
    """Operands are spread to one shape first: onnx.reference's Mean refuses a smaller first one."""
    found = [j for j in jobs(name) if len(j.case.inputs) == 2]
    assert found
    for job in found:
        left, right = (a.copy() for a in np.broadcast_arrays(*job.case.inputs))
        assert same(run(job, (left, right)), run(job, (right, left))), job.label


@pytest.mark.parametrize("name", [o.name for o in operators() if o.trait(Random)])
def test_random_operators_draw(name: str) -> None:
    """Without a seed, two runs of onnx.reference on the same inputs differ."""
    if name == "Multinomial":
        pytest.skip("onnx.reference has no Multinomial; its body draws by RandomUniform")
    record = operator_named(name)
    assert record is not None
    feeds = dict(zip(record.names(len(record.operands)), TRAINED, strict=False))
    node = onnx.helper.make_node(name, list(feeds), ["y"], **({} if feeds else {"shape": [64]}))
    first, second = (ReferenceEvaluator(node).run(None, feeds)[0] for _ in range(2))
    assert not same(first, second)


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


def moves(record: Operator, trait: Moves, job: harness.Job) -> bool | None:
    """Whether other values of the operands are the other values of the result; None: not tried."""
    names = record.names(len(job.case.inputs))
    meant = trait.operands.split() or names
    places = [i for i, n in enumerate(names) if n in meant and job.case.inputs[i] is not None]
    data = [np.asarray(job.case.inputs[i]) for i in places]
    assert job.model is not None
    node = onnx_ir.from_proto(job.model).graph[0]
    known = all(d.dtype.kind in "fiu" and d.dtype.itemsize > 1 and d.size for d in data)
    if not known or any(np.isnan(d).any() for d in data) or (trait.when and not trait.when(node)):
        return None
    fill = dict(zip(names, job.case.inputs, strict=True)).get(trait.fills)
    kept = np.zeros(1) if fill is None else np.reshape(fill, (1,))
    table = recoded(trait, data, kept[: 1 if trait.fills else 0].astype(data[0].dtype))
    inputs = list(job.case.inputs)
    for i, place in enumerate(places):
        inputs[place] = table[i]
    want = run(job, job.case.inputs)
    return same(run(job, inputs), table[-1][np.searchsorted(table[-2], want)])


@pytest.mark.parametrize("name", [o.name for o in operators() if o.trait(Moves)])
def test_moving_operators_do(name: str) -> None:
    record = operator_named(name)
    assert record is not None
    trait = record.trait(Moves)
    assert trait is not None
    found = [moves(record, trait, job) for job in jobs(name)]
    tried = any(f is not None for f in found)
    assert tried or name == "Identity", "no case proves it"  # which has no kernel, so no case
    assert False not in found, found.index(False)


def test_no_elementwise_operator_is_forgotten() -> None:
    """Operators whose cases all show the trait, and that do not claim it."""
    names = {p.name for p in harness.load_all().patterns if harness.single(p.graph)}
    missed = []
    for name in sorted(n for n in names if operator_named(n) is None and "." not in n):
        found = [j for j in jobs(name) if j.case.inputs and j.case.outputs == 1]
        count = max((len(j.case.inputs) for j in found), default=0)
        record = Operator(name, tuple(f"x{i}" for i in range(count)))
        if found and all(shows(record, job) for job in found):
            missed.append(name)
    assert set(missed) <= set(NOT_ELEMENTWISE), missed


def shows(record: Operator, job: harness.Job) -> bool:
    """Whether the case of an operator without a record has elements that keep to their places."""
    try:
        return np.size(job.want[0]) > 1 and elementwise(record, Elementwise(), job)
    except Exception:  # other shapes than the operator takes
        return False


def between_transposes(name: str) -> onnx.ModelProto | None:
    """Transpose, the operator, Transpose back: on the first case that has four axes."""
    record = operator_named(name)
    assert record is not None
    for job in jobs(name):
        trait = record.trait(Elementwise)
        assert trait is not None
        places, shape = broadcast(record, trait, job.case)
        if job.want[0].size < 2 or len(places) < 1:
            continue
        spread = {
            i: np.resize(np.broadcast_to(np.asarray(job.case.inputs[i]), shape), (2, 3, 4, 5))
            for i in places
        }
        rest = {
            f"c{i}": np.asarray(a)
            for i, a in enumerate(job.case.inputs)
            if i not in places and a is not None
        }
        rows: list[Any] = [("Transpose", f"x{i}", f"t{i}", {"perm": [0, 2, 3, 1]}) for i in places]
        reads = " ".join(
            f"t{i}" if i in places else f"c{i}" if a is not None else "_"
            for i, a in enumerate(job.case.inputs)
        )
        rows += [(name, reads, "r", job.case.attrs)] if "_" not in reads else []
        rows += [("Transpose", "r", "y", {"perm": [0, 3, 1, 2]})]
        if len(rows) != len(places) + 2:
            continue
        kinds = {f"x{i}": onnx.helper.np_dtype_to_tensor_dtype(a.dtype) for i, a in spread.items()}
        kinds["y"] = onnx.helper.np_dtype_to_tensor_dtype(job.want[0].dtype)
        shapes = {f"x{i}": [2, 3, 4, 5] for i in places}
        proto = model(rows, shapes, {"y": None}, rest, dtypes=kinds)
        proto.opset_import[0].version = onnx.defs.onnx_opset_version()
        return proto
    return None


@pytest.mark.parametrize("name", [o.name for o in operators() if o.trait(Elementwise)])
def test_transposes_around_an_elementwise_operator_vanish(name: str) -> None:
    """One call and no arena; a call more for each operand of a chain."""
    if name == "Dropout":
        return
    proto = between_transposes(name)
    assert proto is not None
    compiled = compile_model(proto, Options())
    chained = max(0, len(proto.graph.input) - 2) if name in ("Max", "Mean", "Min", "Sum") else 0
    calls = [c.kernel for c in compiled.program.calls]
    assert not any("transpose" in c or "gather" in c for c in calls), calls
    assert len(calls) <= 1 + chained + (name == "Mean"), calls
    assert chained or compiled.plan.arena_bytes == 0, calls


@pytest.mark.parametrize("name", ["Dropout", "QuantizeLinear", "DequantizeLinear"])
def test_transposes_around_other_operators_of_one_element_vanish(name: str) -> None:
    """Operators that are elementwise at inference or with one scale: one call and no arena."""
    scale = {} if name == "Dropout" else {"s": np.float32(0.1), "z": np.int8(3)}
    kind = onnx.TensorProto.INT8 if name.startswith("De") else onnx.TensorProto.FLOAT
    rows = [("Transpose", "x", "t", {"perm": [0, 2, 3, 1]}), (name, " ".join(["t", *scale]), "r")]
    rows += [("Transpose", "r", "y", {"perm": [0, 3, 1, 2]})]
    other = onnx.TensorProto.INT8 if name.startswith("Qu") else onnx.TensorProto.FLOAT
    proto = model(rows, {"x": [2, 3, 4, 5]}, {"y": None}, scale, dtypes={"x": kind, "y": other})
    compiled = compile_model(proto, Options())
    assert len(compiled.program.calls) == 1 and compiled.plan.arena_bytes == 0


def test_a_trait_of_another_operand_is_refused() -> None:
    with pytest.raises(BackendError, match="Toy: Elementwise names z"):
        operator("Toy", "x", domain="acme", traits=[Elementwise("z")])
    with pytest.raises(BackendError, match=r"ai.onnx.Relu has two records"):
        operator("Relu", "x")
    assert aot.__version__


def test_an_operand_is_no_result() -> None:
    with pytest.raises(BackendError, match="Toy: mean is both an operand and a result"):
        operator("Toy", "x mean", "y mean?")


def test_an_interface_asks_the_operator_of_a_node() -> None:
    asked: Interface[str] = Interface("asked")
    asked("Relu Elu")("unary")
    asked("Relu", domain="of.others")("theirs")
    nodes = [onnx_ir.node(name, []) for name in ("Relu", "Elu", "Selu")]
    assert [asked.of(node) for node in nodes] == ["unary", "unary", None]
    assert asked.of(onnx_ir.node("Relu", [], domain="of.others")) == "theirs"
    assert list(asked.operators()) == [("", "Elu"), ("", "Relu"), ("of.others", "Relu")]
    with pytest.raises(BackendError, match=r"ai.onnx.Elu: two rules of asked"):
        asked("Elu")("binary")
