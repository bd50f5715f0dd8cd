# SPDX-License-Identifier: Apache-2.0
"""Networks by the vector units of cores that QEMU emulates, in instructions of one run.

    AOT_TEST_MODELS=<folder> python benchmarks/units.py [aarch64|riscv64|halves …]

Each row has the instructions of a network for any core of an architecture, and as ratios of them
those for cores with a unit: for 64-bit Arm dot products (cortex-a76) and products of 8-bit matrices
(aarch64-i8mm), for 64-bit RISC-V vectors (rv64gcv). Exits 1 if the results of an integer network
have not the same bytes on all of them, or if the first unit takes more than WORST of the
instructions of a network or MEAN in the geometric mean.

`halves` are encoders with random weights by Arm's units for numbers of 16 bits, with `--accuracy
fast`: a network in float32 for any core, in its own type for any core, and with the unit. The
command exits 1 if a result is further than FAR of the largest from that of float32.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from element_types import to_half
from instructions import instructions
from onnx import TensorProto as T

import aot
import encoders
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
#: Networks by units for 16 bits: their size in tests/encoders.py, element type and target.
HALVES = (
    ("deit_tiny", "float16", "aarch64-fp16"),
    ("minilm_l6_128", "bfloat16", "aarch64-bf16"),
    ("minilm_l6_128", "float32", "aarch64-bf16"),
)
#: The most that results may differ from those of float32, of the largest.
FAR = 2e-2


def measured(
    model: Path | onnx.ModelProto, target: str, work: Path, accuracy: str = "normal"
) -> tuple[int, list[np.ndarray]]:
    """The instructions of a run on a target's emulator, and its results."""
    aot.compile(model, work, target=target, accuracy=accuracy, name="net").build()
    built = open_out(work)
    graph = None if isinstance(model, Path) else model.graph
    results = execute(built, random_sample(built.inputs, graph).inputs)
    return instructions(built, ["--fill", "1"], work), results


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
        same = all(all(map(np.array_equal, got, want)) for _, got in found)
        differ = differ or (name in INTEGER and not same)
        row = [n / count for n, _ in found]
        ratios.append(row[0])
        cells = " | ".join(f"{r:.2f}" for r in row)
        print(f"| {name} | {count / 1e6:.1f} | {cells} |", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\n{targets[0]}: geometric mean {mean:.2f}, most {max(ratios):.2f}\n")
    if differ:
        return f"{family}: results differ"
    return f"{family}: more than {MEAN} or {WORST}" * (mean > MEAN or max(ratios) > WORST)


def wide(array: np.ndarray) -> np.ndarray:
    """A result in float64; one of bfloat16 is given by its bits."""
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def halves() -> str:
    """Print the table of units for 16 bits; what is wrong with it, "" for nothing."""
    wrong = ""
    print(
        "| network | type | float32, million | its type | with the unit | of |\n" + "|---" * 6 + "|"
    )
    for name, kind, target in HALVES:
        model = encoders.encoder(name)
        with tempfile.TemporaryDirectory() as work:
            base = Path(work)
            count, want = measured(model, "aarch64-linux", base / "float32")
            if kind != "float32":
                to_half(model, getattr(T, kind.upper()))
            plain = measured(model, "aarch64-linux", base / "plain")[0]
            by_unit, got = measured(model, target, base / "unit", "fast")
        ratios = f"{plain / count:.2f} | {by_unit / count:.2f}"
        print(f"| {name} | {kind} | {count / 1e6:.1f} | {ratios} | {target} |", flush=True)
        far = max(
            np.abs(wide(a) - b).max() / np.abs(b).max() for a, b in zip(got, want, strict=True)
        )
        wrong += f"{name} {kind}: differs by {far:.3f}\n" * bool(far > FAR)
    return wrong


def main() -> None:
    """Print the tables."""
    folder = Path(os.environ["AOT_TEST_MODELS"])
    tables = sys.argv[1:] or [*FAMILIES, "halves"]
    wrong = [halves() if t == "halves" else table(t, folder) for t in tables]
    if any(wrong):
        sys.exit("\n".join(filter(None, wrong)))


if __name__ == "__main__":
    main()
