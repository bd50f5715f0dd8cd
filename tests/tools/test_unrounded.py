# SPDX-License-Identifier: Apache-2.0
"""`aotc verify` where the reference rounds a sum away: the model in wider floats decides, within
the same tolerance.
"""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T, helper, numpy_helper

import aot
import graphs
from aot.options import Options
from aot.tools.reference import OnnxReference
from aot.tools.run import open_out
from aot.tools.unrounded import HALVES, SINGLE, Unrounded, rounded, widen
from aot.tools.verify import Request, verify

KINDS = {T.FLOAT16: np.dtype(np.float16), T.BFLOAT16: np.dtype(ml_dtypes.bfloat16)}


def network(weight: float) -> onnx.ModelProto:
    """x times `weight`, to which 60 small numbers are added: each sum, rounded to bfloat16, is what
    it was.
    """
    nodes = [("MatMul", "x w", "s0", {})]
    for i in range(60):
        nodes.append(("Sigmoid", f"s{i}", f"g{i}", {}))
        nodes.append(("Mul", f"g{i} step", f"m{i}", {}))
        nodes.append(("Add", f"s{i} m{i}", f"s{i + 1}", {}))
    bf16 = KINDS[T.BFLOAT16]
    constants = {"w": np.full((1, 1), weight, bf16), "step": np.array(2.0**-9, bf16)}
    ends = {"x": T.BFLOAT16, "s60": T.BFLOAT16}
    return graphs.model(nodes, {"x": (4, 1)}, {"s60": (4, 1)}, constants, ends)


def test_a_sum_that_the_reference_rounds_away(tmp_path: Path) -> None:
    """The model in float32 decides for it, and not for a bundle of other weights."""
    for name, weight in (("net", 1.0), ("other", 1.5)):
        onnx.save(network(weight), tmp_path / f"{name}.onnx")
    aot.compile(tmp_path / "net.onnx", tmp_path / "out", name="net").build()
    x = np.linspace(1, 2, 4, dtype=np.float32).reshape(4, 1)
    np.savez(tmp_path / "x.npz", x=rounded(x, "bfloat16"))
    built, reports = open_out(tmp_path / "out"), []
    for name in ("net", "other"):
        request = Request(tmp_path / "x.npz", "onnx", model=tmp_path / f"{name}.onnx")
        reports.append(verify(built, request, lambda _: None))
    good, bad = reports
    assert good.passed, good.text()
    shown, decides = good.outputs
    assert "differs" in shown.text() and "in float32, from which the reference is" in decides.name
    assert decides.max_abs <= 2.0**-7 < 0.05 < shown.max_abs
    assert not bad.passed
    wrong, shown = bad.outputs
    assert "MISMATCH" in wrong.text() and shown.passed and "differs" in shown.text()


def shifted(scale: float, far: float) -> onnx.ModelProto:
    """x times `scale`, plus `far`, minus `far`: float32 rounds the sum, a bundle makes none."""
    nodes = [("Conv", "x w", "c", {}), ("Add", "c far", "d", {}), ("Sub", "d far", "y", {})]
    w = np.full((1, 1, 1), scale, np.float32)
    constants = {"w": w, "far": np.full((1, 1), far, np.float32)}
    return graphs.model(nodes, {"x": (1, 1, 64)}, {"y": (1, 1, 64)}, constants)


def test_a_sum_that_the_reference_rounds_in_float32(tmp_path: Path) -> None:
    """The model in float64 decides for it, and not for a bundle of other weights, nor where the
    reference is so far from float64 that it may mean something else.
    """
    given = np.linspace(1, 2, 64, dtype=np.float32).reshape(1, 1, 64)
    np.savez(tmp_path / "x.npz", x=given)
    reports = []
    for far, scale in ((1e5, 1.0), (1e5, 1.01), (1e7, 1.0)):
        onnx.save(shifted(1.0, far), tmp_path / "net.onnx")
        aot.compile(tmp_path / "net.onnx", tmp_path / "out", name="net").build()
        onnx.save(shifted(scale, far), tmp_path / "other.onnx")
        request = Request(tmp_path / "x.npz", "onnx", model=tmp_path / "other.onnx")
        reports.append(verify(open_out(tmp_path / "out"), request, lambda _: None))
    assert [r.passed for r in reports] == [True, False, False]
    shown, decides = reports[0].outputs
    assert "differs" in shown.text() and "in float64, from which the reference is" in decides.name
    assert decides.max_abs <= 1e-6 < 2e-3 < shown.max_abs


