# SPDX-License-Identifier: Apache-2.0
"""A run in steps against a whole run: instructions, the longest step, flash on boards.

    AOT_TEST_MODELS=<folder> python benchmarks/slices.py [--macs N] [--target T …] [MODEL …]

Compiles each of MLPerf Tiny's int8 networks as it is and with `--slice-macs N` (100 K), runs the
second one by steps of N multiplications under QEMU, and compares the results byte by byte. "bound"
is the larger of N and the multiplications of the network's largest row of a convolution. Exits 1 if
results differ, a slice is longer than 1.25 times the bound, or the run in steps takes 2 % more
instructions than the whole one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import aot  # noqa: E402
from aot.api import Bundle  # noqa: E402
from aot.cli import main as aotc  # noqa: E402
from aot.npz import read_npz  # noqa: E402
from aot.tools.bench import Board, bench  # noqa: E402
from aot.tools.run import open_out  # noqa: E402

MODELS = tuple(f"mlperf_{m}_int8.onnx" for m in ("ic", "vww", "kws", "ad", "sww"))
HEAD = (
    "| network | target | slices | longest, MACs | bound | run | in steps | longest step "
    "| flash ratio |\n|---|---|---|---|---|---|---|---|---|"
)


def measured(bundle: Bundle, samples: Path) -> tuple[dict[str, np.ndarray], Board]:
    """Results on the samples, and what the image costs."""
    bundle.build()
    results = bundle.out / "y.npz"
    if aotc(["run", str(bundle.out), "--inputs", str(samples), "--outputs", str(results)]) != 0:
        raise SystemExit(f"{bundle.out} does not run")
    found = bench(open_out(bundle.out))
    assert isinstance(found, Board)
    return read_npz(results), found


def largest_row(manifest: dict[str, Any]) -> int:
    """Multiplications of the largest row of a result that was cut, 0 if none was."""
    parts = (s for s in manifest["slices"]["slices"] if s["end_row"])
    return max((s["macs"] // (s["end_row"] - s["first_row"]) for s in parts), default=0)


def row(model: Path, target: str, macs: int, folder: Path) -> tuple[str, bool]:
    """A line of the table, and whether all is as asked."""
    whole = aot.compile(model, folder / "whole", target=target)
    steps = aot.compile(model, folder / "steps", target=target, slice_macs=macs)
    samples = model.with_suffix(".npz")
    (one, plain), (other, stepped) = measured(whole, samples), measured(steps, samples)
    same = one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)
    slices = steps.manifest["slices"]
    bound = max(macs, largest_row(steps.manifest))
    runs = plain.instructions[-1], stepped.instructions[-1]
    cells = [model.stem, target, slices["count"], slices["longest_macs"], bound, runs[0]]
    cells += [f"{runs[1]} ({100 * (runs[1] / runs[0] - 1):+.1f} %)", stepped.longest_step]
    cells.append(f"{stepped.image.flash / plain.image.flash:.3f}")
    good = same and slices["longest_macs"] <= 1.25 * bound and runs[1] <= 1.02 * runs[0]
    return f"| {' | '.join(map(str, cells))} |" + ("" if same else " results differ"), good


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--macs", type=int, default=100 * 1024)
    parser.add_argument("--target", action="append")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    given = parser.parse_args()
    folder = Path(os.environ.get("AOT_TEST_MODELS", "."))
    models = [Path(m) for m in given.models] or [folder / m for m in MODELS]
    print(HEAD)
    good = True
    for target in given.target or ["cortex-m4"]:
        for model in models:
            with tempfile.TemporaryDirectory() as out:
                text, fine = row(model, target, given.macs, Path(out))
            print(text, flush=True)
            good = good and fine
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
