# SPDX-License-Identifier: Apache-2.0
"""Findings against the declared ones: what is new, what is declared and does not occur any more.

The files of `declared/` have a table per rule: why it is accepted, and in which files.

    [[accepted]]
    tool = "misra"            # gcc, clang-tidy, cppcheck or misra
    rule = "15.5"
    category = "advisory"     # of MISRA C:2012; absent for other tools
    files = ["kernels/*"]     # patterns of fnmatch; places under runtime_c, or emitted/…
    sites = 96                # lines when last counted; `--update` counts again
    why = "A kernel leaves early where nothing is to be done."
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyse.tools import Finding

HERE = Path(__file__).parent
DECLARED = HERE / "declared"
PAGE = HERE.parents[1] / "docs" / "misra.md"
CATEGORIES = ("mandatory", "required", "advisory")


@dataclass(frozen=True, slots=True)
class Accepted:
    """A rule that some files break on purpose. `sites` are lines, counted once."""

    tool: str
    rule: str
    files: tuple[str, ...]
    why: str
    sites: int
    category: str = ""

    def covers(self, finding: Finding) -> bool:
        same = (finding.tool, finding.rule) == (self.tool, self.rule)
        return same and any(fnmatch.fnmatchcase(finding.file, f) for f in self.files)

    def stale(self, findings: Iterable[Finding]) -> list[str]:
        """Patterns that no finding needs."""
        own = [f.file for f in findings if (f.tool, f.rule) == (self.tool, self.rule)]
        return [p for p in self.files if not fnmatch.filter(own, p)]


def read(folder: Path = DECLARED) -> list[Accepted]:
    """What the files of a folder declare. Raises ValueError for a table that is not whole."""
    return [entry for path in sorted(folder.glob("*.toml")) for entry in read_file(path)]


def read_file(path: Path) -> list[Accepted]:
    """What one file declares, in its order."""
    found = []
    for row in tomllib.loads(path.read_text())["accepted"]:
        entry = Accepted(**{**row, "files": tuple(row["files"])})
        if (entry.tool == "misra") != (entry.category in CATEGORIES) or not entry.why.strip():
            raise ValueError(f"{path.name}: {entry.tool} {entry.rule} has no category or reason")
        found.append(entry)
    return found


def judge(findings: Sequence[Finding], accepted: Sequence[Accepted], tools: set[str]) -> list[str]:
    """What must change: findings that nobody declared, declarations that nothing needs."""
    faults = []
    for f in findings:
        if not any(a.covers(f) for a in accepted):
            faults.append(f"{f.file}:{f.line}: {f.tool} {f.rule}: {f.text}")
    for a in (a for a in accepted if a.tool in tools):
        for pattern in a.stale(findings):
            faults.append(f"{a.tool} {a.rule}: declared for {pattern}, where it does not occur")
        count = len(sites(findings, a))
        if a.category in ("mandatory", "required") and count > a.sites:
            faults.append(f"misra {a.rule} ({a.category}): {count} sites, declared are {a.sites}")
    return faults


def sites(findings: Iterable[Finding], a: Accepted) -> set[tuple[str, int]]:
    """The lines a declaration is for."""
    return {(f.file, f.line) for f in findings if a.covers(f)}


def update(findings: Sequence[Finding], tools: set[str]) -> None:
    """Write the numbers of sites into the files of `declared/`, and the page made of them."""
    for path in sorted(DECLARED.glob("*.toml")):
        parts = path.read_text().split("[[accepted]]")
        for i, a in enumerate(read_file(path), 1):
            if a.tool in tools:
                count = len(sites(findings, a))
                parts[i] = re.sub(r"(?m)^sites = \d+$", f"sites = {count}", parts[i])
        path.write_text("[[accepted]]".join(parts))
    PAGE.write_text(page(read()))


HEAD = """# MISRA C:2012

This page lists the findings of cppcheck 2.10 and its MISRA addon on the runtime and on emitted
bundles (the C projects that aotc writes), with the reason why each stays. It is made from
`tests/analyse/declared/` by `make analyse UPDATE=1`. Without UPDATE the command fails on a finding
that is not declared, on a declaration that no finding needs any more, and on more sites of a
required rule than are listed. Only numbers of rules are given, because their texts belong to the
standard. The addon checks one file at a time. So this page is no claim of compliance, but the list
that a review starts from.

The column *where* names folders and files of `runtime_c`; `emitted/` stands for the files that the
compiler writes for each model. A site is a line of C. Categories are the standard's for code that
people write.
"""


def page(entries: Iterable[Accepted]) -> str:
    """The text of docs/misra.md."""
    lines = [HEAD]
    rules = [a for a in entries if a.tool == "misra"]
    for category in CATEGORIES:
        own = sorted((a for a in rules if a.category == category), key=lambda a: _order(a.rule))
        total = sum(a.sites for a in own)
        lines.append(f"## {category.capitalize()}: {len(own)} rules, {total} sites\n")
        if not own:
            lines.append("None.\n")
            continue
        lines += ["| rule | sites | where | what we do, and why |", "|---|---|---|---|"]
        for a in own:
            where = ", ".join(f"`{f}`" for f in a.files)
            lines.append(f"| {a.rule} | {a.sites} | {where} | {' '.join(a.why.split())} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _order(rule: str) -> tuple[int, ...]:
    return tuple(int(n) for n in rule.split("."))
