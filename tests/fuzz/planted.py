# SPDX-License-Identifier: Apache-2.0
"""Plant each of fifty bugs in a copy of the compiler; the generator has to find it.

    python tests/fuzz/planted.py [--only K,K…] [--budget N]

Each bug gets `--budget` models of its families, and is found when one of them shows a defect that
the compiler without the bug does not show on the same model.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent)]

from fuzz.mutants import MUTANTS, Mutant  # noqa: E402

COPIED = ("aot", "runtime_c", "cmake", "tests/fuzz", "tests/ops")


def copy(to: Path) -> None:
    """What the fuzzer needs of the project."""
    for part in COPIED:
        leave = shutil.ignore_patterns("__pycache__", "build")
        shutil.copytree(ROOT / part, to / part, ignore=leave, dirs_exist_ok=True)


def plant(mutant: Mutant, root: Path) -> str:
    """Put the bug in; the text without. Raises ValueError if the file does not have its place."""
    path = root / mutant.file
    text = path.read_text()
    if mutant.old not in text:
        raise ValueError(f"{mutant.file} does not have {mutant.old!r}")
    path.write_text(text.replace(mutant.old, mutant.new, 1))
    return text


def first_defect(root: Path, families: str, seeds: range, cache: Path) -> str:
    """The first defect that the compiler in `root` shows, "" if none."""
    words = [sys.executable, "-B", str(root / "tests/fuzz"), "--first", "--configs", "base"]
    words += ["--seed", str(seeds.start), "-n", str(len(seeds))]
    words += ["--families", families, "--cache", str(cache)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        raise RuntimeError(done.stderr[-2000:])
    lines = [s for s in done.stdout.splitlines() if "seed" in s]
    return lines[0][:150] if done.returncode else ""


def found(mutant: Mutant, roots: tuple[Path, Path], budget: int, cache: Path) -> str:
    """The first defect that only the compiler with the bug shows, "" if none does.

    `roots` are the compilers with the bug and without it.
    """
    start = 0
    while start < budget:
        text = first_defect(roots[0], mutant.families, range(start, budget), cache)
        if not text:
            return ""
        seed = int(text.split("seed ")[1].split()[0])
        if not first_defect(roots[1], mutant.families, range(seed, seed + 1), cache):
            return text
        start = seed + 1
    return ""


def main() -> int:
    """Plant what was asked for; exit code 1 if anything is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="numbers of bugs, from 0")
    parser.add_argument("--budget", type=int, default=800, help="models per bug (800)")
    parser.add_argument("--cache", default=str(Path(tempfile.gettempdir()) / "aotc-fuzz"))
    args = parser.parse_args()
    chosen = [int(k) for k in args.only.split(",") if k] or list(range(len(MUTANTS)))
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        root, sound = Path(folder) / "ill", Path(folder) / "sound"
        copy(root)
        copy(sound)
        for k in chosen:
            begin = time.monotonic()
            healthy = plant(MUTANTS[k], root)
            text = found(MUTANTS[k], (root, sound), args.budget, Path(args.cache))
            (root / MUTANTS[k].file).write_text(healthy)
            missed += [] if text else [k]
            taken = time.monotonic() - begin
            print(f"{k} {MUTANTS[k].file} {text or 'MISSED'} ({taken:.0f} s)", flush=True)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} planted bugs found; missed: {missed}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
