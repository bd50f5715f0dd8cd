# SPDX-License-Identifier: Apache-2.0
"""Lines of emitted C broken and indented by clang-format, with the style that bundles carry.

The package `clang-format` has the program; its version is pinned, because another version may break
lines elsewhere and equal models must give equal bytes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from aot.emit_c.resources import runtime_c
from aot.emit_c.write import File
from aot.errors import BuildError

#: The name of the style's file, beside runtime_c's sources and in a bundle.
STYLE = ".clang-format"


@cache
def program() -> Path:
    """The program of the package. Raises BuildError where the package is missing."""
    found = find_spec("clang_format")
    if found is None or found.origin is None:
        raise BuildError(
            "the Python package clang-format, which lays out the bundle's C, is not installed",
            hint=f"{sys.executable} -m pip install clang-format",
        )
    return Path(found.origin).parent / "data" / "bin" / "clang-format"


def style() -> bytes:
    """The style of the bundle's C, as clang-format reads it."""
    return (runtime_c() / STYLE).read_bytes()


def formatted(files: Mapping[str, File]) -> dict[str, File]:
    """Files by their paths: those of C laid out by the style, the others as they are.

    Nothing is written to a disk: compile() writes only to its output folder.
    Raises BuildError where clang-format is missing or fails.
    """
    return {
        path: _laid_out(path, content)
        if path.endswith((".c", ".h", ".hpp", ".cpp", ".ino")) and isinstance(content, bytes)
        else content
        for path, content in files.items()
    }


def _laid_out(path: str, text: bytes) -> bytes:
    """One file of C through the program's standard input and output."""
    command = [str(program()), f"--style={_inline()}", f"--assume-filename={Path(path).name}"]
    done = subprocess.run(command, input=text, capture_output=True)
    if done.returncode:
        raise BuildError(f"clang-format fails at {path}: {done.stderr.decode().strip()}")
    return done.stdout


@cache
def _inline() -> str:
    """The style's lines as one argument of the command line."""
    lines = style().decode().splitlines()
    return "{" + ", ".join(line for line in lines if ":" in line) + "}"
