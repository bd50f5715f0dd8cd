# SPDX-License-Identifier: Apache-2.0
"""Which operators and types have been compared: those of docs/operators.md must all be."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from aot.ir import dtypes
from aot.tools.explain import operators

Pair = tuple[str, str]


@cache
def documented() -> frozenset[Pair]:
    """(operator, type of the first input) of every row of docs/operators.md."""
    return frozenset((r["op"], name_of(t)) for r in operators() for t in r["dtypes"])


def name_of(dtype: str) -> str:
    """One spelling of a type's name."""
    try:
        return dtypes.from_name(dtype).name
    except KeyError:
        return dtype


def missing(found: Iterable[Pair]) -> list[Pair]:
    """Documented pairs that are not among `found`."""
    known = {(op, name_of(t)) for op, t in found}
    return sorted(documented() - known)


def remember(path: Path, found: Iterable[Pair]) -> set[Pair]:
    """Add pairs to a file; all that it has then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else ""
    known = {(line.split()[0], line.split()[1]) for line in text.splitlines()}
    fresh = sorted(set(found) - known)
    with path.open("a") as file:
        file.write("".join(f"{op} {kind}\n" for op, kind in fresh))
    return known | set(fresh)


def report(found: Iterable[Pair]) -> str:
    """How many of the documented pairs were reached, and which were not."""
    left = missing(found)
    rows = [f"  {op}: {kind}" for op, kind in left]
    total = len(documented())
    return "\n".join([f"{total - len(left)} of {total} operator × type pairs reached", *rows])
