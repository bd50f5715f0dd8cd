# SPDX-License-Identifier: Apache-2.0
"""Integer networks on microcontrollers under QEMU: instructions, flash and RAM of whole images.

    AOT_TEST_MODELS=<folder> python benchmarks/embedded.py [--requant onnx] [--target T …] [MODEL …]
    AOT_TEST_MODELS=<folder> python benchmarks/embedded.py hello_world

The MLPerf Tiny models of the folder (without it the example's own model, which has no bounds), each
as `aotc MODEL --target T --requant tflite`, inputs and outputs in the arena, no test data. Beside
every figure the bound it is held to and what TensorFlow Lite for Microcontrollers with CMSIS-NN
takes under the same emulator (on rv32imac its portable C). K is 1000 bytes. Exits 1 if a figure is
above its bound; with `--requant onnx` instructions may be 1.1 times the bound.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import aot
from aot.tools.bench import Board, bench
from aot.tools.run import open_out

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from targets.images import own_image  # noqa: E402

OWN = ROOT / "examples" / "digits"
INTEGER = ("ic", "vww", "kws", "ad", "sww")
TARGETS = ("cortex-m4", "cortex-m55", "rv32imac")


@dataclass(frozen=True)
class Goal:
    """Bound and baseline of one figure."""

    most: float
    peer: float | None = None


def goals(most: str, peers: str = "") -> dict[str, Goal]:
    """Figures of the five models in their order; "-" has none."""
    ours, theirs = most.split(), peers.split() or ["-"] * 5
    return {
        m: Goal(float(a), None if b == "-" else float(b))
        for m, a, b in zip(INTEGER, ours, theirs, strict=True)
        if a != "-"
    }


#: Millions of instructions of one run.
INSTRUCTIONS = {
    "cortex-m4": goals("18.5 12.0 4.6 0.42 1.40", "29.86 24.10 7.70 0.583 2.23"),
    "cortex-m55": goals("3.6 4.8 1.3 0.10 0.34", "4.91 6.56 1.82 0.286 0.408"),
    "rv32imac": goals("45 30 10 1.1 -", "65.4 48.7 16.3 1.48 -"),
}
#: K bytes on Cortex-M4.
FLASH = goals("92 245 38 277 62", "149.6 386.6 107.3 305.1 125.3")
RAM = goals("35 57 17.5 1.6 7.7", "56.5 102.2 24.3 3.6 17.9")
#: Bytes: what is live at one time, and 512 more.
ARENA = {"ic": 32768 + 512, "vww": 55296 + 512, "kws": 16000 + 512, "sww": 6656 + 512}
#: Bytes of flash of hello_world on Cortex-M0: 2.6 KiB with the counter of instructions, which a
#: program of a user's own lacks.
HELLO_FLASH, OWN_FLASH = 2662, 2600
#: Millions of instructions of float32 models on Cortex-M4.
FLOAT = {"ic": Goal(45.0, 91.0), "kws": Goal(8.5, 15.6)}

HEAD = (
    "| model | M instructions | at most | TFLM | flash K | at most | TFLM "
    "| RAM K | at most | TFLM | arena |"
)


def measure(model: Path, target: str, requant: str) -> tuple[Board, int]:
    """What the image costs, and its arena in bytes."""
    with tempfile.TemporaryDirectory(prefix="embedded-") as folder:
        bundle = aot.compile(model, folder, target=target, requant=requant).build()
        board = bench(open_out(bundle.out), 1)
        assert isinstance(board, Board)
        return board, int(bundle.manifest["memory"]["arena_bytes"])


def cells(value: float, goal: Goal | None, digits: int, slack: float = 1.0) -> tuple[str, bool]:
    """`value | bound | peer`, and whether the bound is kept; a figure above it gets a mark."""
    if goal is None:
        return f"{value:.{digits}f} | – | –", True
    good = value <= goal.most * slack
    peer = "–" if goal.peer is None else f"{goal.peer:g}"
    return f"{value:.{digits}f}{'' if good else ' (!)'} | {goal.most:g} | {peer}", good


def row(key: str, model: Path, target: str, requant: str) -> tuple[str, bool]:
    """One line of the table."""
    board, arena = measure(model, target, requant)
    m4 = target == "cortex-m4"
    slack = 1.1 if requant == "onnx" else 1.0
    parts = [
        cells(board.instructions[-1] / 1e6, INSTRUCTIONS.get(target, {}).get(key), 3, slack),
        cells(board.image.flash / 1e3, FLASH.get(key) if m4 else None, 1),
        cells(board.ram / 1e3, RAM.get(key) if m4 else None, 2),
    ]
    tight = arena <= ARENA.get(key, arena)
    line = " | ".join(text for text, _ in parts)
    return (
        f"| {key or model.stem} | {line} | {arena}{'' if tight else ' (!)'} |",
        tight and all(good for _, good in parts),
    )


def integer_tables(
    folder: Path | None, requested: list[str], targets: list[str], requant: str
) -> bool:
    """Print a table per target; whether every bound is kept."""
    good = True
    for target in targets:
        print(f"{target}, --requant {requant}\n\n{HEAD}\n|{'-|' * HEAD.count(' | ')}-|")
        for key in INTEGER if folder else ("",):
            model = folder / f"mlperf_{key}_int8.onnx" if folder else OWN / "digits_int8.onnx"
            if requested and key not in requested:
                continue
            line, kept = row(key, model, target, requant)
            print(line, flush=True)
            good = good and kept
        print()
    return good


def float_table(folder: Path) -> bool:
    """The float32 models on Cortex-M4 beside the best C emitter."""
    print("cortex-m4, float32\n\n| model | M instructions | at most | emitters |\n|-|-|-|-|")
    good = True
    for key, goal in FLOAT.items():
        board, _ = measure(folder / f"mlperf_{key}_f32.onnx", "cortex-m4", "onnx")
        text, kept = cells(board.instructions[-1] / 1e6, goal, 2)
        print(f"| {key} | {text} |", flush=True)
        good = good and kept
    print()
    return good


def smallest(folder: Path) -> bool:
    """hello_world on Cortex-M0: library and start-up without the program that reads files."""
    model = folder / "hello_world_int8.onnx"
    board, _ = measure(model, "cortex-m0", "tflite")
    flash = board.image.flash - board.parts.get("runner", 0)
    with tempfile.TemporaryDirectory(prefix="embedded-") as made:
        own, ram = own_image(model, Path(made), "cortex-m0")
    good = flash <= HELLO_FLASH and board.ram <= 1024 and own <= OWN_FLASH
    print(
        f"hello_world on Cortex-M0: {flash} bytes of flash without the file runner (at most "
        f"{HELLO_FLASH}; {board.image.flash} with it), {board.ram} bytes of RAM (at most 1024), "
        f"{board.instructions[-1]} instructions\n"
        f"hello_world in a program of a user's own: {own} bytes of flash (at most {OWN_FLASH}), "
        f"{ram} bytes of RAM without the stack{'' if good else ' (!)'}\n"
    )
    return good


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", metavar="MODEL", help=", ".join((*INTEGER, "hello_world")))
    p.add_argument("--requant", choices=("tflite", "onnx"), default="tflite")
    p.add_argument("--target", action="append", default=[])
    a = p.parse_args()
    named = os.environ.get("AOT_TEST_MODELS")
    folder = Path(named) if named else None
    good = a.models == ["hello_world"] or integer_tables(
        folder, a.models, a.target or list(TARGETS), a.requant
    )
    if folder and not a.models and not a.target:
        good = float_table(folder) and good
    if folder and "hello_world" in (a.models or ["hello_world"]) and not a.target:
        good = smallest(folder) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
