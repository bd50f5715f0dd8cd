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

    `align` is the alignment of the offset in bytes; `fixed` an offset that is imposed. A buffer
    that is not always live as a whole says so in `size_profile`: its first `size_profile[k]`
    bytes are live at step start + k (one entry per step, none above `size`).
    """

    name: str
    size: int
    start: int
    end: int
    align: int = 64
    fixed: int | None = None
    size_profile: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Buffers 0..n-1 of whole units, and the sets of them that are live together.

    A section is a time at which no buffer starts or grows before one ends or shrinks; other times
    need no more than one of these. `first[i]..last[i]` (half-open) are the sections that buffer i
    is live in; `live[t]` lists the buffers of section t in ascending order, `totals[t]` is the sum
    of their live sizes there; `near[i]` lists the buffers that overlap buffer i in time.
    `profile[i]` are the live sizes of buffer i by section, None where they are all `size[i]`;
    `reach[i]` is then its greatest live size while buffer j is live.
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
    profile: list[list[int] | None]
    reach: list[dict[int, int] | None]

    @property
    def bound(self) -> int:
        """Units that every packing needs: the largest section, or the top of a fixed buffer."""
        tops = [f + s for f, s in zip(self.fixed, self.size, strict=True) if f is not None]
        return max([*self.totals, *tops], default=0)

    def height(self, offsets: Sequence[int]) -> int:
        """The top of the highest buffer, in units."""
        return max((o + s for o, s in zip(offsets, self.size, strict=True)), default=0)

    def above(self, i: int, j: int) -> int:
        """Units that buffer j must lie above the offset of buffer i to lie on it."""
        reach = self.reach[i]
        return self.size[i] if reach is None else reach[j]

    def aligned(self, buffer: int, offset: int) -> int:
        """The lowest offset at or above `offset` that buffer i's alignment admits."""
        align = self.align[buffer]
        return offset if align == 1 else -(-offset // align) * align


def problem_of(buffers: Sequence[Buffer]) -> Problem:
    """The problem of `buffers`, all of positive size; ValueError if one is malformed."""
    for b in buffers:
        _check(b)
    # In units of the smallest alignment the search handles small integers.
    unit = math.gcd(*(b.align for b in buffers)) if buffers else 1
    sections = _Sections(buffers, unit)
    first, last, live, profile = sections.first, sections.last, sections.live, sections.profile
    near = _neighbours(first, live)
    return Problem(
        unit,
        [-(-b.size // unit) for b in buffers],
        [b.align // unit for b in buffers],
        [b.end - b.start for b in buffers],
        [None if b.fixed is None else b.fixed // unit for b in buffers],
        first,
        last,
        live,
        near,
        sections.totals,
        profile,
        [_reach(i, first, last, near[i], h) for i, h in enumerate(profile)],
    )


def _check(b: Buffer) -> None:
    """Raise ValueError unless the buffer's size, life, alignment and size profile make sense."""
    if b.size <= 0 or b.end <= b.start or b.align <= 0:
        raise ValueError(f"buffer {b.name}: size {b.size}, live [{b.start}, {b.end}), {b.align}")
    if b.fixed is not None and (b.fixed < 0 or b.fixed % b.align):
        raise ValueError(f"buffer {b.name}: fixed at {b.fixed}, alignment {b.align}")
    if b.size_profile and (len(b.size_profile) != b.end - b.start or max(b.size_profile) != b.size):
        raise ValueError(
            f"buffer {b.name}: {len(b.size_profile)} sizes up to {max(b.size_profile)}"
        )


class _Sections:
    """Sections by one sweep: one is complete whenever an end or a loss follows a start or growth.

    Sizes of zero count as one unit, so that a buffer is in every section of its live range.
    """

    def __init__(self, buffers: Sequence[Buffer], unit: int) -> None:
        """Cut time into sections in which the same buffers are live at the same heights (units).

        A new section begins where a buffer appears or grows after one ended or shrank; that is
        enough, as each section holds all that is live together at its fullest moment.
        """
        n = len(buffers)
        self.first, self.last = [0] * n, [0] * n
        self.live: list[list[int]] = []
        self.totals: list[int] = []
        self.profile: list[list[int] | None] = [
            [] if len(set(b.size_profile)) > 1 else None for b in buffers
        ]
        now: dict[int, int] = {}
        grown = False
        for _, grows, i, height in _changes(buffers, unit):
            if not grows and grown:
                self._complete(now)
            if not height:
                self.last[i] = len(self.live)
                del now[i]
            else:
                if i not in now:
                    self.first[i] = len(self.live)
                now[i] = height
            grown = bool(grows)
        # In units the heights may all be equal, and a buffer of one height is simpler to place.
        for i, size_profile in enumerate(self.profile):
            if size_profile is not None and min(size_profile) == -(-buffers[i].size // unit):
                self.profile[i] = None

    def _complete(self, now: dict[int, int]) -> None:
        """End a section in which the buffers of `now` (height by index) are live."""
        self.live.append(sorted(now))
        self.totals.append(sum(now.values()))
        for i, height in now.items():
            size_profile = self.profile[i]
            if size_profile is not None:
                size_profile.append(height)


def _changes(buffers: Sequence[Buffer], unit: int) -> list[tuple[int, int, int, int]]:
    """(step, grows, buffer, height from there on) in order, losses before gains; 0 is a buffer's
    end.

    Heights are in units of `unit` bytes.
    """
    found = []
    for i, b in enumerate(buffers):
        found.append((b.end, 0, i, 0))
        before = 0
        for k, size in enumerate(b.size_profile or (b.size,)):
            height = max(1, -(-size // unit))
            if height != before:
                found.append((b.start + k, int(height > before), i, height))
                before = height
    found.sort()
    return found


def _neighbours(first: Sequence[int], live: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each buffer the ascending indices of buffers that share a section with it."""
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


def _reach(
    buffer: int,
    first: Sequence[int],
    last: Sequence[int],
    near: Sequence[int],
    size_profile: Sequence[int] | None,
) -> dict[int, int] | None:
    """By neighbour, the greatest height of `buffer` in the sections that both share; None if it is
    constant.
    """
    if size_profile is None:
        return None
    a = first[buffer]
    return {j: max(size_profile[max(a, first[j]) - a : last[j] - a]) for j in near}
