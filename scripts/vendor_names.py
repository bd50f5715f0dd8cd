# SPDX-License-Identifier: Apache-2.0
"""The names in docs/new-backend.md, from their docstrings: `python scripts/vendor_names.py`."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import aot.vendor
from aot.ir.dtypes import DType

PAGE = Path(__file__).parents[1] / "docs" / "new-backend.md"
BEGIN, END = "<!-- names of aot.vendor: written by `make docs` -->", "<!-- end of the names -->"


def summary(name: str) -> str:
    """What a name of `aot.vendor` is, in a sentence: of its docstring, or of the comment above it.

    It is "" for a name that nothing documents.
    """
    value = getattr(aot.vendor, name)
    if isinstance(value, DType):
        return f"The element type {value}."
    documented = inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value)
    text = inspect.getdoc(value) or "" if documented else _comment(name)
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def _comment(name: str) -> str:
    """The lines `#: …` above the assignment of a constant, "" without any."""
    modules = (m for n, m in sorted(sys.modules.items()) if re.match(r"aot\.(vendor|ir)\.", n))
    above = re.compile(rf"((?:^#:.*\n)+){name}\b", re.MULTILINE)
    found = next(filter(None, (above.search(inspect.getsource(m)) for m in modules)), None)
    return found[1].replace("#:", "") if found else ""


def table() -> str:
    """A row for each name, sorted without regard to case."""
    rows = [f"| `{name}` | {summary(name)} |" for name in sorted(aot.vendor.__all__, key=str.lower)]
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def page(text: str) -> str:
    """The page `text` with the present table between its two markers."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
