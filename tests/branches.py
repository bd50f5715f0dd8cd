# SPDX-License-Identifier: Apache-2.0
"""Branch coverage of runtime_c by the tests that run on this machine: `make coverage`.

    python tests/branches.py [--least 95] [--missing] [--keep FOLDER] [--jobs N] [PATH …]

Puts compilers in front of the real ones that are clang with source-based coverage, runs the tests,
and adds up what every program says of every header that it includes. A branch is one outcome of one
condition of the source, at the place where it is written, in a macro's definition too: it is taken
if any program took it in any instantiation (element type, vector width, size of a tile). Conditions
on constants are none. Prints a line per file, exits 1 below `--least` percent of all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "runtime_c"
#: Tests whose C runs here, the longest first: each path is a pytest of its own, so that the
#: libraries that it loads write their profiles when it ends.
TESTS = tuple(
    f"tests/{name}"
    for name in """
    ops/test_ops.py ops/test_ml.py ops/test_onnx_nodes.py ops/test_qrnn.py ops/test_dims.py
    regression abi ops/test_kernels_conv.py ops/test_kernels_q.py
    ops/test_control.py ops/test_dynamic.py ops/test_dims_random.py ops/test_recurrent.py
    ops/test_dims_fit.py ops/test_gradient.py ops/test_suppression.py ops/test_strings.py
    ops/test_microsoft.py ops/test_microsoft_lstm.py normalise/test_normalise_attention.py
    normalise/test_normalise_qoperator.py ops/test_kernels_q_dsp.py ops/test_random.py
    ops/test_sequences.py ops/test_qresize.py ops/test_qcalc.py ops/test_qconvadd.py
    ops/test_qchannel.py ops/test_qconvact.py ops/test_qmoves.py ops/test_qrnn16.py
    ops/test_qmatmul16.py ops/test_qsoftmax16.py tools/test_layerwise.py normalise/test_moves.py
    cli/test_cli_built.py tools/test_test_data.py ops/test_accuracy.py ops/test_requant.py
    tools/test_branches.py test_digits.py
    """.split()
)
#: Left out: what is about compilers and boards, counts files of its folder or symbols.
DESELECTED = (
    *("tests/abi/test_headers.py", "tests/abi/test_reproducible.py", "tests/abi/test_clients.py"),
    *("tests/abi/test_build.py::test_external_symbols", "tests/abi/test_projects.py"),
    *("tests/abi/test_runner.py::test_trace_build_guards_the_arena", "tests/abi/test_flags.py"),
    *("tests/abi/test_weights.py::test_board", "tests/abi/test_weights.py::test_section"),
    "tests/abi/test_states.py::test_verify_follows_a_stream[cortex-m4]",
)
#: What the shims do not pass on: they always build without optimisation and sanitizers.
SHIM = """#!/bin/sh
n=$#
while [ $n -gt 0 ]; do
  a=$1; shift; n=$((n - 1))
  case "$a" in
    -fsanitize*|-fno-sanitize*|-O1|-O2|-O3|-Os|-Werror|-Werror=*|-fcallgraph-info*) ;;
    *) set -- "$@" "$a" ;;
  esac
done
read -r id < /proc/sys/kernel/random/uuid
exec {clang} "$@" -O0 -w -fprofile-instr-generate={raw}/$id.%m -fcoverage-mapping
"""
#: pytest's status where everything is deselected.
NO_TESTS = 5
#: (line, column, line, column, outcome): a branch of a file.
Branch = tuple[int, int, int, int, bool]
Taken = dict[str, dict[Branch, bool]]


def tool(name: str) -> str:
    """The path of a program of LLVM; Debian's names may end in a version."""
    for found in (shutil.which(name), shutil.which(f"{name}-14"), shutil.which(f"{name}-19")):
        if found:
            return found
    sys.exit(f"{name} is not here: apt-get install clang llvm")


def shims(folder: Path, raw: Path) -> Path:
    """A folder with the compilers to put first on PATH; every program has a profile in `raw`."""
    folder.mkdir(parents=True)
    for name in ("gcc", "cc", "clang"):
        path = folder / name
        path.write_text(SHIM.format(clang=tool("clang"), raw=raw))
        path.chmod(0o755)
    return folder


def run(paths: Sequence[str], folder: Path, jobs: int) -> int:
    """The tests, with the compilers of `folder`; the last status of pytest that is not 0."""
    env = {k: v for k, v in os.environ.items() if k not in ("CC", "CFLAGS", "LDFLAGS")}
    env["PATH"] = f"{shims(folder / 'bin', folder / 'raw')}:{env['PATH']}"
    env["TMPDIR"] = str(folder / "tmp")
    (folder / "tmp").mkdir()
    (folder / "tests").mkdir()

    def one(numbered: tuple[int, str]) -> int:
        number, path = numbered
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
        command += [f"--basetemp={folder / 'tests' / str(number)}", path]
        command += [f"--deselect={d}" for d in DESELECTED]
        done = subprocess.run(
            command, cwd=ROOT, env=env, check=False, stdout=subprocess.PIPE, text=True
        )
        if done.returncode not in (0, NO_TESTS):
            print(done.stdout)
        print(path, done.stdout.strip().splitlines()[-1], flush=True)
        return 0 if done.returncode == NO_TESTS else done.returncode

    with ThreadPoolExecutor(jobs) as pool:
        return max(pool.map(one, enumerate(paths)))


