# SPDX-License-Identifier: Apache-2.0
"""Compile time: CPU seconds of aotc on the light models, and of the C compiler on densenet121.

    python benchmarks/compile_time.py [--no-build] [--build MODEL] [MODEL …]

MODEL is one of the nine light models of the onnx package (all). From aotc's time, user and system,
of a process of its own with --no-configure, the time of a process that imports onnx is taken off;
the allowance is 1.5 s + 10 ms per MB of constants. Exits 1 if one is over, or if the build of
densenet121 at the default build type takes over 12 s or 400 MB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import aot
from corpus_models import LIGHT, light

BUILD_SECONDS, BUILD_MB = 12.0, 400.0


def cpu_seconds(*command: object) -> tuple[float, float]:
    """(CPU seconds, peak MB of the largest process) of a command and its children."""
    words = [str(c) for c in command]
    child = os.posix_spawnp(words[0], words, os.environ, file_actions=[QUIET])
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(words)} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


QUIET = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)


def best(runs: int, *command: object) -> float:
    """The least CPU time of several runs."""
    return min(cpu_seconds(*command)[0] for _ in range(runs))


def compilations(names: list[str], work: Path, runs: int) -> bool:
    """Print the table of aotc's time; whether all are within their allowance."""
    base = best(3, sys.executable, "-c", "import onnx")
    print(f"`import onnx` takes {base:.2f} s of CPU, taken off below.\n")
    print("| model | aotc CPU s | MB of constants | allowance s |\n|---|---|---|---|")
    good = True
    for name in names:
        out = work / name
        words = [light(name).path, "-o", out, "--name", "net", "--no-configure", "-q"]
        seconds = best(runs, sys.executable, "-m", "aot", *words) - base
        constants = aot.Bundle(out).manifest["memory"]["constants_bytes"] / 1e6
        allowed = 1.5 + 0.010 * constants
        print(f"| {name} | {seconds:.2f} | {constants:.1f} | {allowed:.2f} |", flush=True)
        good &= seconds <= allowed
    return good


def build(name: str, work: Path) -> bool:
    """Print the C compiler's time and memory; whether they are within the limits."""
    out = work / f"{name}-built"
    subprocess.run(
        [sys.executable, "-m", "aot", light(name).path, "-o", out, "--name", "net", "-q"],
        check=True,
    )
    seconds, peak = cpu_seconds("cmake", "--build", out, "--target", "net")
    print(
        f"\nBuild of {name}, library of the default build type: {seconds:.1f} s of CPU "
        f"(limit {BUILD_SECONDS:.0f}), largest process {peak:.0f} MB (limit {BUILD_MB:.0f})"
    )
    return seconds <= BUILD_SECONDS and peak <= BUILD_MB


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", default=list(LIGHT), metavar="MODEL")
    p.add_argument("--runs", type=int, default=2)
    p.add_argument("--build", default="densenet121", metavar="MODEL")
    p.add_argument("--no-build", action="store_true")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        good = compilations(a.models, Path(temporary), a.runs)
        if not a.no_build:
            good &= build(a.build, Path(temporary))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
