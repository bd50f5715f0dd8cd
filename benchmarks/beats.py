# SPDX-License-Identifier: Apache-2.0
"""A network beside a control loop of 1 kHz: late beats, the worst delay, stack; by boards.

    AOT_TEST_MODELS=<folder> python benchmarks/beats.py [--seconds N] [--target T …] [MODEL …]

Builds tests/rtos/beats.c with the digits model and KWS of MLPerf Tiny, runs it under QEMU for N
seconds of simulated time (10) and prints a row per board and way. The kernel is FreeRTOS where
FREERTOS_KERNEL_PATH names its sources, else the one of the tests. The delay is from when a beat was
due to its begin, in instructions. Exits 1 if a result differs or a beat is late.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from rtos.images import SHIFTS, TARGETS, beats, images  # noqa: E402

KWS = Path(os.environ.get("AOT_TEST_MODELS", "")) / "mlperf_kws_int8.onnx"
HEAD = (
    "| network | target | million instructions per s | run by | beats | late | worst delay, "
    "instructions | runs | stack: reserved | written |\n|---|---|---|---|---|---|---|---|---|---|"
)
BY = {"RUN": "`NAME_run` in a task", "STEP": "`NAME_step`", "DEVICE": "AX1, interrupt"}


def rows(model: Path, target: str, seconds: int, ways: tuple[str, ...]) -> bool:
    """Prints a line for each way; whether all is as asked."""
    good = True
    with tempfile.TemporaryDirectory() as folder:
        made = images(model, Path(folder), target, seconds, *ways)
        for way, program in made.items():
            found = beats(program, target)
            shift = SHIFTS[target]
            cells = [model.stem, target, 1000 / 2**shift, BY[way], found.beats, found.late]
            cells += [found.worst_ns >> shift, found.runs, found.stack, found.stack - found.unused]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
            good &= found.wrong == found.late == 0
    return good


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    args = parser.parse_args()
    digits = ROOT / "examples" / "digits" / "digits_int8.onnx"
    print(HEAD)
    good = True
    for model in args.models or [digits, *([KWS] if KWS.is_file() else [])]:
        for target in args.target or TARGETS:
            for ways in (("RUN", "STEP"), ("DEVICE",)):
                good &= rows(model, target, args.seconds, ways)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
