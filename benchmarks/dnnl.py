# SPDX-License-Identifier: Apache-2.0
"""The oneDNN vendor beside a hand-written chain of the same primitives (dnnl_chain.c), portable C
and onnxruntime, one thread, in interleaved rounds.

    AOT_TEST_MODELS=<folder> [dnnl_ROOT=<prefix>] python benchmarks/dnnl.py [MODEL …]

MODEL is as in benchmarks/host.py. Each round times all three on the same input by CPU time, the
first one changing from round to round; a number is the median over rounds of a round's median.
`reorders` counts what oneDNN itself reports to reorder in one run. Networks of other than
convolutions, pooling and dense layers have no chain, nor has oneDNN 2.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from dnnl_chain import Chain
from host import compiled, fed, find, interleaved, ours, session, theirs

from aot.tools.run import Built, execute

DEFAULT = ("resnet18", "resnet50", "mobilenetv2", "squeezenet1_1")


def regions(out: Path) -> tuple[int, int]:
    """Regions, and calls outside of them; inputs copied because they are results are no calls."""
    manifest = json.loads((out / "bundle" / "manifest.json").read_text())
    outside = sum(n["backend"] == "c" and n["kernel"] != "aot_copy" for n in manifest["nodes"])
    return len(manifest["regions"]), outside


def reorders(built: Built, files: list[str]) -> int:
    """Reorders per run, by the library's own account: those of three runs less those of one."""
    counts = []
    for runs in (1, 3):
        words = [str(built.program()), *files, "--repeat", str(runs), "--warmup", "0"]
        env = {**os.environ, "DNNL_VERBOSE": "1"}
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        counts.append(done.stdout.count(",exec,cpu,reorder"))
        if ",exec,cpu," not in done.stdout:
            raise SystemExit("the library does not say what it executes")
    return (counts[1] - counts[0]) // 2


def chained(path: Path, work: Path) -> Chain | None:
    """The hand-written chain, where there is one."""
    prefix = Path(os.environ.get("dnnl_ROOT", sys.prefix))  # noqa: SIM112
    try:
        return Chain(path, prefix, work)
    except (ValueError, subprocess.CalledProcessError):
        return None


def measure(name: str, work: Path, rounds: int) -> str:
    """One row of the table."""
    model = find(name, work)
    vendor = compiled(model, work / "dnnl", ["--backend", "dnnl"])
    portable = compiled(model, work / "c", [])
    chain = None if model.options() else chained(model.path, work / "chain")
    files, feeds = fed(vendor, work)
    other = session(model)
    runs = int(min(100, max(5, 300 / max(0.01, theirs(other, feeds, 3)))))
    timers = {
        "dnnl": lambda: ours(vendor, files, runs),
        "c": lambda: ours(portable, files, runs),
        "onnxruntime": lambda: theirs(other, feeds, runs),
    }
    if chain is not None:
        timers["chain"] = lambda: chain.run(work / "0.bin", runs)
        chain.run(work / "0.bin", 1)
        want = np.ravel(execute(vendor, tuple(feeds.values()))[0])
        np.testing.assert_allclose(chain.result(), want, rtol=1e-3, atol=1e-4 * abs(want).max())
    times = interleaved(timers, rounds)
    return row(model.name, work / "dnnl", times, reorders(vendor, files))


def row(name: str, out: Path, times: dict[str, list[float]], moved: int) -> str:
    """Counts, medians, and ratios: the median of those of the rounds."""
    count, outside = regions(out)
    numbers, ratios = [], []
    for key in ("dnnl", "chain", "c", "onnxruntime"):
        numbers.append(f"{median(times[key]):.2f}" if key in times else "")
    for key in ("chain", "c", "onnxruntime"):
        pairs = zip(times["dnnl"], times.get(key, []), strict=False)
        found = [a / b for a, b in pairs]
        ratios.append(f"{median(found):.3f}" if found else "")
    return "| " + " | ".join([name, str(count), str(outside), str(moved), *numbers, *ratios]) + " |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", default=list(DEFAULT), metavar="MODEL")
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.stdout.write(
        "| model | regions | other calls | reorders | dnnl ms | chain ms | c ms | onnxruntime ms "
        "| dnnl / chain | dnnl / c | dnnl / onnxruntime |"
    )
    print("\n" + "|---" * 11 + "|")
    for name in a.models:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(name, Path(folder), a.rounds), flush=True)


if __name__ == "__main__":
    main()
