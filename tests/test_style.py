# SPDX-License-Identifier: Apache-2.0
"""The habits of CONTRIBUTING.md that a script can check."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
CODE = (".py", ".c", ".h", ".j2", ".cmake", ".toml", ".txt", ".sh")
# Words that mean "not finished"; spelled so that this file does not hold them.
UNFINISHED = re.compile("TO" + "DO|FIX" + "ME|XX" + "X|NotImplemented" + "Error")


@cache
def tracked() -> tuple[Path, ...]:
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return tuple(ROOT / n for n in done.stdout.split("\0") if n and (ROOT / n).is_file())


def sources() -> list[Path]:
    return [p for p in tracked() if p.suffix in CODE or p.name in ("Makefile", "run")]


def python() -> list[Path]:
    return [p for p in tracked() if p.suffix == ".py"]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_files_are_short() -> None:
    long = {name(p): len(p.read_text().splitlines()) for p in sources()}
    assert not {n: k for n, k in long.items() if k >= 500}


def test_functions_are_short() -> None:
    long = []
    for path in python():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > 80:
                    long.append(f"{name(path)}:{node.lineno} {node.name}: {lines} lines")
    assert not long


def test_every_file_names_its_licence() -> None:
    wrong = []
    for path in sources():
        emitted = name(path).startswith(
            (*("runtime_c/", "cmake/", "aot/emit_c/templates/", "aot/cli/template/"),)
        )
        licence = "MIT-0" if emitted or path.suffix in (".c", ".h", ".cmake") else "Apache-2.0"
        head = "\n".join(path.read_text().splitlines()[:3])
        if emitted and path.name.startswith("README"):
            continue
        if f"SPDX-License-Identifier: {licence}" not in head:
            wrong.append(f"{name(path)} (needs {licence})")
    assert not wrong


def test_nothing_is_unfinished() -> None:
    found = []
    for path in tracked():
        if path.suffix in (*CODE, ".md") or path.name == "Makefile":
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if UNFINISHED.search(line):
                    found.append(f"{name(path)}:{number}: {line.strip()}")
    assert not found


def test_text_is_tidy() -> None:
    wrong = []
    for path in (p for p in tracked() if p.suffix in (*CODE, ".md")):
        text = path.read_text()
        if not text.endswith("\n") or text.endswith("\n\n"):
            wrong.append(f"{name(path)}: one newline ends a file")
        for number, line in enumerate(text.splitlines(), 1):
            if "\t" in line or line != line.rstrip():
                wrong.append(f"{name(path)}:{number}")
    assert not wrong


def test_no_binary_is_large() -> None:
    assert not [name(p) for p in tracked() if p.stat().st_size > 200_000]


def aotc(out: Path, seed: str) -> None:
    code = (
        "import sys, aot.cli; code = aot.cli.main(sys.argv[1:]);"
        "bad = [m for m in ('onnxruntime', 'sklearn', 'torch', 'sympy.core') if m in sys.modules];"
        "sys.exit(code or ' '.join(bad) or 0)"
    )
    words = [str(DIGITS), "-o", str(out), "-q", "--no-configure"]
    env = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", code, *words], env=env, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_same_bytes_and_no_onnxruntime(tmp_path: Path) -> None:
    """Two hash seeds, two folders: the same bundle. The imports of a compilation are few."""
    for seed in ("1", "2"):
        aotc(tmp_path / seed, seed)
    one, two = (
        {p.relative_to(tmp_path / s): p.read_bytes() for p in sorted((tmp_path / s).rglob("*.*"))}
        for s in ("1", "2")
        if (tmp_path / s).is_dir()
    )
    assert len(one) > 20
    assert {n for n in one if one[n] != two.get(n)} == set() and one.keys() == two.keys()


@pytest.mark.parametrize("command", [["--version"], ["backends"], ["targets"]])
def test_small_commands_load_little(command: list[str]) -> None:
    code = "import sys, aot.cli; aot.cli.main(sys.argv[1:]); sys.exit('onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
