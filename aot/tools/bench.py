# SPDX-License-Identifier: Apache-2.0
"""`aotc bench`: what one run of a built bundle costs, by its own program's clock or counter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

from aot.errors import one_line
from aot.ir.node_traits import converts
from aot.ops.registry import load_all
from aot.tools.build import build
from aot.tools.elf_image import Image, measure_image
from aot.tools.emulate import is_native
from aot.tools.linkmap import flash_parts
from aot.tools.run import Built, profiled, timed
from aot.tools.samples import random_sample
from aot.tools.stack_built import stack_of

#: Characters of a node's name in the list of all calls; its end tells most.
_TITLE = 80
#: A measurement takes about this long, in seconds, unless the number of runs is given.
SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Timing:
    """CPU time of `runs` runs in nanoseconds: median, quartiles, fastest; `wall` by the clock.

    `emulator` is what ran it, whose speed this then is; `runner` the command of `--runner`."""

    runs: int
    median: float
    low: float
    high: float
    fastest: float
    wall: float
    emulator: str = ""
    runner: str = ""

    def text(self) -> str:
        """One line, in milliseconds or microseconds."""
        unit, scale = ("ms", 1e6) if self.median >= 1e5 else ("us", 1e3)
        spread = 100.0 * (self.high - self.low) / self.median if self.median else 0.0
        return (
            f"{self.median / scale:.3f} {unit} CPU per run (median of {self.runs}; quartiles "
            f"{self.low / scale:.3f} … {self.high / scale:.3f}, spread {spread:.1f} %; "
            f"fastest {self.fastest / scale:.3f}; wall {self.wall / scale:.3f})"
            + (f", emulated by {self.emulator}" if self.emulator else "")
            + (f", by {self.runner}" if self.runner else "")
        )

    def record(self) -> dict[str, Any]:
        """For --json, in nanoseconds."""
        return {
            "runs": self.runs,
            "cpu_median_ns": self.median,
            "cpu_quartiles_ns": [self.low, self.high],
            "cpu_min_ns": self.fastest,
            "wall_median_ns": self.wall,
            "emulator": self.emulator,
            "runner": self.runner,
        }


@dataclass(frozen=True, slots=True)
class Board:
    """What a board's image costs: instructions of one run (of each of `runs`), and memory.

    `stack` is what was used, by the program around the library too; `stack_bound` what the
    library's entries use at most, None where no compiler said it. `longest_step` are the
    instructions of the longest step of a run in slices, None without slices. `parts` are the bytes
    of flash by origin: library, startup, runner, toolchain, padding.
    """

    instructions: tuple[int, ...]
    resolution: int
    image: Image
    arena: int
    stack: int
    stack_bound: int | None
    parts: dict[str, int]
    longest_step: int | None = None

    @property
    def ram(self) -> int:
        """Arena, variables and the stack that was used."""
        return self.image.data + self.image.bss + self.image.arena + self.stack

    def text(self) -> str:
        """The measurement as four lines: instructions, bytes of flash and their origins, bytes of
        RAM.
        """
        unit = f", counted in steps of {self.resolution}" if self.resolution > 1 else ""
        image = self.image
        return "\n".join(
            (
                f"{self.instructions[-1]} instructions per run{unit}{self._steps()}",
                f"flash  {image.flash} bytes: code {image.code}, constants and tables "
                f"{image.rodata}, initial data {image.data}",
                *([f"       {self._origins()}"] if self.parts else []),
                f"RAM    {self.ram} bytes: arena {image.arena}, variables "
                f"{image.data + image.bss}, stack {self.stack}",
            )
        )

    def _steps(self) -> str:
        return f"; {self.longest_step} in the longest step" if self.longest_step else ""

    def _origins(self) -> str:
        """The bytes of flash by where they come from, as text."""
        named = {"startup": "start-up", "toolchain": "libc and libgcc", "runner": "file runner"}
        return "of it " + ", ".join(f"{named.get(k, k)} {n}" for k, n in self.parts.items() if n)

    def record(self) -> dict[str, Any]:
        """For --json, in instructions and bytes."""
        return {
            "runs": len(self.instructions),
            "instructions": self.instructions[-1],
            "instructions_each": list(self.instructions),
            "resolution": self.resolution,
            "flash": self.image.flash,
            "flash_parts": self.parts,
            "ram": self.ram,
            "stack": self.stack,
            "stack_bound": self.stack_bound,
            "longest_step": self.longest_step,
            **asdict(self.image),
        }


def bench(built: Built, repeat: int = 0) -> Timing | Board:
    """Time `repeat` runs, or as many as take about SECONDS; on boards count instructions."""
    return _board(built, repeat or 2) if built.board else _host(built, repeat)


def _board(built: Built, repeat: int) -> Board:
    """Run an image `repeat` times and measure it: instructions less those of an empty run, bytes,
    stack.
    """
    measured = timed(built, repeat, arrays=_arrays(built))
    hz = int(built.target.get("tick_hz", 0))
    empty, *counted = _instructions(measured["ticks"], hz)
    steps = _instructions([measured["longest_step"]], hz) if "longest_step" in measured else []
    return Board(
        tuple(n - empty for n in counted),
        round(1e9 / hz) if hz else 1,
        measure_image(built.program()),
        int(built.manifest["memory"]["arena_bytes"]),
        int(measured["stack"], 16),
        stack_of(built).bytes,
        flash_parts(built.out / f"{built.name}-runner.map"),
        steps[0] - empty if steps else None,
    )


def _arrays(built: Built) -> Sequence[Any]:
    """Inputs for programs that cannot make them up: boards', and those that hold strings."""
    if not built.board and not any(s.texts for s in built.inputs):
        return ()
    return random_sample(built.inputs, None).inputs


