# SPDX-License-Identifier: Apache-2.0
"""The command line: options become Options, later capabilities are refused by name."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import reference
from aot.cli import examples, main, parser
from aot.cli.compile import options_of
from aot.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


def parsed(*words: str):
    return options_of(parser.compile_parser().parse_args(["m.onnx", "-o", "out", *words]))


def test_defaults_are_those_of_the_record() -> None:
    from aot.options import Options

    assert parsed() == Options()


def test_pins() -> None:
    options = parsed(
        *("--dim", "batch=1", "--dim", "a=b=3", "--input-shape", "x:0=1,3,-1"),
        *("--input-shape", "s=", "--bind", "k=2.5", "--bind", "v=1,2", "--bind", "t=true"),
    )
    assert options.dims == {"batch": 1, "a=b": 3}
    assert options.input_shapes == {"x:0": (1, 3, -1), "s": ()}
    assert options.bindings == {"k": 2.5, "v": [1, 2], "t": True}


def test_budget_suffixes_are_1024() -> None:
    assert parsed("--ram", "3K").ram == 3072
    assert parsed("--ram", "2m").ram == 2 << 20


@pytest.mark.parametrize(
    "words",
    [
        ["--dim", "n"],
        ["--dim", "n=-1"],
        ["--dim", "n=1e3"],
        ["--input-shape", "x=1,-2"],
        ["--input-shape", "x=1,a"],
        ["--bind", "x=cat"],
        ["--bind", "x=missing.npy"],
        ["--ram", "0"],
        ["--ram", "1G"],
        ["--threads", "0"],
        ["--io", "heap"],
        ["--accuracy", "exact"],
        ["--plan-effort", "-1"],
        ["--dump-after", "magic"],
        ["--dim", "n=1", "--dim", "n=2"],
        ["--backend", "a b"],
        ["--unknown"],
        ["--targ", "host"],
        ["second.onnx"],
    ],
)
def test_usage_errors(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["m.onnx", "-o", "out", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("aotc: ")
    assert len(captured.err.splitlines()) <= 8


def test_usage_error_is_one_class() -> None:
    with pytest.raises(UsageError):
        parser.compile_parser().parse_args([])


def test_energy_needs_a_backend_that_knows_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["m.onnx", "-o", "out", "--objective", "energy"]) == 1
    error = capsys.readouterr().err
    assert "portable C, the only backend here, has no model of energy" in error
    assert "accel_sim" in error


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_answers_at_once_without_heavy_imports(flag: str) -> None:
    code = (
        "import sys, time, contextlib, io\n"
        "from aot.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()) as text: code = main([sys.argv[1]])\n"
        "assert code == 0 and 'aotc' in text.getvalue()\n"
        "heavy = {'onnx', 'onnx_ir', 'numpy', 'onnxruntime', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "print(time.process_time())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, flag], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.15


def test_no_arguments_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "no model given" in capsys.readouterr().err


def test_subcommand_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in parser.COMMANDS:
        assert main([name, "--help"]) == 0
        assert f"aotc {name}" in capsys.readouterr().out


def test_every_example_is_accepted() -> None:
    """Help ends with examples: at least one per subcommand, and each parses as it stands."""
    assert set(examples.EXAMPLES) == {"", *parser.COMMANDS}
    for name, text in examples.EXAMPLES.items():
        made = parser.command_parser(name) if name else parser.compile_parser()
        lines = text.splitlines()
        assert lines and text.endswith("\n") and made.format_help().count(text) == 1
        for line in lines:
            words = shlex.split(re.split("&&|>", line)[0])
            assert words[: 1 + bool(name)] == ["aotc", *([name] if name else [])], line
            made.parse_args(words[1 + bool(name) :])


def test_help_is_in_groups() -> None:
    text = parser.compile_parser().format_help()
    titles = ["backends:", "shapes and parts of the model:", "budgets:", "messages:"]
    places = [text.index(f"\n{t}\n") for t in titles]
    assert places == sorted(places)
    assert places[0] < text.index("\n  --backend A,B") < places[1] < text.index("\n  --dim ")
    assert places[2] < text.index("\n  --flash N") < places[3] < text.index("\n  --json ")
    for name in parser.COMMANDS:
        assert text.count(f"\n    {name} ") == 1


def test_flags_may_stand_before_a_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "targets"]) == 0
    assert capsys.readouterr().out.startswith("[")


def test_a_model_named_like_a_subcommand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").write_bytes(b"\xff\xff")
    assert main(["./run", "-o", "out"]) == 1
    assert "not an ONNX model" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_docs_are_current() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == reference.page("cli.md"), "run `make docs`"


def test_python_m_aot() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "aot", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("aotc ")