def programs(folder: Path) -> Iterator[Path]:
    """Programs and libraries under `folder` that have coverage, each content once."""
    seen: set[Path] = set()
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or not os.access(path, os.X_OK):
            continue
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF" or b"__llvm_covmap" not in path.read_bytes():
                continue
        if path.resolve() not in seen:
            seen.add(path.resolve())
            yield path


def functions(folder: Path) -> Iterator[dict[str, Any]]:
    """What LLVM says of every function of every program that ran."""
    profile = folder / "all.profdata"
    raw = [str(p) for p in sorted((folder / "raw").iterdir()) if p.stat().st_size]
    if not raw:
        sys.exit("no program ran")
    (folder / "raw.txt").write_text("\n".join(raw))
    merge = [tool("llvm-profdata"), "merge", "-sparse", "--failure-mode=all", "-o", str(profile)]
    subprocess.run([*merge, "-f", str(folder / "raw.txt")], check=True, capture_output=True)
    for program in programs(folder):
        command = [tool("llvm-cov"), "export", "-skip-expansions", "-instr-profile", str(profile)]
        done = subprocess.run([*command, str(program)], capture_output=True, check=False)
        if done.returncode == 0:
            yield from json.loads(done.stdout)["data"][0]["functions"]


#: Folders of runtime_c that no compiler of this machine's own gets.
ELSEWHERE = {"board", "cortex_m", "riscv"}


class Sources:
    """Which file of runtime_c a compiled one is: bundles hold copies with the same name."""

    def __init__(self) -> None:
        paths = sorted(p for p in RUNTIME.rglob("*") if p.suffix in (".c", ".h"))
        self.here = [p for p in paths if not ELSEWHERE & set(p.parts)]
        self.found: dict[str, str | None] = {}

    def path(self, file: str) -> str | None:
        """A path in runtime_c; None for the rest of bundles, or a text that is another now."""
        if file not in self.found:
            named = [p for p in self.here if p.name == Path(file).name]
            copy = Path(file)
            same = [p for p in named if not copy.exists() or p.read_bytes() == copy.read_bytes()]
            self.found[file] = same[0].relative_to(RUNTIME).as_posix() if same else None
        return self.found[file]

    def names(self) -> set[str]:
        return {p.relative_to(RUNTIME).as_posix() for p in self.here}


def add(taken: Taken, function: dict[str, Any], sources: Sources) -> None:
    """Add one function of one program."""
    files = [sources.path(f) for f in function["filenames"]]
    for path in files:
        if path is not None:
            taken.setdefault(path, {})  # seen, though it may have no branches
    for *place, true, false, file, _, _ in function["branches"]:
        path = files[file]
        if path is None:
            continue
        for outcome, count in ((True, true), (False, false)):
            key: Branch = (*place, outcome)  # type: ignore[assignment] # four numbers
            taken[path][key] = taken[path].get(key, False) or count > 0


def report(taken: Taken, sources: Sources, missing: bool) -> float:
    """Print the table; percent of all branches."""
    for path in sorted(taken):
        each = taken[path]
        hit, total = sum(each.values()), len(each)
        share = f"{100 * hit / total:5.1f} %" if total else "   none"
        print(f"{share}  {hit:5} of {total:5}  {path}")
        if missing:
            for key in sorted(k for k, v in each.items() if not v):
                print(f"           {path}:{key[0]}:{key[1]} never {key[4]}: {source(path, key)}")
    print("not compiled here:", ", ".join(sorted(sources.names() - set(taken))) or "none")
    hit = sum(sum(each.values()) for each in taken.values())
    total = sum(len(each) for each in taken.values())
    share = 100 * hit / total if total else 0.0
    print(f"{share:.2f} % of {total} branches in {len(taken)} files")
    return share


def source(path: str, key: Branch) -> str:
    """The text of a condition."""
    lines = (RUNTIME / path).read_text(encoding="utf-8").splitlines()
    line = lines[key[0] - 1] if key[0] <= len(lines) else ""
    return line[key[1] - 1 : key[3] - 1 if key[2] == key[0] else None]


def main() -> int:
    parser = argparse.ArgumentParser(description="branch coverage of runtime_c")
    parser.add_argument("--least", type=float, default=95.0)
    parser.add_argument("--missing", action="store_true", help="list the branches not taken")
    parser.add_argument("--keep", default="", help="a folder for everything (absent before)")
    parser.add_argument("--again", action="store_true", help="only add up what --keep holds")
    parser.add_argument("--jobs", type=int, default=2, help="files of tests at a time (2)")
    parser.add_argument("tests", nargs="*", default=[], help="paths (all of TESTS)")
    args = parser.parse_args()
    folder = Path(args.keep or tempfile.mkdtemp()).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    status = 0 if args.again else run(args.tests or TESTS, folder, args.jobs)
    sources = Sources()
    taken: Taken = defaultdict(dict)
    for function in functions(folder):
        add(taken, function, sources)
    share = report(taken, sources, args.missing)
    if not args.keep:
        shutil.rmtree(folder)
    return status or (0 if share >= args.least else 1)


if __name__ == "__main__":
    sys.exit(main())