def _instructions(ticks: Sequence[str], hz: int) -> list[int]:
    """Instructions of counters that are hexadecimal text and count `hz` in emulated seconds."""
    return [round(int(t, 16) * 1e9 / hz) if hz else int(t, 16) for t in ticks]


@dataclass(frozen=True, slots=True)
class NodeCost:
    """What one call takes: nanoseconds of CPU time on hosts, instructions on boards."""

    call: int
    title: str
    kernel: str
    amount: float


def bench_nodes(built: Built, repeat: int = 0) -> tuple[NodeCost, ...]:
    """What every call takes by the trace build, whose reports cost a little themselves."""
    load_all()  # the records of operators say which ones quantise
    build(built.out, f"{built.name}-trace")
    if built.board:
        hz = int(built.target.get("tick_hz", 0))
        measured = profiled(built, 1, _arrays(built))
        amounts: Sequence[float] = _instructions(measured["calls"], hz)
    else:
        found = profiled(built, repeat or 20, _arrays(built))
        amounts = [float(c["cpu_median_ns"]) for c in found["calls"]]
    calls = built.manifest["nodes"]
    return tuple(
        NodeCost(i, _title(c), c["kernel"], n)
        for i, (c, n) in enumerate(zip(calls, amounts, strict=True))
    )


def _title(call: dict[str, Any]) -> str:
    """The nodes of a call but the conversions around them, as far as a line goes."""
    pairs = zip(call["nodes"], call["op"].split(" + "), strict=False)
    named = [n for n, op in pairs if not converts(op)]
    text = " + ".join(named or call["nodes"]) or call["kernel"]
    return text if len(text) <= _TITLE else f"…{text[-_TITLE:]}"


def nodes_text(nodes: Sequence[NodeCost], board: bool) -> str:
    """A line per call, the dearest first, with its share."""
    total = sum(n.amount for n in nodes) or 1.0
    unit = "instructions" if board else "us CPU"
    lines = [f"{unit:>14}  share  kernel, nodes"]
    for n in sorted(nodes, key=lambda n: -n.amount):
        amount = f"{n.amount:.0f}" if board else f"{n.amount / 1e3:.1f}"
        lines.append(
            one_line(f"{amount:>14} {100 * n.amount / total:5.1f}%  {n.kernel}: {n.title}")
        )
    return "\n".join(lines)


def _host(built: Built, repeat: int) -> Timing:
    """Time `repeat` runs of a bundle here or in the emulator, in nanoseconds of CPU time.

    With `repeat` 0, three runs decide how many take SECONDS: 5 to 10000. The result has
    quartiles.
    """
    arrays = _arrays(built)
    if repeat <= 0:
        probe = timed(built, 3, arrays=arrays)
        each = max(1.0, float(median(probe["cpu_ns"])))
        repeat = int(min(10_000, max(5, SECONDS * 1e9 / each)))
    result = timed(built, repeat, warmup=min(3, repeat), arrays=arrays)
    cpu = sorted(float(n) for n in result["cpu_ns"])
    low, _, high = quantiles(cpu, n=4) if len(cpu) > 1 else (cpu[0], cpu[0], cpu[0])
    wall = median(float(n) for n in result["wall_ns"])
    emulator = "" if is_native(built.target) else str(built.target.get("emulator", [""])[0])
    emulator = emulator if not built.runner else ""
    return Timing(len(cpu), median(cpu), low, high, cpu[0], wall, emulator, built.runner)
