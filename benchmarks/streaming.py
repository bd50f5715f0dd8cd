# SPDX-License-Identifier: Apache-2.0
"""Whole tensors against rows: bytes of arena, instructions and flash on boards, time on hosts.

    python benchmarks/streaming.py [--no-build] [--large] [--only WORD] [MODEL.onnx:TARGET:ASKED …]

Compiles each network with the default objective and with `--objective ram` or `--push`, builds
both, feeds both the same data and compares the results byte by byte, and counts instructions under
QEMU; on a host with `--accuracy strict`, and the time is the median of CPU seconds in turns. Where
rows are for the cache, each chain of calls has a line, with what the trace builds measure of it.
Without arguments: the networks of CASES, from AOT_TEST_MODELS or with random weights
(streamed_models.py), with the bytes asked for; OTHERS are planned only. `--no-build` plans all
only, `--large` also builds the networks that QEMU runs for minutes, `--only` takes those
with a word in their line. `--earlier` is the Python of an environment with an earlier aotc, whose
whole tensors the chains are then compared with. Exits 1 if results differ, or a figure is more
than asked.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from streamed_models import NETWORKS, saved  # noqa: E402

import aot  # noqa: E402
from aot.api import Bundle  # noqa: E402
from aot.npz import read_npz  # noqa: E402
from aot.target import load_target  # noqa: E402
from aot.tools import emulate, run  # noqa: E402
from aot.tools.bench import bench_nodes  # noqa: E402
from aot.tools.elf_image import measure_image  # noqa: E402

#: Instructions or time, and bytes of flash, of rows to those of whole tensors, at most.
RATIO, LARGE_RATIO, FLASH_RATIO = 1.15, 1.4, 1.15
#: Seconds of CPU that planning takes at most.
PLANNING = 3.0
#: How much faster rows are that stay in a cache, at least.
GAIN = 1.1
#: Runs of each bundle that are timed on a host.
TURNS = 15
#: Seconds after which a board that runs a large network is taken to hang.
PATIENCE = 3600.0


@dataclass(frozen=True, slots=True)
class Case:
    """A network on a target: bytes of arena `asked`, 0 if none are, the `ratio` asked of
    instructions or time; with `pushed` rows come one by one, `planned` ones are not built, `large`
    ones only if asked. With `cached` both have the objective latency, the first one without rows
    that stay in a cache.
    """

    model: str
    target: str
    asked: int = 0
    ratio: float = RATIO
    pushed: bool = False
    planned: bool = False
    cached: bool = False
    large: bool = False


CASES = (
    Case("mlperf_ic_int8", "cortex-m4", 14_000),
    Case("mlperf_ic_int8", "cortex-m4", 12_500, pushed=True),
    Case("mlperf_vww_int8", "cortex-m4", 36_000),
    Case("mlperf_vww_int8", "cortex-m4", 13_000, pushed=True),
    Case("mlperf_kws_int8", "cortex-m4", 5_500),
    Case("mobilenetv2_96_int8", "cortex-m55", 72_000),
    Case("mobilenetv2_224_int8", "cortex-m55", 260_000),
    Case("resnet50_224_int8", "host", 600_000, LARGE_RATIO),
    Case("vgg19_224_int8", "host", 600_000, LARGE_RATIO),
    Case("resnet50_224_int8", "cortex-m55", 600_000, LARGE_RATIO, large=True),
    Case("vgg19_224_int8", "cortex-m55", 600_000, LARGE_RATIO, large=True),
    Case("mobilenetv2_224_f32", "host", 700_000),
    *(Case(f"mobilenetv2_{n}_f32", "host", 0, 1.02, cached=True) for n in (448, 640)),
)
#: Other networks whose plans are shown: half of them with weights of their own.
OTHERS = (
    *(Case(f"{n}_{t}", "host", planned=True) for n in ("squeezenet_224", "densenet121_224",
      "unet_128") for t in ("int8", "f32")), Case("mobilenetv2_224_f16", "host", planned=True),
    *(Case(n, "host", planned=True) for n in ("ppocr_v4_det", "ultraface_rfb320",
      "basic_pitch_nmp", "dtln_1", "mlperf_ic_f32", "mlperf_vww_f32", "mlperf_kws_f32",
      "mlperf_ad_f32", "mlperf_sww_f32", "mobilenetv2_96_f32", "resnet50_224_f32",
      "vgg19_224_f32")),
    *(Case(f"mlperf_{n}_int8", "cortex-m4", planned=True) for n in ("ad", "sww")),
)  # fmt: skip
HEAD = (
    "| network | target | whole | asked | by rows | arena bound | planning s "
    "| ratio of instructions, on hosts of time | flash ratio | codes |"
    "\n|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(slots=True)
class Built:
    """One bundle: its arena, the seconds of CPU that planning took."""

    bundle: Bundle
    planning: float = 0.0
    marks: list[tuple[str, float]] = field(default_factory=list)

    @property
    def memory(self) -> dict[str, Any]:
        """What the manifest says of memory."""
        return dict(self.bundle.manifest["memory"])


def compiled(case: Case, model: Path, objective: str, out: Path) -> Built:
    """The bundle for an objective, "push" for rows that are pushed."""
    options: dict[str, Any] = {"target": case.target, "configure": not case.planned}
    options |= {"accuracy": "strict"} if case.target == "host" and not case.cached else {}
    if objective == "whole":
        chip, objective = out.with_suffix(".toml"), "latency"
        chip.write_text(f'base = "{load_target(case.target).cpu}"\ncache = 0\n')
        options["target"] = str(chip)
    shapes = {"ppocr_v4_det": {"x": (1, 3, 320, 320)}, "basic_pitch_nmp": {}}.get(case.model)
    options |= {"input_shapes": shapes} if shapes else {}
    options |= {"dims": {"unk__749": 1}} if case.model == "basic_pitch_nmp" else {}
    if objective == "push":
        options["push"] = compiled(case, model, "latency", out).bundle.manifest["inputs"][0]["name"]
    else:
        options["objective"] = objective
    marks: list[tuple[str, float]] = []
    bundle = aot.compile(
        model, out, progress=lambda s: marks.append((s, time.process_time())), **options
    )
    begin = {name: at for name, at in reversed(marks)}
    return Built(bundle, begin["fallbacks"] - begin["schedule"])


def measured(built: Built, samples: Path) -> tuple[dict[str, np.ndarray], float, float]:
    """Results and instructions of one run, and bytes of flash, of a board's image."""
    built.bundle.build()
    program = run.open_out(built.bundle.out)
    folder = built.bundle.out
    words = ["--repeat", "1", "--warmup", "0", "--report", "report.json"]
    for i, value in enumerate(read_npz(samples).values()):
        value.tofile(folder / f"i{i}.bin")
        words += ["--input", f"{i}=i{i}.bin"]
    for i, _ in enumerate(program.outputs):
        words += ["--output", f"{i}=o{i}.bin"]
    run.start(program, words, folder=folder)
    results = {s.name: run.read_raw(folder / f"o{i}.bin", s) for i, s in enumerate(program.outputs)}
    flash = measure_image(program.program()).flash
    return results, counted(program, folder / "report.json"), float(flash)


