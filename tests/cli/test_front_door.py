# SPDX-License-Identifier: Apache-2.0
"""First steps that went wrong: sizes in Python, paths almost right, options first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import aot
from aot.cli import main
from aot.errors import TargetError, UsageError, counted
from aot.options import Options

DIGITS = Path(__file__).resolve().parents[2] / "examples/digits/digits.onnx"


def test_budgets_are_spelled_as_on_the_command_line(tmp_path: Path) -> None:
    budgets = Options(ram="16K", flash="1mb", stack="512")  # type: ignore[arg-type]
    assert (budgets.ram, budgets.flash, budgets.stack) == (16384, 1 << 20, 512)
    with pytest.raises(UsageError, match=r"ram='1G': size '1G' is not a number of bytes \(K or"):
        aot.compile(DIGITS, tmp_path / "o", ram="1G")
    with pytest.raises(UsageError, match="ram=True: not of type int or None"):
        aot.compile(DIGITS, tmp_path / "o", ram=True)
    with pytest.raises(UsageError, match="out=3: not of type str or PathLike"):
        aot.compile(DIGITS, 3)  # type: ignore[arg-type]


def test_where_most_is_stack_no_smaller_shape_is_advised(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="the peak at ") as caught:
        aot.compile(DIGITS, tmp_path / "o", target="x86-64-v4", ram="1K", configure=False)
    assert "; most of the stack at " in str(caught.value)
    assert "smaller" not in str(caught.value) and "aotc size" in caught.value.hint


def test_an_option_before_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--target` resembles the subcommand targets, which was asked whether it was meant."""
    words = ["--target", "cortex-m4", str(DIGITS), "-o", str(tmp_path / "o"), "--no-configure"]
    assert main(words) == 0
    assert "digits: 6 calls" in capsys.readouterr().out


def test_a_path_almost_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    near = shutil.copy(DIGITS, tmp_path / "my digits.onnx")
    assert main([str(tmp_path / "my digit.onx"), "-o", str(tmp_path / "o")]) == 1
    assert f"hint: did you mean '{near}'?" in capsys.readouterr().err
    bundle = aot.compile(DIGITS, tmp_path / "o", configure=False)
    assert main(["size", str(bundle.out / "bundle")]) == 1
    assert f"give the folder in which it lies, {bundle.out}\n" in capsys.readouterr().err


def test_one_is_no_plural() -> None:
    assert [counted(n, "call") for n in (0, 1, 2)] == ["0 calls", "1 call", "2 calls"]
