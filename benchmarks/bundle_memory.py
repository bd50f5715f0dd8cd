# SPDX-License-Identifier: Apache-2.0
"""Memory of bundles: the arena against its lower bounds.

    AOT_TEST_MODELS=<folder> python benchmarks/bundle_memory.py [--objective ram] [MODEL …]

Without MODEL: all real models of the test-suite that are there. Nothing is built. Exits 1 if an
arena is above its lower bound without proof that no plan is better, or above 1.10 times a logical
bound of more than 1 MB (1.02 times or 4 KB more with --objective ram).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import aot

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from corpus_models import CORPUS, LIGHT, SEEDED, RealModel, corpus, light, seeded

HEAD = "| model | arena | bound | logical | arena / logical | proven optimal | constants |"


def find(name: str, work: Path) -> RealModel:
    if name.endswith(".onnx"):
        return RealModel(Path(name).stem, Path(name), None, {})
    if name.startswith("light_"):
        return light(name.removeprefix("light_"))
    folder = Path(os.environ["AOT_TEST_MODELS"])
    return (corpus if name in CORPUS else seeded)(folder, name, work)


def all_names() -> list[str]:
    real = [*CORPUS, *SEEDED] if os.environ.get("AOT_TEST_MODELS") else []
    return [*real, *(f"light_{n}" for n in LIGHT)]


def good(m: dict[str, Any], objective: str) -> bool:
    arena, logical = m["arena_bytes"], m["logical_bound_bytes"]
    tight = m["optimal"] or arena == m["lower_bound_bytes"]
    if objective == "ram":
        return tight and (arena <= 1.02 * logical or arena <= logical + 4096)
    return tight and (logical <= 1_000_000 or arena <= 1.10 * logical)


def row(name: str, m: dict[str, Any]) -> str:
    logical = m["logical_bound_bytes"]
    ratio = f"{m['arena_bytes'] / logical:.3f}" if logical else "–"
    numbers = f"{m['arena_bytes']:,} | {m['lower_bound_bytes']:,} | {logical:,} | {ratio}"
    return f"| {name} | {numbers} | {'yes' if m['optimal'] else 'no'} | {m['constants_bytes']:,} |"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", metavar="MODEL")
    p.add_argument("--objective", default="latency")
    p.add_argument("--target", default="host")
    a = p.parse_args()
    bad = []
    print(HEAD)
    print("|---|---|---|---|---|---|---|")
    for name in a.models or all_names():
        with tempfile.TemporaryDirectory() as work:
            model = find(name, Path(work))
            bundle = aot.compile(
                model.path,
                Path(work) / "out",
                target=a.target,
                configure=False,
                objective=a.objective,
                input_shapes=model.shapes,
            )
        memory = bundle.manifest["memory"]
        print(row(name, memory), flush=True)
        if not good(memory, a.objective):
            bad.append(name)
    if bad:
        print(f"\nnot within the bounds: {', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
