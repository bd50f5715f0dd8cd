# SPDX-License-Identifier: Apache-2.0
"""A pattern of RegexFullMatch with 20 000 brackets, or as many repetitions, ended in Python's limit
of recursion, or one with a number of 5000 digits in int's, and the user was asked to report a bug.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from aot.cli import main
from aot.load.regex import compile_regex
from graphs import model


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(" * 20_000 + ")" * 20_000, "brackets nest deeper than 100"),
        ("(" * 20_000, "brackets nest deeper than 100"),
        ("a" + "*" * 20_000, "it nests too deeply"),
        ("a{" + "1" * 5000 + "}", "repetition {1111"),
    ],
)
def test_the_pattern_is_at_fault(
    pattern: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("RegexFullMatch", "x", "y", {"pattern": pattern})]
    kinds = {"x": TensorProto.STRING, "y": TensorProto.BOOL}
    onnx.save(model(rows, {"x": [2]}, {"y": [2]}, dtypes=kinds), tmp_path / "m.onnx")
    line = [str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out"), "--no-configure"]
    assert main(line) == 1
    text = capsys.readouterr().err
    assert "RegexFullMatch" in text and says in text
    assert "report" not in text and "internal" not in text and len(text) < 400


def test_a_hundred_brackets_are_read() -> None:
    found = compile_regex("(" * 100 + "a|b" + ")*" * 100)
    assert found.matches(b"abba") and not found.matches(b"abc")
