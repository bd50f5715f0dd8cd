# SPDX-License-Identifier: Apache-2.0
"""Numbers of threads that cannot be, and targets that have none."""

from __future__ import annotations

from pathlib import Path

import pytest

import aot
from aot.cli import main
from aot.errors import AotError, UnsupportedError, UsageError
from aot.options import Options

DIGITS = Path(__file__).resolve().parents[2] / "examples/digits/digits.onnx"


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ({"threads": 0}, UsageError, "--threads 0: not within 1..256"),
        ({"threads": 257}, UsageError, "--threads 257: not within 1..256"),
        ({"threads": "2"}, UsageError, "threads='2': not of type int"),
    ],
)
def test_numbers(given: dict[str, object], kind: type[AotError], says: str) -> None:
    with pytest.raises(kind) as error:
        Options(**given)  # type: ignore[arg-type]
    assert error.value.what == says


def test_boards_have_none(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as error:
        aot.compile(DIGITS, tmp_path / "o", target="cortex-m4", threads=2)
    assert error.value.what.startswith("--threads 2: target cortex-m4 has no operating system")
    with pytest.raises(UnsupportedError, match="--package make with --threads 2"):
        aot.compile(DIGITS, tmp_path / "o", package="make", threads=2)
    with pytest.raises(UnsupportedError, match="--single-file with --threads 2"):
        aot.compile(DIGITS, tmp_path / "o", single_file=True, threads=2)
    assert not (tmp_path / "o").exists()
    assert aot.compile(DIGITS, tmp_path / "o", target="cortex-m4", threads=1, configure=False)


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["m.onnx", "-o", "out", "--threads", "two"]) == 2
    assert "--threads" in capsys.readouterr().err
