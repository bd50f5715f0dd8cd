# SPDX-License-Identifier: Apache-2.0
"""The oneDNN vendor beside portable C and onnxruntime, one thread, in interleaved rounds.

    AOT_TEST_MODELS=<folder> [dnnl_ROOT=<prefix>] python benchmarks/dnnl.py [MODEL …]

MODEL is as in benchmarks/host.py. Each round times all three on the same input by CPU time, the
first one changing from round to round; a number is the median over rounds of a round's median.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from host import compiled, find, ours, session, theirs

from aot.samples import random_sample

DEFAULT = ("resnet18", "resnet50", "mobilenetv2", "squeezenet1_1")


def regions(out: Path) -> tuple[int, int]:
    """Regions, and calls outside of them."""
    manifest = json.loads((out / "bundle" / "manifest.json").read_text())
    outside = sum(n["backend"] == "c" for n in manifest["nodes"])
    return len(manifest["regions"]), outside


def measure(name: str, work: Path, rounds: int) -> str:
    model = find(name, work)
    vendor = compiled(model, work / "dnnl", ["--backend", "dnnl"])
    portable = compiled(model, work / "c", [])
    sample = random_sample(vendor.inputs, None)
    files = []
    for i, array in enumerate(sample.inputs):
        path = work / f"{i}.bin"
        path.write_bytes(array.tobytes())
        files += ["--input", f"{i}={path}"]
    feeds = {s.name: a for s, a in zip(vendor.inputs, sample.inputs, strict=True)}
    other = session(model)
    runs = int(min(100, max(5, 300 / max(0.01, theirs(other, feeds, 3)))))
    timers = (
        ("dnnl", lambda: ours(vendor, files, runs)),
        ("c", lambda: ours(portable, files, runs)),
        ("onnxruntime", lambda: theirs(other, feeds, runs)),
    )
    times: dict[str, list[float]] = {key: [] for key, _ in timers}
    for k in range(rounds):
        for i in range(len(timers)):
            key, timer = timers[(i + k) % len(timers)]
            times[key].append(timer())
    ms = {key: median(t) for key, t in times.items()}
    count, outside = regions(work / "dnnl")
    against = median(a / b for a, b in zip(times["dnnl"], times["c"], strict=True))
    numbers = " | ".join(f"{ms[key]:.2f}" for key, _ in timers)
    return f"| {model.name} | {count} | {outside} | {numbers} | {against:.2f} |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", default=list(DEFAULT), metavar="MODEL")
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.stdout.write(
        "| model | regions | other calls | dnnl ms | c ms | onnxruntime ms | dnnl / c |"
    )
    print("\n|---|---|---|---|---|---|---|")
    for name in a.models:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(name, Path(folder), a.rounds), flush=True)


if __name__ == "__main__":
    main()
