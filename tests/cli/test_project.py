# SPDX-License-Identifier: Apache-2.0
"""`aotc init` writes a project that builds; aotc.toml says what `aotc build` compiles."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aot.cli import main
from aot.cli.commands.verify import junit
from aot.cli.project import words_of
from aot.errors import AotError
from aot.tools.compare import Difference
from aot.tools.verify import Report


def project(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "aotc.toml"
    file.write_text(text)
    return file


def test_a_new_project_builds_and_verifies(tmp_path: Path) -> None:
    folder = tmp_path / "hello"
    assert main(["init", str(folder), "-q"]) == 0
    assert main(["build", str(folder), "-q"]) == 0
    results = tmp_path / "results.xml"
    assert main(["verify", str(folder / "out"), "-q", "--junit", str(results)]) == 0
    suite = ElementTree.parse(results).getroot()
    assert suite.attrib["tests"] == "1" and suite.attrib["failures"] == "0"
    command = ["cmake", "-S", str(folder), "-B", str(folder / "build")]
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", command[-1]], check=True, capture_output=True)
    subprocess.run(["ctest", "--test-dir", command[-1]], check=True, capture_output=True)


@pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="the same by pytest; AOT_FULL=1")
def test_the_tests_of_a_new_project_pass(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path / "hello"), "-q"]) == 0
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [sys.executable, "-m", "pytest", "-q", "tests"]
    done = subprocess.run(command, cwd=tmp_path / "hello", env={**os.environ, "PATH": programs})
    assert done.returncode == 0


def test_a_mismatch_is_a_failure_in_junit() -> None:
    right, wrong = Difference("x", 0.0, 0, 1.0), Difference("y\x01", 1.0, 9, 0.5, "1 of 2 differ")
    suite = ElementTree.fromstring(junit(Report("net", "onnx", (right, wrong))))
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")
    (failure,) = suite.iter("failure")
    assert failure.attrib["message"] == "1 of 2 differ" and "MISMATCH" in (failure.text or "")


def test_init_of_a_model_keeps_its_shapes(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert main(["init", str(first), "-q"]) == 0
    words = ["--model", str(first / "model.onnx"), "--input-shape", "x=1,8"]
    assert main(["init", str(second), "-q", "--name", "net", *words]) == 0
    said = words_of(second / "aotc.toml")
    assert {"--name=net", "--input-shape=x=1,8"} <= {*said}
    assert not (second / "model.py").exists()


def test_the_keys_are_options(tmp_path: Path) -> None:
    text = """
        model = "m.onnx"
        backend = ["dnnl", "cblas"]
        require-backend = true
        cut-inputs = []
        no-configure = false
        [dims]
        N = "1..4"
        [budgets]
        ram = "64K"
    """
    words = words_of(project(tmp_path, text))
    assert words == [
        *("--output=out", "--backend=dnnl,cblas", "--require-backend", "--dim=N=1..4", "--ram=64K"),
        *("--", "m.onnx"),
    ]


def test_an_unknown_key_is_named(tmp_path: Path) -> None:
    for text, meant in (("tarhet = 'host'", "target"), ("[budget]\nram = 1", "budgets")):
        with pytest.raises(AotError, match=f"did you mean {meant}"):
            words_of(project(tmp_path, f"model = 'm.onnx'\n{text}\n"))
    with pytest.raises(AotError, match=r"require-backend is 'yes'.*\n.*\n.*require-backend = true"):
        words_of(project(tmp_path, "model = 'm.onnx'\nrequire-backend = 'yes'\n"))
    with pytest.raises(AotError, match="names no model"):
        words_of(project(tmp_path, "target = 'host'\n"))


def test_a_folder_without_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", str(tmp_path)]) == 1
    assert "aotc init" in capsys.readouterr().err
    project(tmp_path, "model = 'm.onnx'\naccuracy = 'strikt'\n")
    assert main(["build", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "aotc.toml" in said and "did you mean strict?" in said
    assert main(["init", str(tmp_path)]) == 2
