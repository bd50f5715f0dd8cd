# SPDX-License-Identifier: Apache-2.0
"""Real bundles of random models: vendors, specialisation, objectives, placement of I/O.

Models that pass in portable C are put side by side in one, compiled with the options under test,
built by CMake as a user does it (with the sanitizers) and run by the bundle's own runner.

    python tests/fuzz/bundles.py --variant dnnl [--seed S] [-n N]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE.parent / "ops")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import compose, helper, inliner  # noqa: E402

from aot.api import compile_to  # noqa: E402
from aot.errors import AotError  # noqa: E402
from aot.options import Options  # noqa: E402
from aot.tools.run import execute, open_out  # noqa: E402
from fuzz.check import ONE, PASS, Outcome, sweep  # noqa: E402
from fuzz.draft import captured  # noqa: E402
from fuzz.kernel_cache import Cache  # noqa: E402
from fuzz.oracles import difference  # noqa: E402
from sanitizers import SANITIZED  # noqa: E402

#: What is compared with portable C: options of the compiler by name.
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "hot": {"specialise": "hot"},
    "all": {"specialise": "all"},
    "none": {"specialise": "none"},
    "arena": {"io": "arena"},
    "ram": {"objective": "ram", "specialise": "all"},
    "flash": {"objective": "flash"},
    "strict": {"accuracy": "strict"},
    "cblas": {"backends": ("cblas",)},
    "dnnl": {"backends": ("dnnl",)},
    "dnnl_cost": {"backends": ("dnnl",), "partition": "cost"},
    "both": {"backends": ("dnnl", "cblas")},
    "cblas_cost": {"backends": ("cblas",), "partition": "cost"},
    "accel_sim": {"backends": ("accel_sim",)},
    "accel_sim_64": {"backends": ("accel_sim:64",), "objective": "ram"},
}


def suits(outcome: Outcome) -> bool:
    """Whether a model may stand beside others: one opset, no bodies, static shapes, no strings."""
    model, proto = outcome.model, outcome.model.proto
    if outcome.result not in (PASS, ONE) or outcome.run is None or outcome.run.program.shapes:
        return False
    opsets = {o.domain: o.version for o in proto.opset_import if o.domain != "local"}
    nodes = [*proto.graph.node, *(n for f in proto.functions for n in f.node)]
    plain = opsets == {"": 21} and not any(captured(n) for n in nodes)
    carried = bool(outcome.run.program.carried)
    named = {i.name for i in proto.graph.input} | {t.name for t in proto.graph.initializer}
    own = not any(o in named for o in model.outputs)
    return (
        plain and own and not carried and all(a.dtype.kind in "biuf" for a in model.feeds.values())
    )


def merged(outcomes: Sequence[Outcome]) -> onnx.ModelProto:
    """All models side by side; names of number k begin with pk_."""
    nodes, inputs, outputs, consts = [], [], [], []
    for k, o in enumerate(outcomes):
        flat = inliner.inline_local_functions(o.model.proto)
        graph = compose.add_prefix(flat, f"p{k}_").graph
        nodes += graph.node
        inputs += graph.input
        outputs += graph.output
        consts += graph.initializer
    made = helper.make_graph(nodes, "merged", inputs, outputs, consts)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def differences(outcomes: Sequence[Outcome], options: dict[str, Any], out: Path) -> list[str]:
    """Compile, build and run the models together; a line for each that is wrong."""
    shutil.rmtree(out, ignore_errors=True)
    chosen = Options(name="net", plan_effort=2000, **options)
    try:
        compile_to(merged(outcomes), out, chosen, configure=False)
    except AotError as error:
        return [f"refused: {error}"]
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    environment = {**os.environ, "CFLAGS": SANITIZED, "ASAN_OPTIONS": "detect_leaks=0"}
    for command in (["cmake", "-S", out / "bundle", "-B", out], ["cmake", "--build", out]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            return [f"build: {done.stderr[-1500:]}"]
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"
    arrays = [o.model.feeds[i.name] for o in outcomes for i in o.model.proto.graph.input]
    try:
        got = iter(execute(open_out(out), arrays))
    except AotError as error:
        return [f"run: {error}"]
    found = []
    for o in outcomes:
        assert o.expected is not None
        for name in o.model.outputs:
            array = next(got)
            if name in o.expected.ambiguous:
                continue
            want = o.expected.values[name]
            if want.dtype.name == "bfloat16" and array.dtype == np.uint16:  # NumPy has no such type
                array = array.view(want.dtype)
            reason = difference(array, want, o.model.errors.get(name, 0.0))
            if reason:
                found.append(f"seed {o.model.seed} {name} {reason}")
    return found


def main() -> int:
    """Sweep one variant; exit code 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", default="dnnl", choices=VARIANTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-n", type=int, default=100, help="models to draw (100)")
    parser.add_argument("--families", default="")
    parser.add_argument("--cache", default=str(Path(tempfile.gettempdir()) / "aotc-fuzz"))
    args = parser.parse_args()
    store = Cache(Path(args.cache) / "kernels")
    folder = Path(args.cache) / f"bundle{os.getpid()}"
    only = tuple(f for f in args.families.split(",") if f)
    counts: Counter[str] = Counter()
    begin = time.monotonic()
    for first in range(args.seed, args.seed + args.n, 50):
        seeds = range(first, min(first + 50, args.seed + args.n))
        kept = [o for o in sweep(seeds, store, folder / "c", ("base",), only, True) if suits(o)]
        failing = differences(kept, VARIANTS[args.variant], folder / "out") if kept else []
        counts["compared"] += len(kept)
        counts["wrong"] += len(failing)
        print(
            "\n".join(
                [
                    *failing,
                    f"{args.variant} {seeds.stop - args.seed} {dict(counts)} "
                    f"{time.monotonic() - begin:.0f} s",
                ]
            ),
            flush=True,
        )
    shutil.rmtree(folder, ignore_errors=True)
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
