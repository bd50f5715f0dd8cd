# SPDX-License-Identifier: Apache-2.0
"""The records of operators promise nothing that their cases disprove, and forget nothing.

`traits.py` proves the promises; its proofs, turned round, find operators for which a trait holds
that no record claims. Beside them: elementwise operators work between Transposes, and a record
that names what it has not is refused.
"""

from __future__ import annotations

from typing import Any

import harness
import numpy as np
import onnx
import onnx_ir
import pytest
import traits
from computed import compute, declared
from proofs_places import broadcast, elementwise

import aot
from aot.errors import BackendError
from aot.ir.operators import (
    Elementwise,
    Interface,
    Operator,
    operator,
    operator_named,
    operators,
)
from aot.options import Options
from aot.pipeline import compile_model
from aot.vendor.cases import Case
from graphs import model

#: Elementwise by accident or by the sizes of their cases: what no record may claim.
NOT_ELEMENTWISE = {
    "Bernoulli": "draws numbers",
    "DequantizeLinear": "per axis where the scale is no scalar",
    "QuantizeLinear": "per axis where the scale is no scalar",
}


@pytest.mark.parametrize("record", list(operators()), ids=traits.label)
def test_operators_keep_what_they_claim(record: Operator) -> None:
    """All that a record says holds on the operator's cases with other numbers."""
    assert not traits.prove(record), traits.prove(record)[0]


def test_no_elementwise_operator_is_forgotten() -> None:
    """Operators whose cases all show the trait, and that do not claim it."""
    names = {p.name for p in harness.load_all().patterns if harness.single(p.graph)}
    missed = []
    for name in sorted(n for n in names if operator_named(n) is None and "." not in n):
        found = [c for c in declared(Operator(name, ())) if c.inputs and c.outputs == 1]
        count = max((len(c.inputs) for c in found), default=0)
        record = Operator(name, tuple(f"x{i}" for i in range(count)))
        if found and all(shows(record, one) for one in found):
            missed.append(name)
    assert set(missed) <= set(NOT_ELEMENTWISE), missed


def shows(record: Operator, one: Case) -> bool:
    """Whether the case of an operator without a record has elements that keep to their places."""
    try:
        size = compute(record, one.inputs, one.attrs).size
        return size > 1 and elementwise(record, Elementwise(), one)
    except Exception:  # other shapes than the operator takes
        return False


def between_transposes(name: str) -> onnx.ModelProto | None:
    """Transpose, the operator, Transpose back: on the first case that has four axes."""
    record = operator_named(name)
    assert record is not None
    for one in declared(record):
        trait = record.trait(Elementwise)
        assert trait is not None
        places, shape = broadcast(record, trait, one)
        want = compute(record, one.inputs, one.attrs)
        if want.size < 2 or len(places) < 1:
            continue
        spread = {
            i: np.resize(np.broadcast_to(np.asarray(one.inputs[i]), shape), (2, 3, 4, 5))
            for i in places
        }
        rest = {
            f"c{i}": np.asarray(a)
            for i, a in enumerate(one.inputs)
            if i not in places and a is not None
        }
        rows: list[Any] = [("Transpose", f"x{i}", f"t{i}", {"perm": [0, 2, 3, 1]}) for i in places]
        reads = " ".join(
            f"t{i}" if i in places else f"c{i}" if a is not None else "_"
            for i, a in enumerate(one.inputs)
        )
        rows += [(name, reads, "r", one.attrs)] if "_" not in reads else []
        rows += [("Transpose", "r", "y", {"perm": [0, 3, 1, 2]})]
        if len(rows) != len(places) + 2:
            continue
        kinds = {f"x{i}": onnx.helper.np_dtype_to_tensor_dtype(a.dtype) for i, a in spread.items()}
        kinds["y"] = onnx.helper.np_dtype_to_tensor_dtype(want.dtype)
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
