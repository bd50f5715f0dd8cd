# SPDX-License-Identifier: Apache-2.0
"""Speed on this machine: onnxruntime's time over ours, one thread, in interleaved rounds.

    AOT_TEST_MODELS=<folder> python benchmarks/host.py [MODEL …]

MODEL is an .onnx file, `light_<name>` (inside the onnx package), an encoder of tests/encoders.py
(bert_base_128, minilm_l6_128, deit_tiny), or a name of the models folder: of the corpus or of its
generator. With `--openvino` OpenVINO takes onnxruntime's place. Each round times both on the same
inputs by CPU time, in alternating order; the ratio is the median over rounds of the ratio of the
medians in a round.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import onnxruntime as ort

from aot.cli import main as aotc
from aot.tools.run import Built, open_out, start
from aot.tools.samples import random_sample

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import encoders
from corpus_models import CORPUS, QUANTISED, RealModel, corpus, light, seeded

DEFAULT = ("resnet50", "squeezenet1_1", "mobilenetv2")


@dataclass(frozen=True)
class Result:
    """Milliseconds of CPU time per run, ratio = onnxruntime / ours (above 1: ours is faster)."""

    model: str
    ours_ms: float
    ort_ms: float
    ratio: float
    low: float
    high: float
    rounds: int


def find(name: str, work: Path) -> RealModel:
    if name.endswith(".onnx"):
        return RealModel(Path(name).stem, Path(name), None, {})
    if name.startswith("light_"):
        return light(name.removeprefix("light_"))
    if name in encoders.SIZES:
        onnx.save(encoders.encoder(name), work / f"{name}.onnx")
        return RealModel(name, work / f"{name}.onnx", None, {})
    folder = os.environ.get("AOT_TEST_MODELS")
    if not folder:
        raise SystemExit(f"{name}: set AOT_TEST_MODELS to the folder of models")
    kind = corpus if name in (*CORPUS, *QUANTISED) else seeded
    return kind(Path(folder), name, work)


def compiled(model: RealModel, out: Path, options: list[str]) -> Built:
    words = [str(model.path), "-o", str(out), "--name", "net", "-q", *model.options(), *options]
    if aotc(words) != 0:
        raise SystemExit(f"{model.name} did not compile")
    from aot.tools.build import build

    build(out, jobs=2)
    return open_out(out)


def session(model: RealModel) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(str(model.path), options, providers=["CPUExecutionProvider"])


class OpenVino:
    """A model in OpenVINO with float32's arithmetic, called as a session of onnxruntime is."""

    def __init__(self, model: RealModel) -> None:
        import openvino  # a large package that few have

        settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        self._model = openvino.Core().compile_model(str(model.path), "CPU", settings)

    def run(self, _: None, feeds: dict[str, np.ndarray]) -> object:
        """The outputs for these inputs."""
        return self._model(feeds)


def ours(built: Built, files: list[str], runs: int) -> float:
    text = start(built, [*files, "--repeat", str(runs), "--warmup", "2"])
    return median(json.loads(text)["cpu_ns"]) / 1e6


def theirs(s: ort.InferenceSession | OpenVino, feeds: dict[str, np.ndarray], runs: int) -> float:
    times = []
    for _ in range(runs + 2):
        began = time.process_time_ns()
        s.run(None, feeds)
        times.append(time.process_time_ns() - began)
    return median(times[2:]) / 1e6


def fed(built: Built, folder: Path) -> tuple[list[str], dict[str, np.ndarray]]:
    """(options by which the program reads a random sample, written to `folder`; it by name)."""
    files, feeds = list[str](), {}
    arrays = random_sample(built.inputs, None).inputs
    for i, (spec, array) in enumerate(zip(built.inputs, arrays, strict=True)):
        (folder / f"{i}.bin").write_bytes(array.tobytes())
        files += ["--input", f"{i}={folder / f'{i}.bin'}"]
        feeds[spec.name] = array
    return files, feeds


def interleaved(timers: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The times of each timer, one a round; every round begins with another timer."""
    times: dict[str, list[float]] = {key: [] for key in timers}
    for k in range(rounds):
        for i in range(len(timers)):
            key = list(timers)[(i + k) % len(timers)]
            times[key].append(timers[key]())
    return times


def measure(
    model: RealModel, work: Path, rounds: int, options: list[str], openvino: bool = False
) -> Result:
    built = compiled(model, work / f"{model.name}.out", options)
    files, feeds = fed(built, built.out)
    other = OpenVino(model) if openvino else session(model)
    runs = int(min(200, max(5, 400 / max(0.01, theirs(other, feeds, 3)))))
    pairs = []
    for k in range(rounds):
        if k % 2:
            b, a = theirs(other, feeds, runs), ours(built, files, runs)
        else:
            a, b = ours(built, files, runs), theirs(other, feeds, runs)
        pairs.append((a, b))
    ratios = [b / a for a, b in pairs]
    mine, orts = median(a for a, _ in pairs), median(b for _, b in pairs)
    return Result(model.name, mine, orts, median(ratios), min(ratios), max(ratios), rounds)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", default=list(DEFAULT), metavar="MODEL")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--target", default="host")
    p.add_argument("--openvino", action="store_true", help="against OpenVINO, not onnxruntime")
    p.add_argument("--work", type=Path, help="keep models and builds here")
    p.add_argument("--json", type=Path, help="also write the numbers here")
    a = p.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        work = a.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        name = "OpenVINO" if a.openvino else "onnxruntime"
        print(f"| model | ours ms | {name} ms | {name} / ours | range |")
        print("|---|---|---|---|---|")
        for name in a.models:
            r = measure(find(name, work), work, a.rounds, ["--target", a.target], a.openvino)
            results.append(r)
            numbers = (
                f"{r.ours_ms:.3f} | {r.ort_ms:.3f} | {r.ratio:.2f} | {r.low:.2f} … {r.high:.2f}"
            )
            print(f"| {r.model} | {numbers} |", flush=True)
    geomean = float(np.exp(np.mean([np.log(r.ratio) for r in results])))
    other = "OpenVINO" if a.openvino else f"onnxruntime {ort.__version__}"
    print(f"\ngeometric mean {geomean:.2f}; {other}, one thread")
    if a.json:
        a.json.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
