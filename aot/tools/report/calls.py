# SPDX-License-Identifier: Apache-2.0
"""Calls of a bundle as the report shows them, the C that makes them, and what each costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aot.tools.bench import converts

#: A comment, and the call below it with its number.
_CALL = re.compile(
    r"(?:^ *(/\*(?:[^*]|\*(?!/))*\*/)\n)?^ *((?:STEP|TRY|TRY_SAYING)\(\s*(\d+),[^;]*;)",
    re.MULTILINE,
)
#: So many calls have a bar of their own.
_BARS = 12


def title(node: Mapping[str, Any]) -> str:
    """The operators of a call but the conversions around them."""
    ops = str(node["op"]).split(" + ")
    return " + ".join([op for op in ops if not converts(op)] or ops)


def lines_of(folder: Path, name: str) -> dict[int, tuple[str, int, str]]:
    """Call → (file, line, the C of the call with its comment), from the sources of a bundle.

    Programs that stand in for vendors' regions have calls of other numbers: they are left out.
    """
    found: dict[int, tuple[str, int, str]] = {}
    for path in [folder / f"{name}_run.c", *sorted(folder.glob(f"{name}_*.c"))]:
        other = re.search(r"_(portable|fallback_\d+_\w+)$", path.stem.removeprefix(name))
        if not other and path.is_file():
            for call, line, text in _calls(path.read_text(encoding="utf-8", errors="replace")):
                found.setdefault(call, (path.name, line, text))
    return found


def _calls(text: str) -> Iterator[tuple[int, int, str]]:
    """(number, line, C) of every call in a C file."""
    line, at = 1, 0
    for match in _CALL.finditer(text):
        line, at = line + text.count("\n", at, match.start(2)), match.start(2)
        yield int(match[3]), line, "\n".join(s.strip() for s in match[0].splitlines())


def measures(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What calls cost: per measure a title, the dearest (call, amount), the total."""
    nodes = manifest["nodes"]
    code = manifest.get("code") or [0] * len(nodes)
    flash = [int(n.get("constant_bytes", 0)) + c for n, c in zip(nodes, code, strict=True)]
    measured = manifest.get("measured", {})
    took = [n["amount"] for n in measured.get("nodes", ())]
    unit = "Instructions" if "instructions" in measured else "Time in nanoseconds of CPU"
    found = [
        ("MACs", [int(n["macs"]) for n in nodes]),
        ("Flash in bytes: constants" + (" and code" if any(code) else ""), flash),
        (f"{unit}, measured by aotc bench", took),
    ]
    return [_measure(title, amounts) for title, amounts in found if any(amounts)]


def _measure(title: str, amounts: Sequence[float]) -> dict[str, Any]:
    order = sorted((i for i, n in enumerate(amounts) if n), key=lambda i: -amounts[i])
    rest = order[_BARS:]
    return {
        "title": title,
        "bars": [(i, amounts[i]) for i in order[:_BARS]],
        "total": sum(amounts),
        "others": len(rest),
        "rest": sum(amounts[i] for i in rest),
    }
