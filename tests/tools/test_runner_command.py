# SPDX-License-Identifier: Apache-2.0
"""--runner: the command that runs a bundle's program in place of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aot.cli import main
from aot.tools.build import build
from aot.tools.emulate import by_runner
from graphs import model


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runner")
    (folder / "net.onnx").write_bytes(
        model([("Relu", "x", "y")], {"x": ["n", 8]}, {"y": ["n", 8]}).SerializeToString()
    )
    words = [str(folder / "net.onnx"), "-o", str(folder / "out"), "--dim", "n=1..4", "-q"]
    assert main(words) == 0
    build(folder / "out")
    return folder / "out"


def test_the_command_gets_the_program(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "elsewhere"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/seen\ncd /\nexec "$@"\n')
    script.chmod(0o755)
    words = ["bench", str(out), "--repeat", "3", "--json", str(tmp_path / "b.json")]
    assert main([*words, "--runner", f"{script} {{}}"]) == 0
    assert f", by {script} {{}}" in capsys.readouterr().out
    seen = (tmp_path / "seen").read_text().split()
    assert seen[0] == str(out / "bin" / "net")
    assert "--repeat" in seen
    assert json.loads((tmp_path / "b.json").read_text())["runner"] == f"{script} {{}}"


def test_words_of_a_runner() -> None:
    host = {"system": "linux", "arch": "x86_64"}
    made = by_runner("nice -n 5 {} --end", host, Path("/srv/net"), ["--repeat", "3"])
    assert made == ["nice", "-n", "5", "/srv/net", "--repeat", "3", "--end"]
    assert by_runner("nice", host, Path("/srv/net"), ["-v"]) == ["nice", "/srv/net", "-v"]


@pytest.mark.parametrize(
    ("runner", "said"),
    [
        ("no-such-command {}", "no-such-command is no command here"),
        ("{}", "{} is no command here"),
        ("ssh 'host", "No closing quotation"),
    ],
)
def test_wrong_runners(
    out: Path, runner: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(out), "--runner", runner]) == 2
    printed = capsys.readouterr().err
    assert f"--runner {runner}: {said}" in printed
    assert "hint: for instance --runner 'ssh HOST {}'" in printed


def test_a_runner_that_fails_is_named(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(out), "--runner", "false"]) == 1
    assert "net (by --runner false) failed: exit status 1" in capsys.readouterr().err


def test_tune_measures_by_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.onnx").write_bytes(
        model([("Relu", "x", "y")], {"x": [1, 8]}, {"y": [1, 8]}).SerializeToString()
    )
    words = ["tune", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "c.json"), "--rounds", "1"]
    assert main([*words, "--backend", "accel_sim", "--runner", "no-such {}"]) in (1, 2)
    assert "--runner no-such {}" in capsys.readouterr().err
