# SPDX-License-Identifier: Apache-2.0
"""`aotc model.onnx -o "$OUT"` with OUT unset turned the current folder into a build tree."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from aot.cli import main
from graphs import model


def test_an_empty_output_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model([("Relu", "x", "y")], {"x": [2]}, {"y": [2]}), "relu.onnx")
    assert main(["relu.onnx", "-o", ""]) == 2
    assert "empty" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["relu.onnx"]
