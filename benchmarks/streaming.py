# SPDX-License-Identifier: Apache-2.0
"""Whole tensors against rows: bytes of arena, instructions and flash on boards.

    python benchmarks/streaming.py [--no-build] [MODEL.onnx:TARGET:ASKED …]

Compiles each network with the default objective and with `--objective ram`, builds both, feeds both
the same codes and compares the results byte by byte, and counts instructions under QEMU. Without
arguments: the networks of AOT_TEST_MODELS in CASES, with the bytes asked for. `--no-build` plans
only. Exits 1 if results differ or an arena is larger than asked.
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
    bundle = aot.compile(model, out, target=target, objective=objective)  # type: ignore[arg-type]
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
        codes = {i["name"]: rng.integers(-128, 128, i["shape"]).astype(i["dtype"]) for i in inputs}
        np.savez(folder / "x.npz", **codes)
        (a, ours, flash), (b, theirs, more) = (measured(p, folder / "x.npz") for p in pair)
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
