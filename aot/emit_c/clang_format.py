# SPDX-License-Identifier: Apache-2.0
"""Lines of emitted C broken and indented by clang-format, with the style that bundles carry.

The package `clang-format` has the program; its version is pinned, because another version may break
lines elsewhere and equal models must give equal bytes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
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

    Raises BuildError where clang-format is missing or fails.
    """
    texts = {p: c for p, c in files.items() if p.endswith((".c", ".h")) and isinstance(c, bytes)}
    with tempfile.TemporaryDirectory(prefix="aotc-") as folder:
        place = Path(folder)
        (place / STYLE).write_bytes(style())
        names = {path: f"{number}{path[-2:]}" for number, path in enumerate(texts)}
        for path, text in texts.items():
            (place / names[path]).write_bytes(text)
        done = subprocess.run(
            [program(), "-i", *names.values()], cwd=place, capture_output=True, text=True
        )
        if done.returncode:
            raise BuildError(f"clang-format fails: {done.stderr.strip()}")
        return {**files, **{path: (place / name).read_bytes() for path, name in names.items()}}
