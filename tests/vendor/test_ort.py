# SPDX-License-Identifier: Apache-2.0
"""onnxruntime as a vendor: its own cases, a network with an operator that nobody else takes, what
is said of bad input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import harness
import merged
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

from aot.cli import main as aotc
from aot.ops.registry import load_all
from aot.vendor import BackendOptions, UsageError
from aot.vendor.ort.engine import OTHERS, backend, configure
from aot.vendor.pattern import root_ops
from graphs import model

WHEEL = Path(onnxruntime.__file__).parent / "capi"


def network(path: Path) -> Path:
    """Distances between rows of a product and constant points, between operators of portable C."""
    r = np.random.default_rng(2)
    consts = {
        "w": r.standard_normal((6, 4)).astype(np.float32),
        "points": r.standard_normal((5, 4)).astype(np.float32),
        "scale": np.float32(-0.1),
    }
    rows = [
        ("MatMul", "x w", "a"),
        ("com.microsoft.CDist", "a points", "d", {"metric": "sqeuclidean"}),
        ("Mul", "d scale", "e"),
        ("Softmax", "e", "y"),
    ]
    proto = model(rows, {"x": [3, 6]}, {"y": [3, 5]}, consts, domains=("com.microsoft",))
    onnx.save(proto, path)
    return path


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ort_ROOT", str(WHEEL))


def compiled(tmp_path: Path, *more: str) -> Path:
    out = tmp_path / "out"
    words = [str(network(tmp_path / "net.onnx")), "-o", str(out), "--backend", "ort", *more]
    assert aotc(words) == 0
    return out


def configured(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["cmake", "-S", str(out / "bundle"), "-B", str(out), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_own_cases_are_taken_and_right(tmp_path: Path) -> None:
    parts = []
    for job in harness.collect(patterns=backend.patterns):
        assert not job.error and job.model is not None, job.error
        given = harness.feeds(job.model, job.case)
        part = merged.Part(job.label, job.model, given, job.want, job.case)
        assert merged.taken_by(part, "ort") == [job.label.partition("[")[0]]
        parts.append(part)
    assert [p.label for p in parts] == [f"{name.rpartition('.')[2]}[0]" for name in OTHERS]
    out = tmp_path / "out"
    arrays = merged.compile_parts(parts, "ort", out)
    merged.build(out, {"ort_ROOT": str(WHEEL)})
    assert not merged.run(parts, arrays, out)


def test_one_operator_of_a_network_is_onnxruntimes(tmp_path: Path) -> None:
    out = compiled(tmp_path)
    subprocess.run(["cmake", "--build", str(out)], check=True, capture_output=True)
    assert aotc(["verify", str(out), "--reference", "ort"]) == 0
    rows = json.loads((out / "bundle" / "manifest.json").read_text())
    assert [r["backend"] for r in rows["nodes"]] == ["c", "ort", "c", "c"]
    done = configured(out, "-DAOT_ORT=OFF")
    assert done.returncode != 0 and "CDist" in done.stderr


def test_without_the_vendor_the_operator_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = network(tmp_path / "net.onnx")
    assert aotc([str(path), "-o", str(tmp_path / "out"), "--no-configure"]) != 0
    assert "CDist" in capsys.readouterr().err


def test_portable_c_computes_none_of_the_operators() -> None:
    known = {kind for p in load_all().patterns for kind in root_ops(p.graph)}
    for name in OTHERS:
        domain, _, op_type = name.rpartition(".")
        assert (domain, op_type) not in known


def test_named_operators_are_taken_in_place_of_those(tmp_path: Path) -> None:
    rows = [("Relu", "x", "a"), ("Softmax", "a", "y")]
    proto = model(rows, {"x": [2, 3]}, {"y": [2, 3]})
    for name, want in (("ort", ["c", "c"]), ("ort:Softmax", ["c", "ort"])):
        items = merged.partition_of(proto, (name,)).items
        assert [s.backend for s in items] == want


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (BackendOptions("Sofmax"), "no operator 'Sofmax'"),
        (BackendOptions("Conv+"), "no operator ''"),
        (BackendOptions("", {"threads": "2"}), "ort has no option 'threads'"),
    ],
)
def test_bad_configurations_are_named(said: BackendOptions, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        configure(said)


@pytest.mark.parametrize(
    ("row", "x", "kind", "words"),
    [
        (("CDist", "x z", "y", {"metric": "taxi"}), [2, 1], TensorProto.FLOAT, "onnxruntime"),
        (("DynamicTimeWarping", "x", "y"), [2, 3], TensorProto.FLOAT, "one row or one column"),
        (("BifurcationDetector", "x x z x", "y v"), [3], TensorProto.INT64, "predicted tokens"),
        (("SparseAttention", "x x x x x x x x x", "y"), [2], TensorProto.FLOAT, "over its inputs"),
    ],
)
def test_a_node_that_onnxruntime_cannot_compute_is_named(
    row: tuple[Any, ...],
    x: list[int],
    kind: int,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = (f"com.microsoft.{row[0]}", *row[1:])
    inputs = {name: x if name == "x" else [1] * len(x) for name in "xz" if name in row[1].split()}
    kinds = dict.fromkeys("xzy", kind)
    proto = model([named], inputs, {"y": None}, None, kinds, domains=("com.microsoft",))
    onnx.save(proto, tmp_path / "net.onnx")
    command = [
        str(tmp_path / "net.onnx"),
        "-o",
        str(tmp_path / "out"),
        "--backend",
        f"ort:{named[0]}",
    ]
    assert aotc([*command, "--no-configure"]) != 0
    text = capsys.readouterr().err
    assert words in text and f"node n0_{row[0]}" in text


def test_a_missing_and_an_old_library_are_named(tmp_path: Path) -> None:
    out = compiled(tmp_path, "--no-configure")
    (tmp_path / "empty").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "libonnxruntime.so.1.2.0").touch()
    for folder, why in (("empty", "its library was not found"), ("old", "so.1.2.0 is too old")):
        done = configured(out, f"-Dort_ROOT={tmp_path / folder}")
        text = " ".join(done.stderr.split())
        assert done.returncode != 0 and why in text, text
        assert "It computes node" in text and "pip install onnxruntime" in text
