# SPDX-License-Identifier: Apache-2.0
"""`make demo` printed its own recipes and what CMake and compilers say."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROJECT = """\
cmake_minimum_required(VERSION 3.16)
project(one C)
add_library(one STATIC one.c)
"""


@pytest.fixture
def demo() -> ModuleType:
    path = ROOT / "examples" / "digits" / "demo.py"
    spec = importlib.util.spec_from_file_location("digits_demo", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def project(folder: Path, text: str) -> Path:
    (folder / "CMakeLists.txt").write_text(PROJECT)
    (folder / "one.c").write_text(text)
    out = folder / "out"
    command = ["cmake", "-S", str(folder), "-B", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    return out


def test_a_build_is_silent(
    demo: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = project(tmp_path, "int one(void);\nint one(void) { return 1; }\n")
    demo.build(out)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == (f"$ cmake --build {out}\n", "")


def test_a_build_that_fails_is_shown(
    demo: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = project(tmp_path, "int one(void) { return nothing; }\n")
    with pytest.raises(SystemExit):
        demo.build(out)
    assert "nothing" in capfd.readouterr().out


def test_make_shows_no_recipes(tmp_path: Path) -> None:
    """With everything installed, only the demonstration speaks."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!{sys.executable}\nimport sys\nprint("ran", sys.argv[-1])\n')
    python.chmod(0o755)
    (tmp_path / ".run").touch()
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    done = subprocess.run(
        ["make", "--no-print-directory", "-C", str(ROOT), f"VENV={tmp_path}", "demo"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("ran examples/digits/demo.py\n", "")