def counted(program: run.Built, report: Path) -> float:
    """The instructions of the run that a report tells of, less those of an empty one."""
    empty, ticks = (int(t, 16) for t in json.loads(report.read_text("ascii"))["ticks"])
    return (ticks - empty) * 1e9 / (program.target.get("tick_hz") or 1e9)


def timed(pair: list[Built], samples: Path) -> list[tuple[dict[str, np.ndarray], float, float]]:
    """The same for two bundles of this machine: results, seconds, bytes of the library."""
    feeds = list(read_npz(samples).values())
    runs = [built.bundle.build().load() for built in pair]
    results = [{str(k): np.asarray(v) for k, v in enumerate([once(*feeds)])} for once in runs]
    seconds: list[list[float]] = [[], []]
    for turn in range(2 * TURNS):
        start = time.process_time()
        runs[turn % 2](*feeds)
        seconds[turn % 2].append(time.process_time() - start)
    sizes = [next((b.bundle.out / "lib").glob("*.so")).stat().st_size for b in pair]
    return [
        (found, float(np.median(times)), float(size))
        for found, times, size in zip(results, seconds, sizes, strict=True)
    ]


def chains(before: Path, after: Path) -> tuple[str, bool]:
    """A line for each chain of the second bundle, in microseconds of CPU as whole tensors (of the
    first bundle) and by rows, in turns; and whether all rows are as fast as asked.
    """
    whole, rows = run.open_out(before), run.open_out(after)
    turns = [(bench_nodes(whole, 5), bench_nodes(rows, 5)) for _ in range(TURNS)]
    lines, good = [], True
    for part in rows.manifest["memory"].get("by_rows", ()):
        calls = rows.manifest["nodes"][part["first"] : part["last"] + 1]
        nodes = [c["nodes"] for c in calls]
        times = [
            [
                sum(c.amount for c in f if b.manifest["nodes"][c.call]["nodes"] in nodes)
                for f in each
            ]
            for b, each in zip((whole, rows), zip(*turns, strict=True), strict=True)
        ]
        gain = float(np.median(np.divide(*times)))
        before, after = (np.median(t) / 1e3 for t in times)
        lines.append(
            f"{nodes[0][0]} to {nodes[-1][-1]}: {before:.0f} us as whole tensors, {after:.0f} by "
            f"rows, {gain:.2f} times as fast" + ("" if gain >= GAIN else ", less than asked")
        )
        good = good and gain >= GAIN
    return "\n".join(lines), good


