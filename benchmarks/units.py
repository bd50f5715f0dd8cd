# SPDX-License-Identifier: Apache-2.0
"""Networks by the vector units of cores that QEMU emulates, in instructions of one run.

    AOT_TEST_MODELS=<folder> python benchmarks/units.py [aarch64|riscv64 …]

Each row has the instructions of a network for any core of an architecture, and as ratios of them
those for cores with a unit: for 64-bit Arm dot products (cortex-a76) and products of 8-bit matrices
(aarch64-i8mm), for 64-bit RISC-V vectors (rv64gcv). Exits 1 if the results of an integer network
have not the same bytes on all of them, or if the first unit takes more than WORST of the
instructions of a network or MEAN in the geometric mean.
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

INTEGER = ("mlperf_kws_int8", "mlperf_ic_int8", "mobilenetv2_int8")
FLOAT = ("mlperf_kws_f32", "mlperf_ic_f32")
#: Architecture → its target for any core, those with units, and the networks.
FAMILIES = {
    "aarch64": ("aarch64-linux", ("cortex-a76", "aarch64-i8mm"), INTEGER),
    "riscv64": ("riscv64-linux", ("rv64gcv",), (*INTEGER, *FLOAT)),
}
#: The most that the first unit may take of the instructions without it.
MEAN, WORST = 0.45, 0.55


def measured(model: Path, target: str, work: Path) -> tuple[int, list[bytes]]:
    """The instructions of a run on a target's emulator, and the bytes of its results."""
    aot.compile(model, work, target=target).build()
    built = open_out(work)
    results = execute(built, random_sample(built.inputs, None).inputs)
    return instructions(built, ["--fill", "1"], work), [array.tobytes() for array in results]


def table(family: str, folder: Path) -> str:
    """Print the table of a family; what is wrong with it, "" for nothing."""
    plain, targets, networks = FAMILIES[family]
    ratios, differ = [], False
    print(f"| network | {plain}, million | {' | '.join(targets)} |")
    print("|---|---" + "|---" * len(targets) + "|")
    for name in networks:
        with tempfile.TemporaryDirectory() as work:
            base = Path(work)
            count, want = measured(folder / f"{name}.onnx", plain, base / plain)
            found = [measured(folder / f"{name}.onnx", t, base / t) for t in targets]
        differ = differ or (name in INTEGER and any(got != want for _, got in found))
        row = [n / count for n, _ in found]
        ratios.append(row[0])
        cells = " | ".join(f"{r:.2f}" for r in row)
        print(f"| {name} | {count / 1e6:.1f} | {cells} |", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\n{targets[0]}: geometric mean {mean:.2f}, most {max(ratios):.2f}\n")
    if differ:
        return f"{family}: results differ"
    return f"{family}: more than {MEAN} or {WORST}" * (mean > MEAN or max(ratios) > WORST)


def main() -> None:
    """Print the tables."""
    folder = Path(os.environ["AOT_TEST_MODELS"])
    wrong = [table(family, folder) for family in sys.argv[1:] or FAMILIES]
    if any(wrong):
        sys.exit("\n".join(filter(None, wrong)))


if __name__ == "__main__":
    main()
