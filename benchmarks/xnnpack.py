# SPDX-License-Identifier: Apache-2.0
"""The XNNPACK vendor beside portable C and onnxruntime, one thread, in interleaved rounds.

    AOT_TEST_MODELS=<folder> python benchmarks/xnnpack.py [MODEL …]

MODEL is as in benchmarks/host.py. Each round times all three on the same input by CPU time, the
first one changing from round to round; a number is the median over rounds of a round's median, a
ratio the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

from dnnl import regions
from host import compiled, find, ours, session, theirs

from aot.tools.samples import random_sample

DEFAULT = ("mobilenetv2", "resnet18", "squeezenet1_1", "mlperf_vww_f32")
COLUMNS = ("xnnpack", "c", "onnxruntime")


def measure(name: str, work: Path, rounds: int) -> str:
    """One row of the table."""
    model = find(name, work)
    built = {
        "xnnpack": compiled(model, work / "xnnpack", ["--backend", "xnnpack"]),
        "c": compiled(model, work / "c", []),
    }
    inputs = built["c"].inputs
    sample = random_sample(inputs, None)
    files = []
    for i, array in enumerate(sample.inputs):
        path = work / f"{i}.bin"
        path.write_bytes(array.tobytes())
        files += ["--input", f"{i}={path}"]
    feeds = {s.name: a for s, a in zip(inputs, sample.inputs, strict=True)}
    other = session(model)
    runs = int(min(100, max(5, 300 / max(0.01, theirs(other, feeds, 3)))))
    timers = {key: (lambda b=b: ours(b, files, runs)) for key, b in built.items()}
    timers["onnxruntime"] = lambda: theirs(other, feeds, runs)
    times: dict[str, list[float]] = {key: [] for key in COLUMNS}
    for k in range(rounds):
        for i in range(len(COLUMNS)):
            key = COLUMNS[(i + k) % len(COLUMNS)]
            times[key].append(timers[key]())
    count, outside = regions(work / "xnnpack")
    cells = [model.name, str(count), str(outside), *(f"{median(times[k]):.2f}" for k in COLUMNS)]
    for key in COLUMNS[1:]:
        pairs = zip(times["xnnpack"], times[key], strict=True)
        cells.append(f"{median(a / b for a, b in pairs):.3f}")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", default=list(DEFAULT), metavar="MODEL")
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    sys.stdout.write(
        "| model | regions | other calls | xnnpack ms | c ms | onnxruntime ms | xnnpack / c "
        "| xnnpack / onnxruntime |\n|---|---|---|---|---|---|---|---|\n"
    )
    for name in a.models:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(name, Path(folder), a.rounds), flush=True)


if __name__ == "__main__":
    main()