def test_large_models_are_not_widened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay with the reference."""
    onnx.save(shifted(1.0, 1e5), tmp_path / "net.onnx")
    inputs = {"x": np.ones((1, 1, 64), np.float32)}
    opened = Unrounded(tmp_path / "net.onnx", None, [], Options())
    assert opened(tmp_path, inputs)["y"].dtype == np.float64
    monkeypatch.setattr("aot.tools.unrounded.LARGEST", 7)  # w and far are 8 bytes
    assert Unrounded(tmp_path / "net.onnx", None, [], Options())(tmp_path, inputs) == {}


def test_constants_of_nodes_in_float64() -> None:
    """Those that are attributes, too: onnx.reference adds no float32 to a float64."""
    nodes = [("Constant", "", "k", {"value_float": 0.1}), ("Add", "x k", "y", {})]
    model = graphs.model(nodes, {"x": (2,)}, {"y": (2,)})
    assert widen(model, SINGLE) and not widen(model, SINGLE)
    onnx.checker.check_model(model, full_check=True)
    assert model.graph.output[0].type.tensor_type.elem_type == T.DOUBLE


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_elements_along_a_long_axis(axis: int, tmp_path: Path) -> None:
    """onnx.reference's own operator takes no axis of more than 64 elements."""
    rng = np.random.default_rng(0)
    data, at = rng.random((99, 99)).astype(np.float32), rng.integers(-99, 99, (99, 99))
    nodes = [("GatherElements", "x at", "y", {"axis": axis})]
    model = graphs.model(nodes, {"x": (99, 99)}, {"y": (99, 99)}, {"at": at})
    onnx.save(model, tmp_path / "net.onnx")
    found = OnnxReference(tmp_path / "net.onnx", [])({"x": data}, ["y"])["y"]
    assert np.array_equal(found, np.take_along_axis(data, at, axis))


@pytest.mark.parametrize("kind", KINDS)
def test_every_half_is_widened(kind: int) -> None:
    """Inputs, initialisers, constants of nodes and bodies, the types that Cast and others make."""
    one = numpy_helper.from_array(np.ones((), KINDS[kind]), "one")
    inner = [helper.make_node("Constant", [], ["k"], value=one)]
    inner += [helper.make_node("Add", ["c", "k"], ["b"])]
    body = helper.make_graph(inner, "body", [], [helper.make_tensor_value_info("b", kind, [2])])
    nodes = [
        helper.make_node("Cast", ["i"], ["c"], to=kind),
        helper.make_node("If", ["q"], ["d"], then_branch=body, else_branch=body),
        helper.make_node("Mul", ["d", "one"], ["y"]),
    ]
    ends = [("i", T.INT64, [2]), ("q", T.BOOL, [])]
    inputs = [helper.make_tensor_value_info(*e) for e in ends]
    outputs = [helper.make_tensor_value_info("y", kind, [2])]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, [one]), ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    assert widen(model, HALVES)
    onnx.checker.check_model(model, full_check=True)
    assert f" {kind}" not in str(model.graph.output) and not widen(model, HALVES)
    text = onnx.printer.to_text(model)
    assert "float16" not in text


def test_inputs_of_types_that_numpy_lacks(tmp_path: Path) -> None:
    """The reference took the bits of a bfloat16 for an integer."""
    model = graphs.model([("Neg", "x", "y", {})], {"x": (3,)}, {"y": (3,)}, {}, {"x": 16, "y": 16})
    onnx.save(model, tmp_path / "net.onnx")
    aot.compile(tmp_path / "net.onnx", tmp_path / "out").build()
    report = verify(open_out(tmp_path / "out"), Request(reference="onnx"), lambda _: None)
    assert report.passed and len(report.outputs) == 1
