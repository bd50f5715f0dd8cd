# SPDX-License-Identifier: Apache-2.0
"""Integer networks by the 8-bit units of 64-bit Arm cores, in instructions of one run under QEMU.

    AOT_TEST_MODELS=<folder> python benchmarks/arm_units.py

Each row has the instructions of a network for any 64-bit Arm core, and as ratios of them those for
cores with dot products (cortex-a76) and with products of 8-bit matrices (aarch64-i8mm). Exits 1 if
the results of a network have not the same bytes on all of them, or if dot products take more than
WORST of the instructions of a network or MEAN in the geometric mean.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from pathlib import Path

from instructions import instructions

import aot
from aot.tools.run import execute, open_out
from aot.tools.samples import random_sample

NETWORKS = ("mlperf_kws_int8", "mlperf_ic_int8", "mobilenetv2_int8")
PLAIN, TARGETS = "aarch64-linux", ("cortex-a76", "aarch64-i8mm")
#: The most that dot products may take of the instructions without them.
MEAN, WORST = 0.45, 0.55


def measured(model: Path, target: str, work: Path) -> tuple[int, list[bytes]]:
    """The instructions of a run on a target's emulator, and the bytes of its results."""
    aot.compile(model, work, target=target).build()
    built = open_out(work)
    results = execute(built, random_sample(built.inputs, None).inputs)
    return instructions(built, ["--fill", "1"], work), [array.tobytes() for array in results]


def main() -> None:
    """Print the table."""
    folder, ratios, equal = Path(os.environ["AOT_TEST_MODELS"]), [], True
    print("| network | aarch64-linux, million | " + " | ".join(TARGETS) + " |\n|---|---|---|---|")
    for name in NETWORKS:
        with tempfile.TemporaryDirectory() as work:
            base = Path(work)
            count, want = measured(folder / f"{name}.onnx", PLAIN, base / PLAIN)
            found = [measured(folder / f"{name}.onnx", t, base / t) for t in TARGETS]
        equal = equal and all(got == want for _, got in found)
        row = [n / count for n, _ in found]
        ratios.append(row[0])
        cells = " | ".join(f"{r:.2f}" for r in row)
        print(f"| {name} | {count / 1e6:.1f} | {cells} |", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\ndot products: geometric mean {mean:.2f}, most {max(ratios):.2f}")
    if not equal or mean > MEAN or max(ratios) > WORST:
        sys.exit("results differ" if not equal else f"more than {MEAN} or {WORST}")


if __name__ == "__main__":
    main()
