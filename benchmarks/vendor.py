# SPDX-License-Identifier: Apache-2.0
"""A library that computes networks whole, beside portable C and onnxruntime, one thread, in
interleaved rounds.

    AOT_TEST_MODELS=<folder> python benchmarks/vendor.py xnnpack|ort [MODEL …]

MODEL is as in benchmarks/host.py. Each round times all three on the same input by CPU time, the
first one changing from round to round; a number is the median over rounds of a round's median, a
ratio the median of the rounds' ratios. The backend `ort` is told every operator of the network.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from statistics import median

import onnxruntime
from dnnl import regions
from host import RealModel, compiled, fed, find, interleaved, ours, session, theirs

from aot.load import load
from aot.normalise import normalise
from aot.ops.registry import load_all
from aot.options import Options
from aot.partition.claims import load_options

DEFAULT = {
    "xnnpack": ("mobilenetv2", "resnet18", "squeezenet1_1", "mlperf_vww_f32"),
    "ort": ("mobilenetv2", "resnet18", "minilm_l3_v512"),
}


def told(backend: str, model: RealModel) -> str:
    """What --backend says: of `ort` with the operators that the network has after normalise."""
    if backend != "ort":
        return backend
    options = load_options(Options(input_shapes=model.shapes), [load_all()])
    nodes = normalise(load(model.path, options), options).graph.all_nodes()
    return "ort:" + "+".join(sorted({f"{n.domain}.{n.op_type}".lstrip(".") for n in nodes}))


def measure(backend: str, name: str, work: Path, rounds: int) -> str:
    """One row of the table."""
    model = find(name, work)
    built = {
        backend: compiled(model, work / backend, ["--backend", told(backend, model)]),
        "c": compiled(model, work / "c", []),
    }
    columns = (*built, "onnxruntime")
    files, feeds = fed(built["c"], work)
    other = session(model)
    runs = int(min(100, max(5, 300 / max(0.01, theirs(other, feeds, 3)))))
    timers = {key: (lambda b=b: ours(b, files, runs)) for key, b in built.items()}
    timers["onnxruntime"] = lambda: theirs(other, feeds, runs)
    times = interleaved(timers, rounds)
    count, outside = regions(work / backend)
    cells = [model.name, str(count), str(outside), *(f"{median(times[k]):.2f}" for k in columns)]
    for key in columns[1:]:
        pairs = zip(times[backend], times[key], strict=True)
        cells.append(f"{median(a / b for a, b in pairs):.3f}")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("backend", choices=DEFAULT)
    p.add_argument("models", nargs="*", metavar="MODEL")
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    os.environ.setdefault("ort_ROOT", str(Path(onnxruntime.__file__).parent / "capi"))
    titles = "model", "regions", "other calls", f"{a.backend} ms", "c ms", "onnxruntime ms"
    ratios = f"{a.backend} / c", f"{a.backend} / onnxruntime"
    print("|", " | ".join((*titles, *ratios)), "|\n" + "|---" * 8 + "|")
    for name in a.models or DEFAULT[a.backend]:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(a.backend, name, Path(folder), a.rounds), flush=True)


if __name__ == "__main__":
    main()
