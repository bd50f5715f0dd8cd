# SPDX-License-Identifier: Apache-2.0
"""The table of files in ARCHITECTURE.md, from docstrings: `python scripts/files.py`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- every file: written by `make docs` -->", "<!-- end of the files -->"


def sentence(path: Path) -> str:
    """The first sentence of a module's docstring, as a cell of a table."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
    found = re.match(r".*?[.:](?= [A-Z]|$)", text)
    return (found[0] if found else text).rstrip(":").replace("|", "\\|")


def table() -> str:
    """A row for each file of `aot` that has a docstring, folder by folder."""
    rows = ["| file | what is in it |", "|---|---|"]
    files = [p for p in sorted((ROOT / "aot").rglob("*.py")) if sentence(p)]
    for path in sorted(files, key=lambda p: (p.parent.as_posix(), p.name)):
        rows.append(f"| `{path.relative_to(ROOT).as_posix()}` | {sentence(path)} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """The page `text` with the present table between its two markers."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
