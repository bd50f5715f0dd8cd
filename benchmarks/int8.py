# SPDX-License-Identifier: Apache-2.0
"""8-bit networks on this machine against onnxruntime, OpenVINO and their own float32, one thread.

    AOT_TEST_MODELS=<folder> python benchmarks/int8.py [--spelling S …] [MODEL …]

Every round times a network in float32 and in all spellings, on all engines, by CPU time on the
same input, in alternating order; ratios are medians over rounds of the ratio within a round, other
engine's time / ours (above 1: ours is faster). The fraction of peak counts two operations per
multiplication and compares with a loop of dot products measured in the same run. OpenVINO is left
out where it is not installed. With `--layers` the command prints, in place of the table, the share
of that peak that convolutions of a kind reach, all together and the one that reaches least.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from host import compiled, ours, session, theirs
from int8_models import (
    DYNAMIC,
    NETWORKS,
    SPELLINGS,
    float_model,
    inputs_of,
    quantised,
    spellings_of,
)

from aot.tools.bench import bench_nodes
from corpus_models import RealModel

#: A loop of independent dot products of 64 bytes; it returns the operations done.
PEAK = r"""
#if defined(__AVX512VNNI__)
typedef int v16 __attribute__((vector_size(64)));
double peak(int n);
double peak(int n) {
    v16 a = {n}, b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a;
    const v16 x = {n, 1, 2, 3}, w = {4, n, 5, 6};
    for (int t = 0; t < n; ++t) {
        __asm__("vpdpbusd %10, %11, %0\n\tvpdpbusd %10, %11, %1\n\tvpdpbusd %10, %11, %2\n\t"
                "vpdpbusd %10, %11, %3\n\tvpdpbusd %10, %11, %4\n\tvpdpbusd %10, %11, %5\n\t"
                "vpdpbusd %10, %11, %6\n\tvpdpbusd %10, %11, %7\n\tvpdpbusd %10, %11, %8\n\t"
                "vpdpbusd %10, %11, %9"
                : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i),
                  "+v"(j)
                : "v"(x), "v"(w));
    }
    a += b + c + d + e + f + g + h + i + j;
    return a[0] == -1 ? 0 : (double)n * 10 * 128;
}
#else
double peak(int n);
double peak(int n) { return 0 * n; }
#endif
"""

Arm = Callable[[], float]
#: Convolutions of so many channels, in or out, are a kind of their own.
NARROW = 64


@dataclass(frozen=True)
class Network:
    """What is timed of one network: a function per (spelling, engine) that returns milliseconds."""

    arms: dict[tuple[str, str], Arm]
    macs: dict[str, int]


def peak_loop(work: Path) -> Callable[[], float]:
    """A function that measures GOP/s of the CPU's 8-bit dot products (0: it has none)."""
    source, library = work / "peak.c", work / "peak.so"
    source.write_text(PEAK)
    command = ["cc", "-O2", "-march=native", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    loop = ctypes.CDLL(str(library)).peak
    loop.restype = ctypes.c_double

    def once() -> float:
        began = time.process_time_ns()
        done = loop(2_000_000)
        return float(done) / (time.process_time_ns() - began)

    return once


def openvino_arm(path: Path, feeds: dict[str, np.ndarray], runs: int) -> Arm | None:
    """A function that times OpenVINO on a model in float32 and 8 bits, one thread.

    None if it is not installed or refuses the model.
    """
    try:
        import openvino as ov
    except ImportError:
        return None
    core = ov.Core()
    hints = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    try:
        model = core.read_model(path)
    except RuntimeError:  # it has no QLinearConv with a scale per channel, and no QGemm
        return None
    request: Any = core.compile_model(model, "CPU", hints).create_infer_request()
    for name, array in feeds.items():
        request.set_tensor(name, ov.Tensor(array))

    def once() -> float:
        request.infer()
        times = []
        for _ in range(runs):
            began = time.process_time_ns()
            request.infer()
            times.append(time.process_time_ns() - began)
        return median(times) / 1e6

    return once


def network(name: str, folder: Path, work: Path, spellings: list[str], target: str) -> Network:
    """Compile `name` in float32 and in `spellings`, and open it in every engine.

    Spellings that aotc refuses have no arms.
    """
    source = float_model(name, folder, work)
    feeds, arms, macs = inputs_of(source, 7), {}, {}
    files = []
    for i, array in enumerate(feeds.values()):
        (work / f"{name}.{i}.bin").write_bytes(array.tobytes())
        files += ["--input", f"{i}={work / f'{name}.{i}.bin'}"]
    for spelling in ("float32", *spellings):
        path = source if spelling == "float32" else quantised(source, spelling)
        shapes = {k: v.shape for k, v in feeds.items()}
        model = RealModel(path.stem, path, None, shapes)
        try:
            built = compiled(model, work / f"{path.stem}.out", ["--target", target])
        except SystemExit:  # aotc has said why
            continue
        manifest = work / f"{path.stem}.out" / "bundle" / "manifest.json"
        macs[spelling] = json.loads(manifest.read_text())["macs"]
        other = session(model)
        runs = int(min(200, max(3, 150 / max(0.01, theirs(other, feeds, 3)))))
        arms[spelling, "ours"] = lambda built=built, runs=runs: ours(built, files, runs)
        arms[spelling, "onnxruntime"] = lambda other=other, runs=runs: theirs(other, feeds, runs)
        openvino = openvino_arm(path, feeds, runs)
        if openvino is not None:
            arms[spelling, "OpenVINO"] = openvino
    return Network(arms, macs)


def layers(name: str, folder: Path, work: Path, target: str, rounds: int) -> None:
    """Print the share of the peak that each kind of convolution reaches, spelled u8s8."""
    loop, path = peak_loop(work), quantised(float_model(name, folder, work), "u8s8")
    built = compiled(RealModel(path.stem, path, None, {}), work / "layers", ["--target", target])
    graph = onnx.load(path).graph
    weights = {t.name: t.dims for t in graph.initializer}
    read = {n.output[0]: weights.get(n.input[0], ()) for n in graph.node}
    convs = {n.name: n for n in graph.node if n.op_type == "Conv"}
    runs = [bench_nodes(built) for _ in range(rounds)]
    peak, found = max(loop() for _ in range(5)), dict[str, list[tuple[float, float, str]]]()
    for call, *costs in zip(built.manifest["nodes"], *runs, strict=True):
        conv = next((convs[n] for n in call["nodes"] if n in convs), None)
        if conv is None or not call["macs"]:  # a change of layout in front of one
            continue
        shape = read[conv.input[1]]
        step = next((max(a.ints) for a in conv.attribute if a.name == "strides"), 1)
        kind = "x".join(map(str, shape[2:])) + (f", stride {step}" if step > 1 else "")
        kind = f"{min(shape[:2])} channels" if min(shape[:2]) <= NARROW else kind
        took = median(c.amount for c in costs)
        found.setdefault(kind, []).append((2 * call["macs"], took, conv.name))
    print("| convolutions | layers | of peak | least | layer |\n|---|---|---|---|---|")
    for kind, rows in sorted(found.items()):
        all_ = sum(r[0] for r in rows) / sum(r[1] for r in rows) / peak
        least = min(rows, key=lambda r: r[0] / r[1])
        share = least[0] / least[1] / peak
        print(f"| {kind} | {len(rows)} | {all_:.0%} | {share:.0%} | {least[2]} |")
    print(f"\n{name}, one thread, peak {peak:.0f} GOP/s")


def measure(net: Network, rounds: int) -> dict[tuple[str, str], list[float]]:
    """Milliseconds per round of every arm."""
    times: dict[tuple[str, str], list[float]] = {k: [] for k in net.arms}
    for k in range(rounds):
        for key in list(net.arms)[:: -1 if k % 2 else 1]:
            times[key].append(net.arms[key]())
    return times


def ratio(over: list[float] | None, under: list[float]) -> float | None:
    """The median over rounds of `over` / `under`; None where there is no `over`."""
    return None if over is None else median(a / b for a, b in zip(over, under, strict=True))


def shown(value: float | None) -> str:
    """A ratio as a cell of the table."""
    return "–" if value is None else f"{value:.2f}"


def main() -> None:
    """Print the table."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", default=list(NETWORKS), metavar="MODEL")
    p.add_argument("--spelling", action="append", choices=[*SPELLINGS, DYNAMIC])
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--target", default="host")
    p.add_argument("--layers", action="store_true", help="shares of peak by kind of layer")
    p.add_argument("--work", type=Path, help="keep models and builds here")
    a = p.parse_args()
    folder = os.environ.get("AOT_TEST_MODELS")
    if not folder:
        raise SystemExit("set AOT_TEST_MODELS to the folder of models")
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        work = a.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        if a.layers:
            for name in a.models:
                layers(name, Path(folder), work, a.target, a.rounds)
            return
        loop = peak_loop(work)
        print("| network | spelling | ours ms | onnxruntime | OpenVINO | own float32 | of peak |")
        print("|---|---|---|---|---|---|---|")
        for name in a.models:
            spellings = a.spelling or spellings_of(name)
            net = network(name, Path(folder), work, spellings, a.target)
            times, best = measure(net, a.rounds), max(loop() for _ in range(5))
            for s in spellings:
                if (s, "ours") not in times:
                    print(f"| {name} | {s} | refused | | | | |", flush=True)
                    continue
                mine = times[s, "ours"]
                others = [
                    ratio(times.get(k), mine)
                    for k in ((s, "onnxruntime"), (s, "OpenVINO"), ("float32", "ours"))
                ]
                found.append((name, s, *others))
                reached = 2e-6 * net.macs[s] / median(mine) / best if best else None
                row = " | ".join([f"{median(mine):.3f}", *map(shown, [*others, reached])])
                print(f"| {name} | {s} | {row} |", flush=True)
            mine = [median(times[s, "ours"]) for s in spellings if (s, "ours") in times]
            spread = max(mine) / min(mine) - 1
            print(f"| {name} | slowest over fastest | +{spread:.0%} | | | | |", flush=True)
    print()
    for title, column in (("onnxruntime", 2), ("OpenVINO", 3), ("own float32", 4)):
        known = [row[column] for row in found if row[column] is not None]
        if known:
            mean = float(np.exp(np.mean(np.log(known))))
            print(f"{title}: geometric mean {mean:.2f}, least {min(known):.2f}")
    print(f"onnxruntime {ort.__version__}, one thread, peak {loop():.0f} GOP/s")


if __name__ == "__main__":
    main()
