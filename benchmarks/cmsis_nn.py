# SPDX-License-Identifier: Apache-2.0
"""CMSIS-NN and portable C on microcontrollers under QEMU: instructions, flash and RAM.

    AOT_CMSIS_NN_ROOT=<folder> AOT_TEST_MODELS=<folder> python benchmarks/cmsis_nn.py \
        [--target T …] [--layers] [MODEL …]

Each MLPerf Tiny network in int8, and three with int16 activations (int16.py makes them), three
times, `--requant tflite`: in portable C, with every layer by the library (`--require-backend`; of
int16 all but a Softmax), and by `--partition cost`. `--layers` also counts call by call, with the
trace program; a layer of portable C that is several calls of the library stands beside their sum.
The outputs of all builds of a network must be the same bytes, those of int16 within 8 quantised
values. Exits 1 if they are not, or if the choice by cost takes over 1.01 times the instructions of
the better one.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from boards import tables
from int16 import widened_file

import aot
from aot.tools.bench import Board, bench, bench_nodes
from aot.tools.run import Built, execute, open_out
from aot.tools.samples import random_sample

NETWORKS = ("ic", "vww", "kws", "ad", "sww", "ad_16x8", "kws_16x8", "ic_16x8")
TARGETS = ("cortex-m4", "cortex-m33", "cortex-m55")
#: How much dearer than the better of both a choice may be: calls of two kinds share fewer kernels.
SLACK = 1.01
#: How far outputs of int16 may be apart: the library rounds sums of depthwise layers otherwise.
WIDE_OFF = 8


@dataclass(frozen=True)
class Measured:
    """One build: its image, its outputs, and instructions by the nodes of a call."""

    board: Board
    outputs: tuple[np.ndarray, ...]
    layers: tuple[tuple[tuple[str, ...], str, float], ...]

    @property
    def cells(self) -> str:
        """M instructions, flash K and RAM K; K is 1000 bytes."""
        flash, ram = self.board.image.flash / 1e3, self.board.ram / 1e3
        return f"{self.board.instructions[-1] / 1e6:.3f} | {flash:.1f} | {ram:.2f}"


def measure(model: Path, target: str, layers: bool, **how: Any) -> Measured:
    """Compile, build and run the network on the board."""
    with tempfile.TemporaryDirectory(prefix="cmsis_nn-") as folder:
        bundle = aot.compile(model, folder, target=target, requant="tflite", **how).build()
        built = open_out(bundle.out)
        board = bench(built, 1)
        assert isinstance(board, Board)
        outputs = execute(built, random_sample(built.inputs, None).inputs)
        found = tuple(_layers(built)) if layers else ()
        return Measured(board, tuple(map(np.asarray, outputs)), found)


def _layers(built: Built) -> Iterator[tuple[tuple[str, ...], str, float]]:
    """Nodes, title and instructions of every call."""
    calls = built.manifest["nodes"]
    for cost in bench_nodes(built, 1):
        yield tuple(calls[cost.call]["nodes"]), cost.kernel, cost.amount


def table_of_layers(ours: Measured, theirs: Measured) -> Iterator[str]:
    """A line per call of portable C and what the library takes for the same nodes."""
    yield "| portable C | library | instructions | library | ratio |\n|-|-|-|-|-|"
    for nodes, kernel, amount in ours.layers:
        same = [(k, n) for own, k, n in theirs.layers if set(own) <= set(nodes)]
        if same and amount:
            names = " + ".join(k.partition("_nn_")[2] for k, _ in same)
            total = sum(n for _, n in same)
            name = kernel.removeprefix("aot_")
            yield f"| {name} | {names} | {amount:.0f} | {total:.0f} | {total / amount:.2f} |"


HEAD = """\
| network | C: M instructions | flash K | RAM K | CMSIS-NN: M instructions | flash K | RAM K \
| by cost: M instructions | flash K | RAM K | of the better |
|-|-|-|-|-|-|-|-|-|-|-|"""


def largest_difference(found: list[Measured]) -> int:
    """How far, in quantised values, the outputs of the builds are apart."""
    first, *others = (m.outputs for m in found)
    pairs = ((a, b) for other in others for a, b in zip(first, other, strict=True))
    return max(int(np.abs(a.astype(np.int64) - b).max()) for a, b in pairs)


def network(name: str, folder: Path, target: str, layers: bool, vendor: str = "cmsis_nn") -> bool:
    """Print a line, and with `layers` a table; whether the results are the same and the choice is
    good."""
    with tempfile.TemporaryDirectory(prefix="cmsis_nn-") as made:
        wide = name.endswith("_16x8")
        model = folder / f"mlperf_{name}_int8.onnx"
        model = widened_file(name.removesuffix("_16x8"), folder, made) if wide else model
        # A Softmax of int16 has a scale of its own in these networks, which the library lacks.
        builds: dict[str, dict[str, Any]] = {
            "c": {},
            vendor: {"backends": [vendor], "require_backend": not wide},
            "cost": {"backends": [vendor], "partition": "cost"},
        }
        found = {k: measure(model, target, layers, **how) for k, how in builds.items()}
    counts = {k: m.board.instructions[-1] for k, m in found.items()}
    ratio = counts["cost"] / min(counts["c"], counts[vendor])
    same = largest_difference([*found.values()]) <= (WIDE_OFF if wide else 0)
    good = same and ratio <= SLACK
    note = "" if good else " (!)" if same else " (outputs differ!)"
    cells = " | ".join(m.cells for m in found.values())
    print(f"| {name} | {cells} | {ratio:.3f}{note} |", flush=True)
    if layers:
        print("", *table_of_layers(found["c"], found[vendor]), "", sep="\n", flush=True)
    return good


if __name__ == "__main__":
    needed = ("AOT_TEST_MODELS", "AOT_CMSIS_NN_ROOT")
    sys.exit(tables(__doc__, NETWORKS, TARGETS, HEAD, network, needed))
