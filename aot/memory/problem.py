# SPDX-License-Identifier: Apache-2.0
"""The offset assignment problem, reduced to integers: units, sections, neighbours.

How alignment enters: the unit is the greatest common divisor of all alignments, every size is
rounded up to whole units, and every offset is a multiple of its buffer's own alignment, hence of
the unit. So live buffers occupy disjoint runs of whole units, and the largest sum of rounded sizes
live at one time is a lower bound of the height that a packing can meet exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` bytes, live in the half-open range of steps [start, end).

    `align` is the alignment of the offset in bytes; `fixed` an offset that is imposed.
    """

    name: str
    size: int
    start: int
    end: int
    align: int = 64
    fixed: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Buffers 0..n-1 of whole units, and the maximal sets of them that are live together.

    `first[i]..last[i]` (half-open) are the sections that buffer i is live in; `live[t]` lists the
    buffers of section t in ascending order, `totals[t]` is the sum of their sizes; `near[i]` lists
    the buffers that overlap buffer i in time. A section is a maximal clique: times whose live set
    is part of another's are left out.
    """

    unit: int
    size: list[int]
    align: list[int]
    width: list[int]
    fixed: list[int | None]
    first: list[int]
    last: list[int]
    live: list[list[int]]
    near: list[list[int]]
    totals: list[int]

    @property
    def bound(self) -> int:
        """Units that every packing needs: the largest section, or the top of a fixed buffer."""
        tops = [f + s for f, s in zip(self.fixed, self.size, strict=True) if f is not None]
        return max([*self.totals, *tops], default=0)

    def height(self, offsets: Sequence[int]) -> int:
        """The top of the highest buffer, in units."""
        return max((o + s for o, s in zip(offsets, self.size, strict=True)), default=0)

    def settle(self, i: int, offset: int) -> int:
        """The lowest offset at or above `offset` that buffer i's alignment admits."""
        align = self.align[i]
        return offset if align == 1 else -(-offset // align) * align


def problem_of(buffers: Sequence[Buffer]) -> Problem:
    """The problem of `buffers`, all of positive size; ValueError if one is malformed."""
    for b in buffers:
        _check(b)
    unit = math.gcd(*(b.align for b in buffers)) if buffers else 1
    first, last, live = _sections(buffers)
    size = [-(-b.size // unit) for b in buffers]
    return Problem(
        unit,
        size,
        [b.align // unit for b in buffers],
        [b.end - b.start for b in buffers],
        [None if b.fixed is None else b.fixed // unit for b in buffers],
        first,
        last,
        live,
        _neighbours(first, live),
        [sum([size[i] for i in members]) for members in live],
    )


def _neighbours(first: Sequence[int], live: Sequence[Sequence[int]]) -> list[list[int]]:
    """Each pair that shares a section meets in the section where the later one appears."""
    near: list[list[int]] = [[] for _ in first]
    for t, members in enumerate(live):
        new = [i for i in members if first[i] == t]
        old = [i for i in members if first[i] < t]
        for i in new:
            near[i] += old
            near[i] += [j for j in new if j != i]
        for i in old:
            near[i] += new
    for found in near:
        found.sort()
    return near


def _check(b: Buffer) -> None:
    if b.size <= 0 or b.end <= b.start or b.align <= 0:
        raise ValueError(f"buffer {b.name}: size {b.size}, live [{b.start}, {b.end}), {b.align}")
    if b.fixed is not None and (b.fixed < 0 or b.fixed % b.align):
        raise ValueError(f"buffer {b.name}: fixed at {b.fixed}, alignment {b.align}")


def _sections(buffers: Sequence[Buffer]) -> tuple[list[int], list[int], list[list[int]]]:
    """Sections by one sweep: the live set is maximal whenever an end follows a start."""
    events = sorted(
        [(b.end, 0, i) for i, b in enumerate(buffers)]
        + [(b.start, 1, i) for i, b in enumerate(buffers)]
    )
    first, last = [0] * len(buffers), [0] * len(buffers)
    live: list[list[int]] = []
    now: set[int] = set()
    grown = False
    for _, starts, i in events:
        if starts:
            first[i] = len(live)
            now.add(i)
        else:
            if grown:
                live.append(sorted(now))
            last[i] = len(live)
            now.remove(i)
        grown = bool(starts)
    return first, last, live