def data(shape: list[int], dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Random values of an input."""
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-128, 128, shape).astype(dtype)


def row(case: Case, model: Path, folder: Path, earlier: str) -> tuple[str, bool]:
    """A line of the table, and whether all is as asked; `earlier` is an interpreter or ""."""
    objectives = ("latency", "push" if case.pushed else "ram")
    objectives = ("whole", "latency") if case.cached else objectives
    pair = [compiled(case, model, o, folder / o) for o in objectives]
    whole, rows = (b.memory for b in pair)
    arena = int(rows["arena_bytes"])
    name = model.stem + (", pushed" if case.pushed else ", cached" * case.cached)
    cells = [name, case.target, whole["arena_bytes"], case.asked or "–", arena]
    cells += [rows["lower_bound_bytes"], f"{pair[1].planning:.1f}"]
    good = (not case.asked or arena <= case.asked) and pair[1].planning <= PLANNING
    if not case.planned:
        rng = np.random.default_rng(7)
        inputs = pair[0].bundle.manifest["inputs"]
        values = {i["name"]: data(i["shape"], i["dtype"], rng) for i in inputs}
        np.savez(folder / "x.npz", **values)
        if case.target == "host":
            found = timed(pair, folder / "x.npz")
        else:
            with ThreadPoolExecutor(len(pair)) as boards:
                found = list(boards.map(measured, pair, [folder / "x.npz"] * len(pair)))
        (a, ours, flash), (b, theirs, more) = found
        same = all(np.array_equal(v, b[k]) for k, v in a.items())
        cells += [f"{theirs / ours:.3f}", f"{more / flash:.3f}", "equal" if same else "DIFFER"]
        good = good and same and theirs <= case.ratio * ours and more <= FLASH_RATIO * flash
    else:
        cells += ["–"] * 3
    line = "| " + " | ".join(map(str, cells)) + " |"
    if case.cached and not case.planned:
        before = pair[0].bundle.out
        if earlier:
            before = folder / "earlier"
            program = "import aot, sys; aot.compile(sys.argv[1], sys.argv[2]).build()"
            subprocess.run([earlier, "-c", program, model, before], check=True, cwd=folder)
        parts, fast = chains(before, pair[1].bundle.out)
        return f"{line}\n{parts}", good and fast
    return line, good


def source(case: Case, folder: Path) -> Path:
    """The model of a case: a file, one of AOT_TEST_MODELS, or one that is made."""
    if case.model.endswith(".onnx"):
        return Path(case.model)
    if case.model.rpartition("_")[0].rpartition("_")[0] in NETWORKS:
        return saved(case.model, folder)
    return Path(os.environ.get("AOT_TEST_MODELS", ".")) / f"{case.model}.onnx"


def main() -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="MODEL.onnx:TARGET:ASKED")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--earlier", default="", metavar="PYTHON")
    args = parser.parse_args()
    given = [c.rsplit(":", 2) for c in args.cases]
    cases = [Case(n, t, int(b)) for n, t, b in given] or [*CASES, *OTHERS]
    emulate.TIMEOUT = PATIENCE if args.large else emulate.TIMEOUT
    print(HEAD, flush=True)
    good = True
    for case in cases:
        kind = " pushed" if case.pushed else " cached" * case.cached
        if args.only not in f"{case.model} {case.target}{kind}":
            continue
        if args.no_build or (case.large and not args.large):
            case = replace(case, planned=True)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            line, fine = row(case, source(case, place), place, args.earlier)
        print(line + ("" if fine else " more than asked"), flush=True)
        good = good and fine
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
