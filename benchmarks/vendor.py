# SPDX-License-Identifier: Apache-2.0
"""A library that computes networks, beside its own best use, portable C and onnxruntime, one
thread, in interleaved rounds.

    AOT_TEST_MODELS=<folder> [dnnl_ROOT=<prefix>] python benchmarks/vendor.py \\
        dnnl|xnnpack|cblas|ort|acl [--target TARGET] [MODEL …]

MODEL is as in benchmarks/host.py. The best use is a program that calls the library as its own
examples do (benchmarks/chain.py), for networks whose operators it has a step for; oneDNN 2 has
none. That of `ort` is onnxruntime. Each round times all on the same input by CPU time, the first
one changing from round to round; a number is the median over rounds of a round's median, a ratio
the median of the rounds' ratios. With `--target aarch64-linux` the instructions of a run are
counted in place of times. The backend `ort` is told every operator of the network. `moved` counts
what oneDNN itself reports to reorder in one run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime
from chain import LIBRARIES, Chain
from host import RealModel, compiled, fed, find, interleaved, ours, session, theirs
from instructions import instructions

from aot.load import load
from aot.normalise import normalise
from aot.ops.registry import load_all
from aot.options import Options
from aot.partition.claims import load_options
from aot.tools.run import Built, execute

NETWORKS = ("mobilenetv2", "resnet18", "squeezenet1_1", "mlperf_vww_f32")
DEFAULT = {
    "dnnl": ("resnet18", "resnet50", "mobilenetv2", "squeezenet1_1", "minilm_l3_v512"),
    "xnnpack": (*NETWORKS, "mobilenetv2_int8", "mlperf_vww_int8"),
    "cblas": (*NETWORKS, "minilm_l3_v512"),
    "ort": ("mobilenetv2", "resnet18", "minilm_l3_v512"),
    "acl": ("mobilenetv2", "mlperf_vww_f32", "mobilenetv2_int8", "mlperf_vww_int8"),
}
COLUMNS = "best use", "c", "onnxruntime"


def told(backend: str, model: RealModel) -> str:
    """What --backend says: of `ort` with the operators that the network has after normalise."""
    if backend != "ort":
        return backend
    options = load_options(Options(input_shapes=model.shapes), [load_all()])
    nodes = normalise(load(model.path, options), options).graph.all_nodes()
    return "ort:" + "+".join(sorted({f"{n.domain}.{n.op_type}".lstrip(".") for n in nodes}))


def regions(out: Path) -> tuple[int, int]:
    """Regions, and calls outside of them; inputs copied because they are results are no calls."""
    manifest = json.loads((out / "bundle" / "manifest.json").read_text())
    outside = sum(n["backend"] == "c" and n["kernel"] != "aot_copy" for n in manifest["nodes"])
    return len(manifest["regions"]), outside


def moved(built: Built, files: list[str]) -> int:
    """Reorders per run, by oneDNN's own account: those of three runs less those of one."""
    counts = []
    for runs in (1, 3):
        words = [str(built.program()), *files, "--repeat", str(runs), "--warmup", "0"]
        env = {**os.environ, "DNNL_VERBOSE": "1"}
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        counts.append(done.stdout.count(",exec,cpu,reorder"))
        if ",exec,cpu," not in done.stdout:
            raise SystemExit("the library does not say what it executes")
    return (counts[1] - counts[0]) // 2


def chained(backend: str, model: RealModel, feeds: dict[str, np.ndarray], work: Path) -> Chain:
    """The library's best use; ValueError or CalledProcessError where there is none."""
    if backend not in LIBRARIES or len(feeds) != 1:
        raise ValueError(f"no chain of {model.name} by {backend}")
    chain = Chain(backend, model.path, model.shapes, work)
    chain.feed(*feeds.values())
    chain.run(1)
    return chain


def agree(chain: Chain, want: np.ndarray) -> None:
    """The chain computes what the bundle does: of int8 values all but one of a hundred, by one."""
    found, want = chain.result(), np.ravel(want)
    if want.dtype == np.int8:
        apart = np.abs(found.astype(int) - want)
        assert apart.max() <= 1 and np.mean(apart > 0) <= 0.01, apart.max()
    else:
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4 * abs(want).max())


def measure(backend: str, name: str, work: Path, rounds: int) -> str:
    """One row of the table."""
    model = find(name, work)
    built = {
        backend: compiled(model, work / backend, ["--backend", told(backend, model)]),
        "c": compiled(model, work / "c", []),
    }
    files, feeds = fed(built["c"], work)
    other = session(model)
    runs = int(min(100, max(5, 300 / max(0.01, theirs(other, feeds, 3)))))
    timers = {key: (lambda b=b: ours(b, files, runs)) for key, b in built.items()}
    timers["onnxruntime"] = lambda: theirs(other, feeds, runs)
    try:
        chain = chained(backend, model, feeds, work / "chain")
    except (ValueError, subprocess.CalledProcessError) as why:
        sys.stderr.write(f"{name}: {why}\n")
    else:
        agree(chain, execute(built[backend], tuple(feeds.values()))[0])
        timers["best use"] = lambda: chain.run(runs)
    times = interleaved(timers, rounds)
    cells = [model.name, *map(str, regions(work / backend))]
    cells += [str(moved(built[backend], files))] if backend == "dnnl" else []
    for key in (backend, *COLUMNS):
        cells.append(f"{median(times[key]):.3f}" if key in times else "")
    for key in COLUMNS:
        pairs = zip(times[backend], times.get(key, []), strict=False)
        found = [a / b for a, b in pairs]
        cells.append(f"{median(found):.3f}" if found else "")
    return "| " + " | ".join(cells) + " |"


def count(backend: str, name: str, work: Path, target: str) -> str:
    """One row of instructions, in millions."""
    model, words = find(name, work), ["--target", target]
    vendor = compiled(model, work / backend, [*words, "--backend", backend])
    portable = compiled(model, work / "c", words)
    files, _ = fed(portable, work)
    a, b = (instructions(built, files, work) for built in (vendor, portable))
    cells = [model.name, *map(str, regions(work / backend)), f"{a / 1e6:.2f}", f"{b / 1e6:.2f}"]
    return "| " + " | ".join([*cells, f"{a / b:.3f}"]) + " |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("backend", choices=DEFAULT)
    p.add_argument("models", nargs="*", metavar="MODEL")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--target", default="", help="count instructions by this target's emulator")
    a = p.parse_args()
    os.environ.setdefault("ort_ROOT", str(Path(onnxruntime.__file__).parent / "capi"))
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    titles = ["model", "regions", "other calls", *["moved"] * (a.backend == "dnnl")]
    titles += [f"{key} ms" for key in (a.backend, *COLUMNS)]
    titles += [f"{a.backend} / {key}" for key in COLUMNS]
    if a.target:
        titles[3:] = [f"{a.backend} M instructions", "c M instructions", f"{a.backend} / c"]
    print("|", " | ".join(titles), "|\n" + "|---" * len(titles) + "|", flush=True)
    for name in a.models or DEFAULT[a.backend]:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            if a.target:
                print(count(a.backend, name, work, a.target), flush=True)
            else:
                print(measure(a.backend, name, work, a.rounds), flush=True)


if __name__ == "__main__":
    main()
