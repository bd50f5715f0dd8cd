# SPDX-License-Identifier: Apache-2.0
"""Whole tensors against rows: bytes of arena, instructions and flash on boards, time on hosts.

    python benchmarks/streaming.py [--no-build] [MODEL.onnx:TARGET:ASKED …]

Compiles each network with the default objective and with `--objective ram`, builds both, feeds both
the same data and compares the results byte by byte, and counts instructions under QEMU; on a host
with `--accuracy strict`, and the time is the median of CPU seconds in turns. Without arguments: the
networks of AOT_TEST_MODELS in CASES, with the bytes asked for. `--no-build` plans only. Exits 1 if
results differ or an arena is larger than asked.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import aot  # noqa: E402
from aot.api import Bundle  # noqa: E402
from aot.cli import main as aotc  # noqa: E402
from aot.npz import read_npz  # noqa: E402

CASES = (
    ("mlperf_ic_int8.onnx", "cortex-m4", 14_000),
    ("mlperf_vww_int8.onnx", "cortex-m4", 36_000),
    ("mlperf_kws_int8.onnx", "cortex-m4", 5_500),
    ("mobilenetv2_int8.onnx", "cortex-m55", 260_000),
)
#: Runs of each bundle that are timed on a host.
TURNS = 15
HEAD = (
    "| network | target | whole | asked | by rows | arena bound | planning s "
    "| instructions ratio | flash ratio | codes |\n|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Built:
    """One bundle: its arena, the seconds of CPU that compiling took, what a run of it gave."""

    bundle: Bundle
    seconds: float
    arena: int
    bound: int


def compiled(model: Path, target: str, objective: str, out: Path) -> Built:
    """The bundle for an objective."""
    start = time.process_time()
    options = {"target": target, "objective": objective}
    options |= {"accuracy": "strict"} if target == "host" else {}
    bundle = aot.compile(model, out, **options)  # type: ignore[arg-type]
    seconds = time.process_time() - start
    memory = bundle.manifest["memory"]
    return Built(bundle, seconds, memory["arena_bytes"], memory["lower_bound_bytes"])


def measured(built: Built, samples: Path) -> tuple[dict[str, np.ndarray], float, float]:
    """Results, instructions and bytes of flash of a board's image."""
    out = built.bundle.out
    built.bundle.build()
    words = ["run", str(out), "--inputs", str(samples), "--outputs", str(out / "y.npz")]
    if aotc(words) != 0 or aotc(["bench", str(out), "-q", "--json", str(out / "b.json")]) != 0:
        raise SystemExit(f"{out} does not run")
    found = json.loads((out / "b.json").read_text(encoding="utf-8"))
    return read_npz(out / "y.npz"), float(found["instructions"]), float(found["flash"])


def timed(pair: list[Built], samples: Path) -> list[tuple[dict[str, np.ndarray], float, float]]:
    """The same for two bundles of this machine: results, seconds, bytes of the library."""
    feeds = list(read_npz(samples).values())
    runs = [built.bundle.build().load() for built in pair]
    results = [{str(k): np.asarray(v) for k, v in enumerate([run(*feeds)])} for run in runs]
    seconds: list[list[float]] = [[], []]
    for turn in range(2 * TURNS):
        start = time.process_time()
        runs[turn % 2](*feeds)
        seconds[turn % 2].append(time.process_time() - start)
    sizes = [next((b.bundle.out / "lib").glob("*.so")).stat().st_size for b in pair]
    return [
        (found, float(np.median(times)), float(size))
        for found, times, size in zip(results, seconds, sizes, strict=True)
    ]


def data(shape: list[int], dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Random values of an input."""
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-128, 128, shape).astype(dtype)


def row(model: Path, target: str, asked: int, build: bool, folder: Path) -> tuple[str, bool]:
    """A line of the table, and whether all is as asked."""
    pair = [compiled(model, target, o, folder / o) for o in ("latency", "ram")]
    whole, rows = pair
    cells = [model.stem, target, whole.arena, asked, rows.arena, rows.bound]
    cells.append(f"{whole.seconds:.1f} / {rows.seconds:.1f}")
    good = rows.arena <= asked
    if build:
        rng = np.random.default_rng(7)
        inputs = whole.bundle.manifest["inputs"]
        values = {i["name"]: data(i["shape"], i["dtype"], rng) for i in inputs}
        np.savez(folder / "x.npz", **values)
        if target == "host":
            found = timed(pair, folder / "x.npz")
        else:
            found = [measured(p, folder / "x.npz") for p in pair]
        (a, ours, flash), (b, theirs, more) = found
        same = all(np.array_equal(v, b[k]) for k, v in a.items())
        cells += [f"{theirs / ours:.3f}", f"{more / flash:.3f}", "equal" if same else "DIFFER"]
        good = good and same
    return "| " + " | ".join(map(str, cells)) + " |", good


def main() -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="MODEL.onnx:TARGET:ASKED")
    parser.add_argument("--no-build", action="store_true")
    args = parser.parse_args()
    models = Path(os.environ.get("AOT_TEST_MODELS", "."))
    cases = [(models / n, t, b) for n, t, b in CASES]
    given = [c.rsplit(":", 2) for c in args.cases]
    cases = [(Path(n), t, int(b)) for n, t, b in given] or cases
    print(HEAD, flush=True)
    good = True
    for model, target, asked in cases:
        with tempfile.TemporaryDirectory() as folder:
            line, fine = row(model, target, asked, not args.no_build, Path(folder))
        print(line, flush=True)
        good = good and fine
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
