# SPDX-License-Identifier: Apache-2.0
"""Types of the Python interface: a user's program passes `mypy --strict`, and a wrong one fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from needs import need_module

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "user_program.py"
WRONG = (
    ('accuracy="strict"', 'accuracy="exact"'),
    ("aot.compile(model,", "aot.compile(17,"),
    ("net.run(image)", "net.run(17)"),
)


def complaints(program: Path) -> str:
    """What mypy has to say."""
    need_module("mypy")
    cache = ROOT / "build" / "mypy_cache"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--no-pretty"]
    words = [*command, "--cache-dir", str(cache), str(program)]
    done = subprocess.run(words, cwd=program.parent, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_a_users_program_is_typed(tmp_path: Path) -> None:
    assert complaints(PROGRAM) == ""
    text = PROGRAM.read_text()
    for right, wrong in WRONG:
        assert right in text
        text = text.replace(right, wrong)
    program = tmp_path / "wrong.py"
    program.write_text(text)
    said = complaints(program)
    assert said.count(": error:") == said.count("[arg-type]") == len(WRONG), said
