# SPDX-License-Identifier: Apache-2.0
"""Branch coverage of runtime_c by the tests that run on this machine: `make coverage`.

    python tests/branches.py [--least 95] [--missing] [--keep FOLDER] [PYTEST ARGUMENT …]

Puts a `gcc` in front of the real one that adds --coverage, leaves out sanitizers and optimisation,
and keeps every kernel a function, so that its branches are those of its source; runs the tests; and
adds up what gcov says of every copy of a header over all the programs that included it. A branch is
one of the source: it is taken if any program took it in any instantiation (element type, vector
width, size of a tile). Prints a line per file, exits 1 below `--least` percent of all.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "runtime_c"
#: Tests whose C runs here. Clang and other machines' compilers are not measured.
TESTS = (
    *("tests/ops", "tests/abi", "tests/errors", "tests/conformance/test_conformance.py"),
    *("tests/test_kernels_conv.py", "tests/test_kernels_q.py", "tests/test_kernels_q_dsp.py"),
    *("tests/test_control.py", "tests/test_strings.py", "tests/test_random.py"),
    *("tests/test_sequences.py", "tests/test_ml.py", "tests/test_states.py", "tests/regression"),
    *("tests/test_qrnn.py", "tests/test_qresize.py", "tests/test_qcalc.py"),
    *("tests/test_qconvadd.py", "tests/test_cli_built.py", "tests/test_test_data.py"),
    *("tests/test_accuracy.py", "tests/test_requant.py", "tests/test_dynamic.py"),
)
#: Left out: what needs optimisation or all of an hour at -O0.
DESELECTED = ("tests/abi/test_headers.py", "tests/abi/test_reproducible.py")
SHIM = """#!/bin/sh
# the real compiler with --coverage
n=$#
while [ $n -gt 0 ]; do
  a=$1; shift; n=$((n - 1))
  case "$a" in
    -fsanitize*|-fno-sanitize*|-O1|-O2|-O3|-Os) ;;
    -Werror|-Werror=*) ;;
    *) set -- "$@" "$a" ;;
  esac
done
exec {real} "$@" -O0 -w --coverage -fprofile-abs-path -fprofile-update=atomic \\
  '-DAOT_INLINE=static __attribute__((unused))'
"""
#: (function, line, index): a branch of a file.
Branch = tuple[str, int, int]


def shims(folder: Path) -> Path:
    """A folder with the compilers to put first on PATH."""
    real = shutil.which("gcc")
    assert real is not None
    folder.mkdir(parents=True)
    for name in ("gcc", "cc"):
        path = folder / name
        path.write_text(SHIM.format(real=real))
        path.chmod(0o755)
    return folder


def run(arguments: Sequence[str], folder: Path) -> int:
    """The tests, with the compilers of `folder`; pytest's status."""
    env = dict(os.environ)
    env["PATH"] = f"{shims(folder / 'bin')}:{env['PATH']}"
    env["TMPDIR"] = str(folder / "tmp")
    (folder / "tmp").mkdir()
    env.pop("CC", None)
    command = [sys.executable, "-m", "pytest", "-q", "--no-header"]
    command += ["-p", "no:cacheprovider", f"--basetemp={folder / 'tests'}"]
    command += [f"--deselect={d}" for d in DESELECTED]
    return subprocess.run([*command, *arguments], cwd=ROOT, env=env, check=False).returncode


def counters(folder: Path) -> Iterator[dict[str, Any]]:
    """What gcov says of every source file of every program that ran."""
    by_folder: dict[Path, list[Path]] = defaultdict(list)
    for path in sorted(folder.rglob("*.gcda")):
        by_folder[path.parent].append(path)
    for files in by_folder.values():
        with tempfile.TemporaryDirectory() as scratch:
            names = [str(f) for f in files]
            command = ["gcov", "--json-format", "--branch-probabilities", *names]
            subprocess.run(command, cwd=scratch, capture_output=True, check=False)
            for result in sorted(Path(scratch).glob("*.gcov.json.gz")):
                yield from json.loads(gzip.decompress(result.read_bytes()))["files"]


def names() -> dict[str, str]:
    """File name → path in runtime_c; what bundles hold are copies with the same name."""
    paths = sorted(p for p in RUNTIME.rglob("*") if p.suffix in (".c", ".h"))
    return {p.name: p.relative_to(RUNTIME).as_posix() for p in paths if "board" not in p.parts}


def add(taken: dict[str, dict[Branch, bool]], lines: dict[str, set[int]], found: Any) -> None:
    """Add one file of one program."""
    path = names_of.get(Path(found["file"]).name)
    if path is None:
        return
    for line in found["lines"]:
        lines[path].add(line["line_number"])
        each = [b for b in line["branches"] if not b["throw"]]
        for i, branch in enumerate(each):
            key = (instance_of(line.get("function_name", "")), line["line_number"], i)
            taken[path][key] = taken[path].get(key, False) or branch["count"] > 0


def instance_of(function: str) -> str:
    """What instantiations of a function for types and sizes have in common."""
    return re.sub(r"\d+", "#", re.sub(r"_([suf]|bf)\d+|_bool", "", function))


def report(
    taken: dict[str, dict[Branch, bool]], lines: dict[str, set[int]], missing: bool
) -> float:
    """Print the table; percent of all branches."""
    rows = []
    for path in sorted(lines):
        branches = taken[path]
        rows.append((path, sum(branches.values()), len(branches)))
    for path, hit, total in rows:
        share = f"{100 * hit / total:5.1f} %" if total else "   none"
        print(f"{share}  {hit:5} of {total:5}  {path}")
        if missing:
            for function, line, index in sorted(k for k, v in taken[path].items() if not v):
                print(f"           {path}:{line} {function} [{index}]")
    never = sorted(set(names_of.values()) - set(lines))
    print("not compiled here:", ", ".join(never) or "none")
    hit, total = sum(r[1] for r in rows), sum(r[2] for r in rows)
    share = 100 * hit / total if total else 0.0
    print(f"{share:.2f} % of {total} branches in {len(rows)} files")
    return share


names_of = names()


def main() -> int:
    parser = argparse.ArgumentParser(description="branch coverage of runtime_c")
    parser.add_argument("--least", type=float, default=95.0)
    parser.add_argument("--missing", action="store_true", help="list the branches not taken")
    parser.add_argument("--keep", default="", help="a folder for everything (absent before)")
    parser.add_argument("tests", nargs="*", default=[])
    args, more = parser.parse_known_args()
    folder = Path(args.keep or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    status = run([*(args.tests or [t for t in TESTS if (ROOT / t).exists()]), *more], folder)
    taken: dict[str, dict[Branch, bool]] = defaultdict(dict)
    lines: dict[str, set[int]] = defaultdict(set)
    for found in counters(folder):
        add(taken, lines, found)
    share = report(taken, lines, args.missing)
    if not args.keep:
        shutil.rmtree(folder)
    return status or (0 if share >= args.least else 1)


if __name__ == "__main__":
    sys.exit(main())
