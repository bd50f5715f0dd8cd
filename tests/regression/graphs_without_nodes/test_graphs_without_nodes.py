# SPDX-License-Identifier: Apache-2.0
"""Graphs of no nodes were refused, and outputs that are listed twice; both are valid.

What an output is may be an input, an initialiser, or what another output is.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot
from aot.cli import main

X = np.array([[1, -2], [3, -4]], np.float32)
Z = np.arange(3)
C = np.array([0.5, 0.25], np.float32)
VALUES = {"x": X, "z": Z, "c": C, "y": np.maximum(X, 0)}
#: Name: (nodes, outputs).
GRAPHS: dict[str, tuple[list[onnx.NodeProto], str]] = {
    "inputs": ([], "z x"),
    "an initialiser": ([], "c"),
    "an input twice": ([], "x x z"),
    "an initialiser twice": ([], "c x c"),
    "a constant": ([helper.make_node("Constant", [], ["k"], value_floats=C.tolist())], "k x"),
    "a result twice": ([helper.make_node("Relu", ["x"], ["y"])], "y c y x"),
}


def model(nodes: list[onnx.NodeProto], outputs: str) -> onnx.ModelProto:
    kinds = {"x": (TensorProto.FLOAT, [2, 2]), "z": (TensorProto.INT64, [3])}
    own = {"y": kinds["x"], "c": (TensorProto.FLOAT, [2]), "k": (TensorProto.FLOAT, [2])} | kinds
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, *kind) for n, kind in kinds.items()],
        [helper.make_tensor_value_info(n, *own[n]) for n in outputs.split()],
        [numpy_helper.from_array(C, "c")] if "c" in outputs.split() else [],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)
    onnx.checker.check_model(made)
    return made


@pytest.mark.sample(5)
@pytest.mark.parametrize("io", ["caller", "arena"])
@pytest.mark.parametrize("name", GRAPHS)
def test_outputs_are_what_they_are(name: str, io: str, tmp_path: Path) -> None:
    nodes, outputs = GRAPHS[name]
    found = aot.compile(model(nodes, outputs), tmp_path / "o", name="n", io=io).load()(X, Z)
    results = found if isinstance(found, list | tuple) else [found]
    assert len(results) == len(outputs.split())
    for output, got in zip(outputs.split(), results, strict=True):
        want = C if output == "k" else VALUES[output]
        assert got.dtype == want.dtype and (np.asarray(got) == want).all()


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out, made = tmp_path / "m.onnx", tmp_path / "o", tmp_path / "made.npz"
    onnx.save(model([], "x c x"), file)
    np.savez(tmp_path / "in.npz", x=X, z=Z)
    assert main(["inspect", str(file)]) == 0
    assert "operators: none\n" in capsys.readouterr().out
    assert main([str(file), "-o", str(out), "--test-data", str(tmp_path / "in.npz")]) == 0
    aot.api.Bundle(out).build()
    inputs = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(made)]
    assert main(["run", str(out), *inputs]) == 0
    with np.load(made) as arrays:
        assert sorted(arrays.files) == ["c", "x"]
        assert (arrays["x"] == X).all() and (arrays["c"] == C).all()
    header = (out / "bundle/include/tvmgen_m_model.h").read_text()
    assert "void *x_output_0;" in header and "void *x_output_2;" in header
