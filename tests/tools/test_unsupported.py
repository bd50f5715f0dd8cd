# SPDX-License-Identifier: Apache-2.0
"""All reasons at once, and where to cut a model so that the rest is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from aot.cli import main
from aot.errors import UnsupportedError
from aot.tools.run import open_out
from aot.tools.verify import Request, verify
from graphs import model


def network(head: bool = True, tail: bool = True) -> onnx.ModelProto:
    """Four operators of ONNX between one that is unknown and a reversed Gather of 9 axes."""
    rows = [
        ("own.Tokens", "t", "k") if head else ("Identity", "t", "k"),
        ("MatMul", "x w", "a"),
        ("Relu", "a", "b"),
        ("Gather", "b k", "c", {"axis": 1}),
        ("Sigmoid", "c", "d"),
        ("own.Tail", "d", "y") if tail else ("Neg", "d", "y"),
    ]
    kinds = {"t": onnx.TensorProto.INT64}
    weights = {"w": np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)}
    inputs = {"x": [2, 4], "t": [3]}
    return model(rows, inputs, {"y": [2, 3]}, weights, kinds, domains=("own",))


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(proto, folder / "net.onnx")
    return folder / "net.onnx"


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(["explain", "--unsupported", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_every_reason_and_the_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(network(), tmp_path)
    text = said(capsys, path)
    assert "own.Tokens" in text and "own.Tail" in text
    assert "to compile 4 of 6 nodes: --cut-inputs k --cut-outputs d" in text
    record = json.loads(said(capsys, path, "--json"))
    assert [r["what"].split()[0] for r in record["reasons"]] == ["n0_Tokens", "n5_Tail"]


def test_reasons_of_later_stages_are_among_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Inference, which comes behind the check of operators, refuses the Resize."""
    rows = [
        ("own.F", "x", "a"),
        ("Relu", "z", "r"),
        ("ReduceSum", "r axes", "b"),
        ("Add", "a b", "y"),
    ]
    shapes = {"x": [1, 4], "z": [1, 4], "axes": [1]}
    kinds = {"axes": onnx.TensorProto.INT64}
    path = saved(model(rows, shapes, {"y": None}, None, kinds, domains=("own",)), tmp_path)
    text = said(capsys, path)
    assert "own.F" in text and "n2_ReduceSum" in text and "not judged: 1 node " in text


def test_a_model_that_is_supported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, saved(network(False, False), tmp_path)) == "every node is supported\n"


def test_open_dimensions_are_assumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto = network(False)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    text = said(capsys, saved(proto, tmp_path))
    assert "assumed: --dim N=1" in text
    assert "to compile 5 of 6 nodes: --cut-outputs d --dim N=1" in text


def test_the_refusal_of_a_compilation_names_the_cut(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        aot.compile(network(), tmp_path / "out")
    assert "add --cut-inputs k --cut-outputs d" in caught.value.advice()
    with pytest.raises(UnsupportedError) as again:
        aot.compile(network(), tmp_path / "out", cut_inputs=["b", "k"])
    assert "add --cut-outputs d" in again.value.advice()
    assert "--cut-inputs" not in again.value.advice()


def test_nothing_is_proposed_where_little_is_left(tmp_path: Path) -> None:
    rows = [
        ("own.A", "x", "a"),
        *((f"own.B{i}", f"{'a' if not i else i - 1}", f"{i}") for i in range(8)),
    ]
    proto = model([*rows, ("Relu", "7", "y")], {"x": [1]}, {"y": [1]}, domains=("own",))
    with pytest.raises(UnsupportedError) as caught:
        aot.compile(proto, tmp_path / "out")
    assert "--cut" not in caught.value.advice()


def test_the_part_is_compiled_run_and_verified(tmp_path: Path) -> None:
    path = saved(network(), tmp_path)
    words = [str(path), "-o", str(tmp_path / "out"), "-q", "--input-shape", "k=3"]
    assert main([*words, "--cut-inputs", "k", "--cut-outputs", "d"]) == 0
    bundle = aot.Bundle(tmp_path / "out").build()
    assert [i["name"] for i in bundle.manifest["inputs"]] == ["x", "k"]
    report = verify(open_out(bundle.out), Request(per_node=True), lambda _: None)
    assert report.passed and [d.name for d in report.outputs] == ["d"] and report.nodes
