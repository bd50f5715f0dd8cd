# SPDX-License-Identifier: Apache-2.0
"""Weights as codes against weights as they are: constants, flash, instructions and RAM of images.

    python benchmarks/codes.py [MODEL.onnx:CONSTANTS:IMAGE:TIME …]

Compiles each network with `--objective flash` for a Cortex-M4, once with weights as they are and
once as codes, runs both images under QEMU on the data beside the model and compares the results
byte by byte. Without arguments: the networks of AOT_TEST_MODELS in CASES, with the largest
constants in bytes, image and instructions (ratios, codes over plain; 0: none) that are asked for.
Exits 1 if one is missed, or results differ.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import aot  # noqa: E402
from aot.cli import main as aotc  # noqa: E402
from aot.ir.program import Program  # noqa: E402
from aot.npz import read_npz  # noqa: E402

CASES = (
    ("mlperf_vww_int8.onnx", 42_000, 0.0, 0.0),
    ("mlperf_ic_int8.onnx", 0, 0.96, 0.0),
    ("mlperf_ad_int8.onnx", 0, 0.75, 6.0),
    ("mlperf_kws_int8.onnx", 0, 0.0, 0.0),
    ("mlperf_sww_int8.onnx", 0, 0.0, 0.0),
)
HEAD = (
    "| network | constants | as codes | flash | as codes | ratio | instructions | as codes | ratio "
    "| arena | as codes | |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Image:
    """What was measured of an image: bytes of constants, flash and arena, instructions, results."""

    constants: int
    flash: int
    arena: int
    instructions: int
    results: dict[str, np.ndarray]


def plain(program: Program, bound: int) -> Program:
    """The program as it is."""
    return program


def measured(model: Path, out: Path, samples: Path) -> Image:
    """The image for a Cortex-M4 with `--objective flash`, run on the samples."""
    bundle = aot.compile(model, out, target="cortex-m4", objective="flash").build()
    words = ["run", str(out), "--inputs", str(samples), "--outputs", str(out / "y.npz")]
    if aotc(words) != 0 or aotc(["bench", str(out), "-q", "--json", str(out / "b.json")]) != 0:
        raise SystemExit(f"{out} does not run")
    found = json.loads((out / "b.json").read_text(encoding="utf-8"))
    memory = bundle.manifest["memory"]
    figures = memory["constants_bytes"], found["flash"], memory["arena_bytes"]
    return Image(*map(int, figures), int(found["instructions"]), read_npz(out / "y.npz"))


def row(model: Path, constants: int, image: float, time: float, folder: Path) -> tuple[str, bool]:
    """A line of the table, and whether all is as asked."""
    samples = model.with_suffix(".npz")
    with patch("aot.plan.fetch.choose.unpacked", plain):
        before = measured(model, folder / "plain", samples)
    after = measured(model, folder / "codes", samples)
    same = all(np.array_equal(v, after.results[k]) for k, v in before.results.items())
    flash, slower = after.flash / before.flash, after.instructions / before.instructions
    good = same and after.constants <= (constants or before.constants)
    good = good and flash <= (image or 1) and slower <= (time or 6)
    cells = [model.stem, before.constants, after.constants, before.flash, after.flash]
    cells += [f"{flash:.3f}", before.instructions, after.instructions, f"{slower:.2f}"]
    cells += [before.arena, after.arena, "equal" if same else "DIFFER"]
    return "| " + " | ".join(map(str, cells)) + " |", good


def main() -> int:
    """Print the table; the exit code."""
    models = Path(os.environ.get("AOT_TEST_MODELS", "."))
    cases = [(models / n, *asked) for n, *asked in CASES]
    given = [c.rsplit(":", 3) for c in sys.argv[1:]]
    cases = [(Path(n), int(c), float(i), float(t)) for n, c, i, t in given] or cases  # type: ignore[assignment]
    print(HEAD, flush=True)
    good = True
    for model, *asked in cases:
        with tempfile.TemporaryDirectory() as folder:
            line, fine = row(model, *asked, Path(folder))  # type: ignore[arg-type]
        print(line if fine else f"{line} more than asked", flush=True)
        good = good and fine
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
