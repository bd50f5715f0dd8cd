# SPDX-License-Identifier: Apache-2.0
"""`python tests/fuzz --seed S -n N`: N models from seed S on; exit code 1 if any shows a defect."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE.parent / "ops")]

BATCH = 500
#: How long a failing model is made smaller.
SECONDS = 60.0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    from fuzz.check import CONFIGS

    made = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    made.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    made.add_argument("-n", type=int, default=500, help="how many models (500)")
    made.add_argument("--configs", default="", help=f"some of {', '.join(CONFIGS)}")
    made.add_argument("--families", default="", help="draw only from these")
    made.add_argument("--cache", default=str(Path(tempfile.gettempdir()) / "aotc-fuzz"))
    made.add_argument("--compiler", default="gcc")
    made.add_argument("--found", default="", help="where failing models are written, made small")
    made.add_argument("--directed", action="store_true", help="start with declared cases, in turn")
    made.add_argument(
        "--coverage",
        default="",
        metavar="FILE",
        help="add what was reached to FILE; exit code 1 unless it has all of docs/operators.md",
    )
    made.add_argument("--first", action="store_true", help="stop at the first defect, as it is")
    made.add_argument("-v", action="store_true", help="what was refused, too")
    return made


def main() -> int:
    """Run the command line."""
    from fuzz.check import DEFECTS, sweep
    from fuzz.coverage import missing, remember, report
    from fuzz.kernel_cache import Cache
    from fuzz.minimise import minimise, save

    args = parser().parse_args()
    names = tuple(n for n in args.configs.split(",") if n)
    only = tuple(n for n in args.families.split(",") if n)
    store = Cache(Path(args.cache) / "kernels", args.compiler)
    folder = Path(args.cache) / f"batch{os.getpid()}"
    found = Path(args.found or Path(args.cache) / "found")
    counts: Counter[str] = Counter()
    pairs: set[tuple[str, str]] = set()
    begin = time.monotonic()
    batch = 20 if args.first else BATCH
    for first in range(args.seed, args.seed + args.n, batch):
        seeds = range(first, min(first + batch, args.seed + args.n))
        chosen = [-1 - s for s in seeds] if args.directed else seeds
        for o in sweep(chosen, store, folder, names, only):
            if o.result in ("pass", "pass, one oracle"):
                pairs |= o.reached | o.model.pairs
            counts[o.result] += 1
            if o.result in DEFECTS:
                print(o.text, flush=True)
                if args.first:
                    return 1
                small = minimise(o, store, folder, SECONDS)
                print(f"    {save(small, found)}: {small.text}", flush=True)
            elif args.v and o.result in ("refused", "none"):
                print(o.text, flush=True)
        if args.coverage:
            pairs = remember(Path(args.coverage), pairs)
        rate = sum(counts.values()) / (time.monotonic() - begin)
        print(f"{seeds.stop - args.seed} {dict(counts)} {rate:.1f}/s", flush=True)
    if args.coverage:
        print(report(pairs))
        if missing(pairs):
            return 1
    return 1 if any(counts[d] for d in DEFECTS) else 0


if __name__ == "__main__":
    sys.exit(main())
