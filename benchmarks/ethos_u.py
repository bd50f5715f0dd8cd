# SPDX-License-Identifier: Apache-2.0
"""Networks of MLPerf Tiny wholly on an Ethos-U: Vela's cycles and memory, and portable C's.

    AOT_TEST_MODELS=<folder> python benchmarks/ethos_u.py [--npu u55-128 …] [--original] [MODEL …]

Every network in int8 becomes one region (`--require-backend`). The figures are Vela's estimates for
the system that `aotc` names to it. `--original` also compiles the TFLite file that the network was
converted from, where it lies in tflite/ beside the models. Exits 1 if a network is more than one
region.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aot
from aot.vendor.ethos_u.configs import named
from aot.vendor.ethos_u.vela import worker

NETWORKS = ("ic", "vww", "kws", "ad", "sww")
NPUS = ("u55-128", "u55-256", "u65-512", "u85-256")


@dataclass(frozen=True)
class Row:
    """What Vela says of a network on an NPU; sizes in bytes."""

    regions: int
    cycles: int
    npu_cycles: int
    operations: int
    sram: int
    flash: int
    milliseconds: float


def measure(model: Path, npu: str) -> Row:
    """Compile a network for an NPU."""
    with tempfile.TemporaryDirectory(prefix="ethos_u-") as folder:
        out = Path(folder)
        how: dict[str, Any] = {"backends": [f"ethos_u:{npu}"], "requant": "tflite"}
        aot.compile(model, out, require_backend=True, configure=False, **how)
        manifest = json.loads((out / "bundle" / "manifest.json").read_text())
        said = json.loads((out / "bundle" / "ethos_u" / "region_0.json").read_text())
    return Row(
        len(manifest["regions"]),
        said["cycles"],
        said["npu_cycles"],
        said["operations"],
        said["scratch"] + said["fast"],
        said["weights"] + said["commands"],
        said["cycles"] * 1e3 / said["clock"],
    )


def main() -> int:
    """Print a table; the exit code is 1 if a network is more than one region."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=NETWORKS)
    parser.add_argument("--npu", action="append", default=[])
    parser.add_argument("--original", action="store_true")
    given = parser.parse_args()
    folder = Path(os.environ["AOT_TEST_MODELS"])
    worst = 0
    last = " the original's cycles |" if given.original else ""
    print(f"| network | NPU | regions | cycles | of the NPU | ms | SRAM | flash |{last}")
    print("|-|-|-|-|-|-|-|-|" + "-|" * given.original)
    for name in given.models:
        for npu in given.npu or NPUS:
            row = measure(folder / f"mlperf_{name}_int8.onnx", npu)
            worst = max(worst, row.regions)
            cells = f"{row.regions} | {row.cycles} | {row.npu_cycles} | {row.milliseconds:.3f}"
            line = f"| {name} | {npu} | {cells} | {row.sram} | {row.flash} |"
            if given.original:
                file = folder / "tflite" / f"mlperf_{name}_int8.tflite"
                line += f" {worker.compile(named(npu), file.read_bytes()).cycles} |"
            print(line)
    return int(worst > 1)


if __name__ == "__main__":
    raise SystemExit(main())
