# SPDX-License-Identifier: Apache-2.0
"""`aotc bench`: time of one run of a built bundle, by its own program's clock."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from aot.run import Built, timed

#: A measurement takes about this long, in seconds, unless the number of runs is given.
SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Timing:
    """CPU time of `runs` runs in nanoseconds: median, quartiles, fastest; `wall` by the clock."""

    runs: int
    median: float
    low: float
    high: float
    fastest: float
    wall: float

    def text(self) -> str:
        """One line, in milliseconds or microseconds."""
        unit, scale = ("ms", 1e6) if self.median >= 1e5 else ("us", 1e3)
        spread = 100.0 * (self.high - self.low) / self.median if self.median else 0.0
        return (
            f"{self.median / scale:.3f} {unit} CPU per run (median of {self.runs}; quartiles "
            f"{self.low / scale:.3f} … {self.high / scale:.3f}, spread {spread:.1f} %; "
            f"fastest {self.fastest / scale:.3f}; wall {self.wall / scale:.3f})"
        )

    def record(self) -> dict[str, Any]:
        """For --json, in nanoseconds."""
        return {
            "runs": self.runs,
            "cpu_median_ns": self.median,
            "cpu_quartiles_ns": [self.low, self.high],
            "cpu_min_ns": self.fastest,
            "wall_median_ns": self.wall,
        }


def bench(built: Built, repeat: int = 0) -> Timing:
    """Time `repeat` runs, or as many as take about SECONDS."""
    if repeat <= 0:
        probe = timed(built, 3)
        each = max(1.0, float(median(probe["cpu_ns"])))
        repeat = int(min(10_000, max(5, SECONDS * 1e9 / each)))
    result = timed(built, repeat, warmup=min(3, repeat))
    cpu = sorted(float(n) for n in result["cpu_ns"])
    low, _, high = quantiles(cpu, n=4) if len(cpu) > 1 else (cpu[0], cpu[0], cpu[0])
    wall = median(float(n) for n in result["wall_ns"])
    return Timing(len(cpu), median(cpu), low, high, cpu[0], wall)
