# SPDX-License-Identifier: Apache-2.0
"""Partition by cost beside each library alone and portable C alone, one thread, in interleaved
rounds.

    AOT_TEST_MODELS=<folder> [dnnl_ROOT=<prefix>] python benchmarks/cost.py [MODEL …]

MODEL is as in benchmarks/host.py. Costs are measured first (`aotc tune`). A number is the median
over rounds of a round's median of CPU time; the last column compares within rounds, with the build
that has the least median.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

from host import RealModel, compiled, fed, find, interleaved, ours

from aot.cli import main as aotc
from aot.tools.run import Built

DEFAULT = ("mobilenetv2", "resnet18", "squeezenet1_1", "bert_tiny", "mlperf_vww_f32")
VENDORS = ("dnnl", "xnnpack", "cblas")


def every_way(model: RealModel, work: Path, vendors: list[str], costs: str) -> dict[str, Built]:
    """The model in portable C, for each vendor, and by the table of costs in the file `costs`."""
    by_cost = ["--backend", ",".join(vendors), "--partition", "cost", "--tune", costs]
    return {
        "c": compiled(model, work / "c", []),
        **{v: compiled(model, work / v, ["--backend", v]) for v in vendors},
        "cost": compiled(model, work / "cost", by_cost),
    }


def measure(name: str, work: Path, vendors: list[str], rounds: int) -> str:
    """The row of one network."""
    model = find(name, work)
    costs = str(work / "costs.json")
    every = ["--backend", ",".join(vendors)]
    assert aotc(["tune", str(model.path), *model.options(), *every, "-o", costs]) == 0
    built = every_way(model, work, vendors, costs)
    files, _ = fed(built["c"], work)
    once = ours(built["c"], files, 3)
    runs = int(min(300, max(5, 300 / max(0.01, once))))
    timers = {key: (lambda b=b: ours(b, files, runs)) for key, b in built.items()}
    times, keys = interleaved(timers, rounds), list(built)
    best = min(keys[:-1], key=lambda key: median(times[key]))
    ratio = median(a / b for a, b in zip(times["cost"], times[best], strict=True))
    manifest = json.loads((work / "cost" / "bundle" / "manifest.json").read_text())
    taken = Counter(n["backend"] for n in manifest["nodes"])
    calls = ", ".join(f"{taken[v]} {v}" for v in ("c", *vendors) if taken[v])
    ms = " | ".join(f"{median(times[key]):.3f}" for key in keys)
    return f"| {model.name} | {calls} | {len(manifest['regions'])} | {ms} | {ratio:.2f} |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", default=list(DEFAULT), metavar="MODEL")
    p.add_argument("--vendors", default=",".join(VENDORS), help="libraries, with commas between")
    p.add_argument("--rounds", type=int, default=7)
    a = p.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    vendors = a.vendors.split(",")
    columns = ["model", "calls of cost", "regions", *(f"{k} ms" for k in ("c", *vendors, "cost"))]
    print("| " + " | ".join((*columns, "cost / best")) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in a.models:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(name, Path(folder), vendors, a.rounds), flush=True)


if __name__ == "__main__":
    main()
