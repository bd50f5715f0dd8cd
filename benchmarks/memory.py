# SPDX-License-Identifier: Apache-2.0
"""The packer on instances of a folder: `python benchmarks/memory.py FOLDER [--effort N]`.

Every `*.csv` below FOLDER with the header `id,lower,upper,size` is one instance: buffers of `size`
bytes live in [lower, upper). A file called `<name>.<capacity>.csv` asks for a packing within that
capacity (google/minimalloc's benchmark format), any other for the least height. Prints CPU seconds
and search steps; the steps are the same on every machine. Exits 1 if a packing is invalid, misses
its capacity, or takes more than 60 CPU seconds.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from aot.packing.pack import EFFORT, Buffer, pack
from aot.packing.problem import problem_of
from aot.packing.search import feasible

FIELDS = ["id", "lower", "upper", "size"]
LIMIT_S = 60.0


def read(path: Path) -> list[Buffer]:
    """The buffers of one file, alignment 1; none if it is not an instance."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != FIELDS:
            return []
        return [Buffer(r["id"], int(r["size"]), int(r["lower"]), int(r["upper"]), 1) for r in rows]


def valid(buffers: Sequence[Buffer], offsets: Sequence[int], height: int) -> bool:
    """Whether no two buffers overlap and all end below `height`."""
    for k, b in enumerate(buffers):
        if not 0 <= offsets[k] <= height - b.size:
            return False
        for j in range(k):
            c = buffers[j]
            together = b.start < c.end and c.start < b.end
            if together and offsets[k] < offsets[j] + c.size and offsets[j] < offsets[k] + b.size:
                return False
    return True


def within_capacity(name: str, buffers: Sequence[Buffer], capacity: int, effort: int) -> bool:
    """Print one row of the feasibility table; whether it passed."""
    begin = time.process_time()
    problem = problem_of(buffers)
    answer = feasible(problem, capacity, effort)
    seconds = time.process_time() - begin
    good = answer.offsets is not None and valid(buffers, answer.offsets, capacity)
    print(
        f"{name:45} {len(buffers):5} {problem.bound:9} {capacity:9} {seconds:7.2f} "
        f"{answer.steps:9} {'packed' if good else 'FAILED'}",
        flush=True,
    )
    return good and seconds <= LIMIT_S


def least_height(name: str, buffers: Sequence[Buffer], effort: int) -> bool:
    """Print one row of the minimisation table; whether the packing is valid."""
    begin = time.process_time()
    packing = pack(buffers, effort)
    seconds = time.process_time() - begin
    good = valid(buffers, [packing.offsets[b.name] for b in buffers], packing.height)
    verdict = "optimal" if packing.optimal else f"gap {packing.height - packing.lower_bound}"
    print(
        f"{name:45} {len(buffers):5} {packing.lower_bound:9} {packing.height:9} {seconds:7.2f} "
        f"{packing.steps:9} {verdict if good else 'INVALID'}",
        flush=True,
    )
    return good and seconds <= LIMIT_S


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--effort", type=int, default=30_000_000, help="steps per capacity")
    args = parser.parse_args(arguments)
    if args.folder is None or not args.folder.is_dir():
        print("SKIP: no folder with instances given (see the head of this file)")
        return 0
    good = True
    print(f"{'instance':45} {'bufs':>5} {'bound':>9} {'height':>9} {'CPU s':>7} {'steps':>9}")
    for path in sorted(args.folder.rglob("*.csv")):
        buffers = read(path)
        capacity = path.stem.rpartition(".")[2]
        if not buffers:
            continue
        if capacity.isdigit():
            good &= within_capacity(path.stem, buffers, int(capacity), args.effort)
        else:
            good &= least_height(path.stem, buffers, EFFORT)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
