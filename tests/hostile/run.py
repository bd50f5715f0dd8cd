# SPDX-License-Identifier: Apache-2.0
"""Compile every hostile case and print what they found: `make hostile`, or
`python tests/hostile/run.py [--only WORD] [--jobs N] [--json FILE]`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile.corpus import all_cases
from hostile.drive import Outcome, run_all


def part(
    word: str, index: int, jobs: int
) -> list[tuple[str, str, str, bool, float, int, tuple[str, ...], str]]:
    """Outcomes of every `jobs`-th case; plain values, because cases hold functions."""
    cases = [c for c in all_cases() if word in f"{c.family}: {c.name}"][index::jobs]
    rows = []
    with tempfile.TemporaryDirectory(prefix="hostile") as folder:
        for o in run_all(cases, Path(folder)):
            rows.append(_row(o))
            if o.faults:
                print(_line(o), flush=True)
    return rows


def _row(o: Outcome) -> tuple[str, str, str, bool, float, int, tuple[str, ...], str]:
    return (
        o.case.family,
        o.case.name,
        o.kind,
        o.compared,
        o.seconds,
        o.mebibytes,
        o.faults,
        o.message,
    )


def _line(o: Outcome) -> str:
    said = ascii(o.message[:300])
    cost = f"{o.seconds:.1f} s {o.mebibytes} MiB"
    return f"{o.case.family}: {o.case.name}: {o.kind} {cost} {list(o.faults)} {said}"


def table(rows: Sequence[tuple[str, str, str, bool, float, int, tuple[str, ...], str]]) -> str:
    """Markdown: a line per family."""
    lines = [
        "| class | cases | refused | bundles | compared | faults | slowest | most memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    families = list(dict.fromkeys(r[0] for r in rows))
    for family in [*families, "all"]:
        own = [r for r in rows if family in (r[0], "all")]
        kinds = Counter(r[2] for r in own)
        compared = sum(r[3] for r in own)
        bad = sum(bool(r[6]) for r in own)
        slowest, most = max(r[4] for r in own), max(r[5] for r in own)
        lines.append(
            f"| {family} | {len(own)} | {kinds['refused']} | {kinds['bundle']} | {compared} "
            f"| {bad} | {slowest:.1f} s | {most} MiB |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose family and name hold this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write every outcome there")
    a = parser.parse_args()
    with ProcessPoolExecutor(a.jobs) as pool:
        parts = list(pool.map(part, [a.only] * a.jobs, range(a.jobs), [a.jobs] * a.jobs))
    order = {(c.family, c.name): i for i, c in enumerate(all_cases())}
    rows = sorted((r for p in parts for r in p), key=lambda r: order[r[0], r[1]])
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1))
    print(table(rows))
    return 1 if any(r[6] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
