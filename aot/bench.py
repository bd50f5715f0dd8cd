# SPDX-License-Identifier: Apache-2.0
"""`aotc bench`: what one run of a built bundle costs, by its own program's clock or counter."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from aot.emulate import is_native
from aot.image import Image, measure_image
from aot.run import Built, timed

#: A measurement takes about this long, in seconds, unless the number of runs is given.
SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Timing:
    """CPU time of `runs` runs in nanoseconds: median, quartiles, fastest; `wall` by the clock.

    `emulator` is what ran it, whose speed this then is."""

    runs: int
    median: float
    low: float
    high: float
    fastest: float
    wall: float
    emulator: str = ""

    def text(self) -> str:
        """One line, in milliseconds or microseconds."""
        unit, scale = ("ms", 1e6) if self.median >= 1e5 else ("us", 1e3)
        spread = 100.0 * (self.high - self.low) / self.median if self.median else 0.0
        return (
            f"{self.median / scale:.3f} {unit} CPU per run (median of {self.runs}; quartiles "
            f"{self.low / scale:.3f} … {self.high / scale:.3f}, spread {spread:.1f} %; "
            f"fastest {self.fastest / scale:.3f}; wall {self.wall / scale:.3f})"
            + (f", emulated by {self.emulator}" if self.emulator else "")
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
        }


@dataclass(frozen=True, slots=True)
class Board:
    """What a board's image costs: instructions of one run (of each of `runs`), and memory."""

    instructions: tuple[int, ...]
    resolution: int
    image: Image
    arena: int
    stack: int

    @property
    def ram(self) -> int:
        """Arena, variables and the stack that was used."""
        return self.image.data + self.image.bss + self.image.arena + self.stack

    def text(self) -> str:
        """Three lines."""
        unit = f", counted in steps of {self.resolution}" if self.resolution > 1 else ""
        image = self.image
        return "\n".join(
            (
                f"{self.instructions[-1]} instructions per run{unit}",
                f"flash  {image.flash} bytes: code {image.code}, constants and tables "
                f"{image.rodata}, initial data {image.data}",
                f"RAM    {self.ram} bytes: arena {image.arena}, variables "
                f"{image.data + image.bss} (inputs and outputs among them), stack {self.stack}",
            )
        )

    def record(self) -> dict[str, Any]:
        """For --json, in instructions and bytes."""
        return {
            "runs": len(self.instructions),
            "instructions": self.instructions[-1],
            "instructions_each": list(self.instructions),
            "resolution": self.resolution,
            "flash": self.image.flash,
            "ram": self.ram,
            "stack": self.stack,
            **self.image.record(),
        }


def bench(built: Built, repeat: int = 0) -> Timing | Board:
    """Time `repeat` runs, or as many as take about SECONDS; on boards count instructions."""
    return _board(built, repeat or 2) if built.board else _host(built, repeat)


def _board(built: Built, repeat: int) -> Board:
    measured = timed(built, repeat)
    hz = int(built.target.get("tick_hz", 0))
    empty, *counted = (int(t, 16) for t in measured["ticks"])
    ticks = [t - empty for t in counted]
    return Board(
        tuple(round(t * 1e9 / hz) if hz else t for t in ticks),
        round(1e9 / hz) if hz else 1,
        measure_image(built.program()),
        int(built.manifest["memory"]["arena_bytes"]),
        int(measured["stack"], 16),
    )


def _host(built: Built, repeat: int) -> Timing:
    if repeat <= 0:
        probe = timed(built, 3)
        each = max(1.0, float(median(probe["cpu_ns"])))
        repeat = int(min(10_000, max(5, SECONDS * 1e9 / each)))
    result = timed(built, repeat, warmup=min(3, repeat))
    cpu = sorted(float(n) for n in result["cpu_ns"])
    low, _, high = quantiles(cpu, n=4) if len(cpu) > 1 else (cpu[0], cpu[0], cpu[0])
    wall = median(float(n) for n in result["wall_ns"])
    emulator = "" if is_native(built.target) else str(built.target.get("emulator", [""])[0])
    return Timing(len(cpu), median(cpu), low, high, cpu[0], wall, emulator)
