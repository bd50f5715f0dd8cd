# SPDX-License-Identifier: Apache-2.0
"""Static analysis of the runtime and of emitted bundles.

    python tests/analyse/run.py [--tools gcc,clang-tidy,cppcheck] [--only NAME] [--update]

Exit code 1 on a finding that declared/ does not accept, on one it accepts that does not occur,
and on a kernel header that no bundle reaches.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analyse.corpus import Unit, units, unreached
from analyse.judge import judge, read, update
from analyse.tools import (
    STANDARDS,
    Finding,
    Source,
    analyzer,
    clang_tidy,
    emitted,
    headers,
    place,
    sources,
    warnings,
)

TOOLS = ("gcc", "clang-tidy", "cppcheck")
Work = Callable[[], list[Finding]]


def work(
    units_: Sequence[tuple[Unit, Path]], tools: Sequence[str], folder: Path
) -> Iterator[tuple[str, Work]]:
    """Everything to do, named; files that many bundles have a copy of once."""
    copied: set[str] = set()
    for unit, bundle in units_:
        for source in sources(unit, bundle):
            yield from _compiled(f"{unit.name}/{source.path}", source, tools)
        if "cppcheck" in tools and not unit.joined:
            for text in emitted(unit, bundle, folder):
                where = place(text.folder, text.path)
                if where not in copied:
                    yield f"cppcheck {unit.name}/{text.path}", text.check
                copied |= set() if where.startswith("emitted/") else {where}
    if "cppcheck" in tools:
        for text in headers(folder):
            yield f"cppcheck {text.path}", text.check


def _compiled(name: str, source: Source, tools: Sequence[str]) -> Iterator[tuple[str, Work]]:
    if "gcc" in tools:
        for standard in STANDARDS:
            yield f"gcc {standard} {name}", lambda s=standard: warnings(source, s)
        yield f"gcc -fanalyzer {name}", lambda: analyzer(source)
    if "clang-tidy" in tools:
        yield f"clang-tidy {name}", lambda: clang_tidy(source)


def run(items: Sequence[tuple[str, Work]], jobs: int, slow: float) -> list[Finding]:
    """All findings, each line once."""

    def one(item: tuple[str, Work]) -> list[Finding]:
        start = time.monotonic()
        found = item[1]()
        took = time.monotonic() - start
        if took > slow:
            print(f"{item[0]}: {took:.0f} s", flush=True)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        every = [f for found in pool.map(one, items) for f in found]
    return sorted(set(every))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--only", default="", help="units whose name begins so")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--slow", type=float, default=20.0, help="name what takes longer (seconds)")
    parser.add_argument("--list", action="store_true", help="print what is accepted too")
    parser.add_argument("--update", action="store_true", help="count sites again")
    args = parser.parse_args(arguments)
    tools = args.tools.split(",")
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        made = [(u, u.emit(Path(folder))) for u in units() if u.name.startswith(args.only)]
        print(f"{len(made)} bundles: {time.monotonic() - start:.0f} s", flush=True)
        findings = run(list(work(made, tools, Path(folder))), args.jobs, args.slow)
        missing = [] if args.only else unreached(b for _, b in made)
    kinds = {*tools, *(("misra",) if "cppcheck" in tools else ())}
    if args.list:
        print("\n".join(f"{f.file}:{f.line}: {f.tool} {f.rule}: {f.text}" for f in findings))
    if args.update:
        update(findings, kinds)
    faults = [f"{n}: no bundle reaches it" for n in missing]
    faults += judge(findings, read(), set() if args.only else kinds)
    print("\n".join(faults))
    for kind in sorted(kinds):
        own = {(f.rule, f.file, f.line) for f in findings if f.tool == kind}
        print(f"{kind}: {len(own)} sites of {len({o[0] for o in own})} rules")
    print(f"{len(faults)} faults, {time.monotonic() - start:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
