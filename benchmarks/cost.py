# SPDX-License-Identifier: Apache-2.0
"""Partition by cost beside oneDNN alone and portable C alone, one thread, in interleaved rounds.

    AOT_TEST_MODELS=<folder> [dnnl_ROOT=<prefix>] python benchmarks/cost.py [MODEL …]

MODEL is as in benchmarks/host.py. Costs are measured first (`aotc tune`). A number is the median
over rounds of a round's median of CPU time; the last column compares within rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from statistics import median

from host import compiled, find, ours

from aot.cli import main as aotc
from aot.tools.samples import random_sample

DEFAULT = ("mobilenetv2", "resnet50", "vgg16", "bert_tiny")


def measure(name: str, work: Path, rounds: int) -> str:
    model = find(name, work)
    costs = str(work / "costs.json")
    assert aotc(["tune", str(model.path), *model.options(), "--backend", "dnnl", "-o", costs]) == 0
    by_cost = ["--backend", "dnnl", "--partition", "cost", "--tune", costs]
    built = {
        "c": compiled(model, work / "c", []),
        "dnnl": compiled(model, work / "dnnl", ["--backend", "dnnl"]),
        "cost": compiled(model, work / "cost", by_cost),
    }
    files = []
    for i, array in enumerate(random_sample(built["c"].inputs, None).inputs):
        (work / f"{i}.bin").write_bytes(array.tobytes())
        files += ["--input", f"{i}={work / f'{i}.bin'}"]
    once = ours(built["c"], files, 3)
    runs = int(min(300, max(5, 300 / max(0.01, once))))
    times: dict[str, list[float]] = {key: [] for key in built}
    keys = list(built)
    for k in range(rounds):
        for key in keys[k % 3 :] + keys[: k % 3]:
            times[key].append(ours(built[key], files, runs))
    ratio = median(
        t / min(a, b) for t, a, b in zip(times["cost"], times["c"], times["dnnl"], strict=True)
    )
    manifest = json.loads((work / "cost" / "bundle" / "manifest.json").read_text())
    taken = sum(n["backend"] == "dnnl" for n in manifest["nodes"])
    ms = " | ".join(f"{median(times[key]):.3f}" for key in keys)
    calls = len(manifest["nodes"])
    regions = len(manifest["regions"])
    return f"| {model.name} | {taken} of {calls} | {regions} | {ms} | {ratio:.2f} |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", default=list(DEFAULT), metavar="MODEL")
    p.add_argument("--rounds", type=int, default=7)
    a = p.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    print("| model | calls of dnnl | regions | c ms | dnnl ms | cost ms | cost / best |")
    print("|---|---|---|---|---|---|---|")
    for name in a.models:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(name, Path(folder), a.rounds), flush=True)


if __name__ == "__main__":
    main()
