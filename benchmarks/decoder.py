# SPDX-License-Identifier: Apache-2.0
"""A decoder of 124 million float32 weights against onnxruntime: `python benchmarks/decoder.py`.

The graph is that of GPT-2 as transformers exports it, with random weights of a fixed seed; its
embedding and its head share one matrix. One thread; CPU time. A step is one token behind `past`
others, in one bundle for `past` from 0 to 1023 whose caches are states; onnxruntime gets caches of
the same length. Medians of steps that alternate. The last row is the time in which a core that does
nothing else multiplies and adds as often as the many tokens need. With `--large` a decoder of half
a billion weights is compiled with `--weights file`: seconds, memory and files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

import aot

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from kernels import peak

from decoders import LENGTH, PAST, gpt2

LAYERS, HEADS, SIZE, WORDS, PLACES = 12, 12, 768, 50257, 1024
LARGE = {"layers": 22, "heads": 16, "size": 1280, "words": 50257, "places": 1024}
Arrays = dict[str, np.ndarray]
MIB = 1 << 20


def feeds(past: int, length: int) -> Arrays:
    """Tokens [1, length] behind `past` others."""
    ids = np.random.default_rng(past).integers(0, WORDS, (1, length))
    mask = np.ones((1, past + length), np.int64)
    return {"input_ids": ids, "attention_mask": mask, "position_ids": places(past, length)}


def places(past: int, length: int) -> np.ndarray:
    return np.arange(past, past + length, dtype=np.int64)[None]


def names(layers: int) -> list[str]:
    return [f"{i}.{kind}" for i in range(layers) for kind in ("key", "value")]


def milliseconds(work: Callable[[], Any]) -> float:
    """CPU time of one call."""
    began = time.process_time_ns()
    work()
    return (time.process_time_ns() - began) / 1e6


def row(what: str, ours: list[float], theirs: list[float]) -> None:
    """Print a row of the table of speed."""
    ratio = median(b / a for a, b in zip(ours, theirs, strict=True))
    print(f"| {what} | {median(ours):.1f} | {median(theirs):.1f} | {ratio:.2f} |", flush=True)


def caches(past: int) -> Arrays:
    rng = np.random.default_rng(past)
    shape = (1, HEADS, past, SIZE // HEADS)
    return {f"past.{n}": rng.standard_normal(shape, np.float32) for n in names(LAYERS)}


def steps(net: Any, session: ort.InferenceSession, rounds: int) -> None:
    """Time one-token steps behind 4, 128 and 500 tokens."""
    at = 0
    for past in (4, 128, 500):
        while at < past:
            net(**feeds(at, 1))
            at += 1
        ours, theirs = [], []
        for _ in range(rounds):
            given = feeds(at, 1)
            both = given | caches(at)
            ours.append(milliseconds(lambda said=given: net(**said)))
            theirs.append(milliseconds(lambda said=both: session.run(["logits"], said)))
            at += 1
        row(f"one token behind {past}", ours, theirs)


def prefill(proto: onnx.ModelProto, session: Any, work: Path, length: int, rounds: int) -> None:
    """Time `length` tokens behind none."""
    bundle = aot.compile(proto, work / "prefill", name="prefill", dims={PAST: 0, LENGTH: length})
    net, given = bundle.build().load(), feeds(0, length) | caches(0)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(milliseconds(lambda: net(**given)))
        theirs.append(milliseconds(lambda: session.run(["logits"], given)))
    row(f"{length} tokens behind none", ours, theirs)
    macs = sum(n["macs"] for n in bundle.manifest["nodes"])
    least = 2e-6 * macs / peak(work, bundle.manifest["target"]["vlen"], "gcc")
    print(f"| the multiplications of these at the core's peak | {least:.1f} | {least:.1f} | |")


def constants(manifest: Mapping[str, Any]) -> int:
    return int(manifest["memory"]["constants_bytes"])


def arena(manifest: Mapping[str, Any]) -> int:
    return int(manifest["memory"]["arena_bytes"])


def speed(work: Path, rounds: int) -> None:
    """The tables of speed and memory of the decoder of 124 million weights."""
    proto = gpt2(LAYERS, HEADS, SIZE, WORDS, PLACES)
    path = work / "decoder.onnx"
    onnx.save(proto, path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    dims = {PAST: (0, PLACES - 1), LENGTH: 1}
    states = {f"past.{n}": f"present.{n}" for n in names(LAYERS)}
    bundle = aot.compile(proto, work / "step", name="step", dims=dims, states=states)
    net = bundle.build().load()
    print("| | ours ms | onnxruntime ms | onnxruntime / ours |\n|---|---|---|---|")
    steps(net, session, rounds)
    prefill(proto, session, work, 128, max(3, rounds // 8))
    cache = 2 * LAYERS * PLACES * SIZE * 4
    weights = sum(int(np.prod(t.dims)) * 4 for t in proto.graph.initializer if t.data_type == 1)
    print(
        f"\nweights {weights / MIB:.1f} MiB, constants {constants(bundle.manifest) / MIB:.1f} MiB"
    )
    rest = (arena(bundle.manifest) - cache) / MIB
    print(f"caches {cache / MIB:.1f} MiB, arena besides {rest:.2f} MiB")


def save_large(path: Path) -> None:
    """Write the decoder of half a billion weights, its weights in a file beside it."""
    onnx.save(gpt2(**LARGE), path, save_as_external_data=True, location="large.data")


def large(work: Path) -> None:
    """Seconds, memory and files of a compilation of half a billion weights."""
    path, out = work / "large.onnx", work / "large"
    # A process begins with the memory of the one that starts it, which therefore stays small.
    subprocess.run([sys.executable, __file__, "--save-large", str(path)], check=True)
    weights = (work / "large.data").stat().st_size
    words = [f"--dim={PAST}=0..1023", f"--dim={LENGTH}=1", "--weights", "file", "-q"]
    for name in names(LARGE["layers"]):
        words += ["--state", f"past.{name}=present.{name}"]
    began = time.monotonic()
    command = [sys.executable, "-m", "aot", str(path), "-o", str(out), *words]
    _, status, used = os.wait4(subprocess.Popen(command).pid, 0)
    seconds = time.monotonic() - began
    if status != 0:
        raise SystemExit("the decoder did not compile")
    subprocess.run(["cmake", "--build", str(out)], check=True, capture_output=True)
    found = {(s.st_dev, s.st_ino): s.st_blocks * 512 for s in map(os.stat, out.rglob("*"))}
    print(f"weights {weights / MIB:.0f} MiB; compiled in {seconds:.0f} s")
    print(f"CPU {used.ru_utime + used.ru_stime:.0f} s")
    print(f"memory {used.ru_maxrss * 1024 / weights:.2f} x weights")
    print(f"files {sum(found.values()) / weights:.2f} x weights")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=41, help="steps at each length")
    parser.add_argument("--large", action="store_true", help="half a billion weights")
    parser.add_argument("--save-large", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.save_large:
        save_large(args.save_large)
        return
    with tempfile.TemporaryDirectory() as folder:
        if args.large:
            large(Path(folder))
        else:
            speed(Path(folder), args.rounds)


if __name__ == "__main__":
    main()
