# SPDX-License-Identifier: Apache-2.0
"""Arenas split over a fast and a slow memory: cost of the bytes that calls move.

    AOT_TEST_MODELS=… python benchmarks/memories.py [--slow N]

Plans MLPerf Tiny's networks in 8 bits for a Cortex-M7 whose fast memory has room for a half or a
quarter of the arena; an access to the slow one takes N times as long (3). The cost is the bytes
that calls read and write in a run times that. Beside it: all in the slow memory, and the smallest
values first in the fast one. Exits 1 if a split costs more than another, or a plan takes over 5 s.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from aot.ir.check_plan import check_plan  # noqa: E402
from aot.ir.plan import Plan  # noqa: E402
from aot.options import Options  # noqa: E402
from aot.packing.pack import pack  # noqa: E402
from aot.pipeline import compile_model  # noqa: E402
from aot.plan.memory.alias import Group  # noqa: E402
from aot.plan.memory.split import Room, split_arena  # noqa: E402

NETWORKS = {"ic": "ResNet-8", "vww": "VWW", "kws": "KWS", "ad": "AD", "sww": "SWW"}
SHARES = (2, 4)


def by_size(groups: Sequence[Group], gains: Sequence[float], size: int, rest: int) -> list[Group]:
    """The smallest groups first, as long as they fit."""
    del gains, rest
    picked: list[Group] = []
    for group in sorted(groups, key=lambda g: (g.size, g.start)):
        if pack([g.buffer for g in (*picked, group)], 0).height <= size:
            picked.append(group)
    return picked


def cost(plan: Plan) -> float:
    """The bytes that calls move, each times the time of its access."""
    return sum(p.traffic * p.cost for p in plan.parts)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--slow", type=float, default=3.0)
    slow = parser.parse_args().slow
    folder, good = Path(os.environ["AOT_TEST_MODELS"]), True
    print("| network | arena, bytes | fast memory | all slow | smallest first | split | saved |")
    print("|---|---|---|---|---|---|---|")
    for name, title in NETWORKS.items():
        made = compile_model(folder / f"mlperf_{name}_int8.onnx", Options(target="cortex-m7"))
        for share in SHARES:
            size = made.plan.arena_bytes // share
            rooms = [Room("fast", size, 1.0), Room("slow", 1 << 24, slow)]
            greedy = split_arena(made.program, made.plan, rooms, 4, choose=by_size)
            start = time.process_time()
            plan = split_arena(made.program, made.plan, rooms, 4)
            good &= time.process_time() - start < 5
            check_plan(made.program, plan)
            best, least, most = (
                cost(plan),
                cost(greedy),
                slow * sum(p.traffic for p in plan.parts),
            )
            good &= best <= (least or most) <= most
            cells = (title, made.plan.arena_bytes, size, f"{most:.0f}", f"{least or most:.0f}")
            saved = f"{1 - best / most:.0%}, {1 - best / (least or most):.0%}"
            print("|", " | ".join(map(str, (*cells, f"{best:.0f}", saved))), "|", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
