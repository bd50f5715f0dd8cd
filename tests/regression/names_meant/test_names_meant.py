# SPDX-License-Identifier: Apache-2.0
"""A word that is nearly right was only told to be wrong; a name was changed without a word.

Options, subcommands, targets, backends, choices, dimensions and inputs: the hint names the word
that was meant. `--ram 4KB` was refused. `--dim` of a model without symbolic dimensions named none
of those that it has.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import aot
from aot.cli import main, parser
from aot.cli.compile import options_of
from aot.errors import UsageError
from graphs import model


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    relu = [("Relu", "image", "y")]
    for name, shape in (("open.onnx", ["batch", 4]), ("fixed.onnx", [1, 4])):
        proto = model(relu, {"image": shape}, {"y": None})
        (tmp_path / name).write_bytes(proto.SerializeToString())
    return tmp_path


CASES = [
    ("fixed.onnx -o out --targt host", 2, "--target"),
    ("fixed.onnx -o out --input-shapes=image=1,4", 2, "--input-shape"),
    ("inspect fixed.onnx --jsn", 2, "--json"),
    ("inspct fixed.onnx", 2, "inspect"),
    ("new-backed mine", 2, "new-backend"),
    ("fixed.onnx -o out --objective latncy", 2, "latency"),
    ("fixed.onnx -o out --dump-after normalize", 2, "normalise"),
    ("fixed.onnx -o out --weights embeded", 2, "embedded"),
    ("fixed.onnx -o out --target cortx-m4", 1, "cortex-m4"),
    ("fixed.onnx -o out --target Cortex-M4", 1, "cortex-m4"),
    ("fixed.onnx -o out --backend dnl", 1, "dnnl"),
    ("open.onnx -o out --dim bacth=4", 1, "batch"),
    ("inspect open.onnx --dim bacth=4", 1, "batch"),
    ("fixed.onnx -o out --input-shape imge=1,4", 1, "image"),
    ("fixed.onnx -o out --bind imge=1", 1, "image"),
]


@pytest.mark.parametrize(("line", "code", "meant"), CASES, ids=[c[0] for c in CASES])
def test_it_is_asked_what_was_meant(
    line: str, code: int, meant: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == code
    said = capsys.readouterr().err
    assert f"did you mean {meant}?" in said and len(said.splitlines()) <= 8
    assert not (here / "out").exists()


def test_options_in_python(here: Path) -> None:
    """The hint was a tuple of all options."""
    with pytest.raises(UsageError, match="no option 'targt'") as caught:
        aot.compile(here / "fixed.onnx", targt="host")  # type: ignore[call-arg]
    assert caught.value.hint.startswith("did you mean target? it has name, target, backends, ")


def test_nothing_is_guessed_from_far(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("fixed.onnx -o out --zzz", "fixed.onnx -o out --target elephant"):
        assert main(line.split()) != 0
        assert "did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fixed.onnx -o out", "inspect fixed.onnx"])
def test_a_dimension_that_is_not_there(
    command: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--dim", "batch=4"]) == 1
    said = capsys.readouterr().err
    assert 'the model has no symbolic dimension "batch"' in said
    assert "hint: the model has none, its inputs are image [1, 4]" in said


@pytest.mark.parametrize(
    ("text", "size"),
    [("4KB", 4096), ("4kb", 4096), ("4K", 4096), ("2MB", 2 << 20), ("2m", 2 << 20), ("7", 7)],
)
def test_budgets_take_every_spelling(text: str, size: int) -> None:
    words = ["m.onnx", "-o", "out", "--ram", text, "--flash", text, "--stack", text]
    options = options_of(parser.compile_parser().parse_args(words))
    assert (options.ram, options.flash, options.stack) == (size, size, size)


@pytest.mark.parametrize("text", ["4B", "KB", "4GB", "4KBB", "4 KB", "0KB", "-4KB", "٤KB"])
def test_budgets_that_are_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["m.onnx", "-o", "out", f"--ram={text}"]) == 2
    assert "--ram" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("requested", "name"),
    [("9lives", "m_9lives"), ("a-b", "a_b"), ("_x", "m_x"), ("test", "test_model")],
)
def test_a_changed_name_is_told(
    requested: str, name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fixed.onnx", "-o", "out", "--no-configure", f"--name={requested}"]
    assert main(words) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"aotc: note: the name {requested} ")
    assert f"the bundle is called {name}\n" in said
    assert main([*words[:-1], f"--name={name}"]) == 0
    assert capsys.readouterr().err == ""
