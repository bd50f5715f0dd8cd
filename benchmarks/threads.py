# SPDX-License-Identifier: Apache-2.0
"""Threads: wall time of a run with N threads, to one thread, and to onnxruntime with N threads.

    AOT_TEST_MODELS=<folder> python benchmarks/threads.py [--threads N] [MODEL …]

Wall time says something on idle cores only: where the load of the machine is 0.3 or more before a
model is measured, its line says "not measurable". MODEL is as in benchmarks/host.py. Each round
times all three on the same inputs; ratios are medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime as ort
from host import compiled, fed, find

from aot.tools.run import Built, start

DEFAULT = ("resnet50", "minilm_l3_v512", "ultraface_rfb320")
#: The load of a machine on which nothing else runs.
IDLE = 0.3
#: Seconds in which a machine is taken to become idle again.
PATIENCE = 60


def ours(built: Built, files: list[str], runs: int, threads: int) -> float:
    """Median milliseconds of wall time of a run with so many threads."""
    os.environ["AOT_THREADS"] = str(threads)
    text = start(built, [*files, "--repeat", str(runs), "--warmup", "2"])
    return median(json.loads(text)["wall_ns"]) / 1e6


def theirs(session: ort.InferenceSession, feeds: dict[str, np.ndarray], runs: int) -> float:
    """Median milliseconds of wall time of a run of onnxruntime."""
    times = []
    for _ in range(runs + 2):
        began = time.perf_counter_ns()
        session.run(None, feeds)
        times.append(time.perf_counter_ns() - began)
    return median(times[2:]) / 1e6


def row(name: str, threads: int, rounds: int, target: str, work: Path) -> str:
    """A line of the table, without the name of the model."""
    model = find(name, work)
    built = compiled(model, work / "out", ["--target", target, "--threads", str(threads)])
    files, feeds = fed(built, work)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    path, providers = str(model.path), ["CPUExecutionProvider"]
    session = ort.InferenceSession(path, options, providers=providers)
    # The compilation above is a load, too, which is over: wait until the average says so.
    end = time.monotonic() + PATIENCE
    while (load := os.getloadavg()[0]) >= IDLE:
        if time.monotonic() > end:
            return f"not measurable: load {load:.2f}"
        time.sleep(1)
    runs = int(min(100, max(5, 300 / ours(built, files, 3, 1))))
    found = []
    for _ in range(rounds):
        mine = ours(built, files, runs, 1), ours(built, files, runs, threads)
        found.append((*mine, theirs(session, feeds, runs)))
    one, many, other = (median(times) for times in zip(*found, strict=True))
    gain = median(a / b for a, b, _ in found)
    ratio = median(c / b for _, b, c in found)
    return f"{one:.3f} | {many:.3f} | {gain:.2f} | {other:.3f} | {ratio:.2f}"


def main() -> None:
    """Print the table."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", default=list(DEFAULT), metavar="MODEL")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--target", default="host")
    a = p.parse_args()
    print(f"| model | 1 thread ms | {a.threads} threads ms | gain | onnxruntime ms | its / ours |")
    print("|---|---|---|---|---|---|")
    for name in a.models:
        with tempfile.TemporaryDirectory() as work:
            line = row(name, a.threads, a.rounds, a.target, Path(work))
            print(f"| {name} | {line} |", flush=True)


if __name__ == "__main__":
    main()
