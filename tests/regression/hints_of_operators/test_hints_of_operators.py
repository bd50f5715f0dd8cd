# SPDX-License-Identifier: Apache-2.0
"""Operators that are refused came without a hint: custom ones, and probabilities of an SVC."""

from __future__ import annotations

from pathlib import Path

import pytest

from aot.cli import main
from graphs import model

SVC = {
    "classlabels_ints": [0, 1],
    "coefficients": [1.0, -1.0],
    "kernel_params": [0.5, 0.0, 3.0],
    "kernel_type": "RBF",
    "prob_a": [-1.0, 2.0],  # for the one pair
    "prob_b": [0.1, 0.2],
    "rho": [0.2],
    "support_vectors": [1.0, 2.0, 3.0, 4.0],
    "vectors_per_class": [1, 1],
}


def compiled(row: tuple, domain: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of compiling a model of one node into `folder`."""
    monkeypatch.chdir(folder)
    kinds = {"label": 7}
    outputs = dict.fromkeys(row[2].split())
    domains = [domain] if domain else []
    proto = model([row], {"x": [1, 2]}, outputs, dtypes=kinds, domains=domains)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return main(["m.onnx", "-o", "out", "--no-configure"])


@pytest.mark.parametrize(
    ("op", "domain", "hint"),
    [
        ("my.ops.Gadget", "my.ops", "hint: export it as operators of ONNX"),
        ("my.ops.Gadget", "", "hint: export it as operators of ONNX"),
        ("Gadget", "", "hint: export it as operators of ONNX"),
        ("Sofmax", "", "hint: did you mean Softmax?"),
    ],
)
def test_operators_of_others(
    op: str,
    domain: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compiled((op, "x", "y"), domain, tmp_path, monkeypatch) == 1
    said = capsys.readouterr().err
    assert hint in said and "`aotc new-backend mine`" in said
    assert main(["new-backend", "mine"]) == 0  # what the hint says to type


@pytest.mark.parametrize(
    ("op", "domain", "hint"),
    [
        ("ReorderInput", "com.microsoft.nchwc", "ORT_ENABLE_EXTENDED"),
        ("BertTokenizer", "ai.onnx.contrib", "name the results of these nodes with --cut-inputs"),
    ],
)
def test_operators_of_domains(
    op: str,
    domain: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compiled((f"{domain}.{op}", "x", "y"), domain, tmp_path, monkeypatch) == 1
    assert hint in capsys.readouterr().err


def test_probabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "ai.onnx.ml.SVMClassifier"
    row = (name, "x", "label y", SVC)
    assert compiled(row, "ai.onnx.ml", tmp_path, monkeypatch) == 1
    said = capsys.readouterr().err
    assert "prob_a" in said and "hint: train the classifier without them" in said
    without = {k: v for k, v in SVC.items() if not k.startswith("prob")}
    assert compiled((name, "x", "label y", without), "ai.onnx.ml", tmp_path, monkeypatch) == 0
