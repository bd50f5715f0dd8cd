# SPDX-License-Identifier: Apache-2.0
"""Functions of `aot`, drawn by a seed, to explain from code and docstring.

A reader writes down what each computes, with shapes, units and errors, and compares with callers
and tests. What cannot be explained gets a better docstring. `python tests/reading.py SEED COUNT`;
without arguments 21 and 40.
"""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def functions(folder: Path) -> list[tuple[str, str]]:
    """(place, source) of every function with a docstring or without, in order of path and line."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                place = f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"
                found.append((place, ast.get_source_segment(text, node) or ""))
    return sorted(found)


def main() -> None:
    """Print the drawn functions."""
    seed, count = (*map(int, sys.argv[1:]), *(21, 40)[len(sys.argv) - 1 :])
    for place, text in random.Random(seed).sample(functions(ROOT / "aot"), count):
        print(f"== {place}\n{text}\n")


if __name__ == "__main__":
    main()
