# SPDX-License-Identifier: Apache-2.0
"""Programs of AX1: when its units work and what they wait for, and the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

Performance = Mapping[str, Any]
Point = tuple[float, float]
UNITS = ("LD", "EX", "VX", "ST")
#: Pixels: the timeline, and the sides of the roofline.
WIDTH, SIDE, TOP = 900, 420, 260
#: Bars closer than so many pixels become one if they are of a kind or that narrow together, so
#: that a page stays small.
MERGED = 0.5


@dataclass(slots=True)
class Bar:
    """Cycles `begin` to `end` of a unit; what fills most of it, work or waiting, is its colour."""

    begin: int
    end: int
    ran: int
    waited: int
    text: str


def bars(performance: Performance, unit: int) -> list[Bar]:
    """The bars of a unit; those that nobody could tell apart are one."""
    found: list[Bar] = []
    for name, pc, of, _, start, end, waited, on in performance["spans"]:
        if of == unit and waited:
            found.append(Bar(start - waited, start, 0, waited, f"waits for {UNITS[on]}"))
        if of == unit:
            found.append(Bar(start, end, end - start, 0, f"{name} at {pc // 16}"))
    return _joined(found, int(performance["cycles"]) / WIDTH)


def _joined(found: Sequence[Bar], pixel: float) -> list[Bar]:
    """Bars of at least a pixel, or with a gap before them."""
    merged: list[Bar] = []
    for bar in found:
        last = merged[-1] if merged else None
        if last and bar.begin - last.end < MERGED * pixel:
            same = (last.ran == 0) if bar.waited else (last.waited == 0)
            if same or bar.end - last.begin <= pixel:
                text = f"{last.text.removesuffix(' …')} …"
                ran, waited = last.ran + bar.ran, last.waited + bar.waited
                merged[-1] = Bar(last.begin, bar.end, ran, waited, text)
                continue
        merged.append(bar)
    return merged


def roofline(performance: Performance, peak: int, rate: int) -> tuple[list[Point], list[Any]]:
    """Pixels of the limits of a machine, and of layers with weights as (x, y, layer).

    `peak` is MACs per cycle, `rate` bytes of constants per cycle; both axes are logarithmic.
    """
    layers = [
        n for n in performance["layers"] if n["macs"] and n["weights"] and n["end"] > n["start"]
    ]
    points = [(n["macs"] / n["weights"], n["macs"] / (n["end"] - n["start"])) for n in layers]
    low, high = min([0.1, *(x for x, _ in points)]), max([1e4, *(x for x, _ in points)])
    floor = min([0.1, *(y for _, y in points)])

    def at(x: float, y: float) -> Point:
        right, up = log10(x / low) / log10(high / low), log10(y / floor) / log10(2 * peak / floor)
        return SIDE * right, TOP * (1 - up)

    left = max(low, floor / rate)
    corners = [(left, max(floor, left * rate)), (max(low, peak / rate), peak), (high, peak)]
    drawn = [(*at(x, y), n) for (x, y), n in zip(points, layers, strict=True)]
    return [at(x, y) for x, y in corners], drawn
