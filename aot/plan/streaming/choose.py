# SPDX-License-Identifier: Apache-2.0
"""Which calls to make row by row: as few as a budget allows, or those that need the least memory.

A run is cut where few bytes cross; every part between two cuts is made row by row or as a whole.
Dynamic programming over the cuts finds the parts with the least (bytes, work by rows), or within a
budget the least work by rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from aot.ir.program import Program
from aot.plan.streaming.estimate import LiveRanges, RowPeaks, live_ranges_of, narrow, whole_peaks
from aot.plan.streaming.near import near
from aot.plan.streaming.order import Run
from aot.plan.streaming.runs import rows_of, runs_of, segmented

#: Cuts of one run that are tried at most.
MOST_CUTS = 24


@dataclass(frozen=True, slots=True)
class _Part:
    """Calls `start` to `end` - 1: the most bytes, and what is multiplied by rows (whole: 0)."""

    start: int
    end: int
    nbytes: int
    work: int
    by_rows: bool


@dataclass(frozen=True, slots=True)
class _Best:
    """How the calls up to a cut are made: the most bytes, what is multiplied by rows, the spans."""

    nbytes: int
    work: int
    spans: tuple[tuple[int, int], ...]


def choose(program: Program, budget: int = 0) -> Program:
    """`program` with the segments that need the fewest bytes, or that fit a larger budget.

    Of those that do, the segments are taken that have the least work by rows. Calls by rows follow
    each other (`near`) where that needs a sixteenth less.
    """
    made, nbytes = _chosen(program, budget)
    other = near(program) if nbytes > budget else program
    if other is not program:
        again, less = _chosen(other, budget)
        made = again if less <= max(budget, nbytes - nbytes // 16) else made
    return made


def _chosen(program: Program, budget: int) -> tuple[Program, int]:
    """`program` with segments, its calls in their order, and the most bytes that these need."""
    ranges = live_ranges_of(program)
    whole = whole_peaks(program, ranges)
    found = runs_of(program)[0]
    runs = [_parts(program, ranges, whole, first, last) for first, last in found]
    inside = {i for first, last in found for i in range(first, last + 1)}
    outside = [nbytes for i, nbytes in enumerate(whole) if i not in inside]
    least = max([*outside, *(_best(parts, 0).nbytes for parts in runs)], default=0)
    made = [_best(parts, max(budget, least)) for parts in runs]
    return segmented(program, [span for best in made for span in best.spans]), least


def _best(parts: list[_Part], budget: int) -> _Best:
    """Within the budget the least work first, else the fewest bytes; `parts` in order of `end`."""
    best: dict[int, list[_Best]] = {min((p.start for p in parts), default=0): [_Best(0, 0, ())]}
    for end, own in groupby(parts, key=lambda p: p.end):
        found = [_joined(before, part) for part in own for before in best.get(part.start, ())]
        best[end] = sorted(found, key=lambda b: (max(b.nbytes, budget), b.work, len(b.spans)))[:1]
    return next(iter(best[max(best)]), _Best(0, 0, ()))


def _joined(before: _Best, part: _Part) -> _Best:
    """The best choice up to the start of `part`, with it: peaks take the maximum, work adds up."""
    spans = (*before.spans, (part.start, part.end - 1)) if part.by_rows else before.spans
    return _Best(max(before.nbytes, part.nbytes), before.work + part.work, spans)


def _parts(
    program: Program, ranges: LiveRanges, whole: Sequence[int], first: int, last: int
) -> list[_Part]:
    """Every part between two cuts of a run, as a whole and by rows; at most MOST_CUTS cuts are
    used.

    `whole` are the bytes that calls need as a whole.
    """
    cuts = list(narrow(ranges, first, last))
    if len(cuts) > MOST_CUTS:
        step = -(-(len(cuts) - 1) // (MOST_CUTS - 1))
        cuts = [*cuts[:-1:step], cuts[-1]]
    peaks = RowPeaks(program, ranges, first, last)
    found: list[_Part] = []
    for j, end in enumerate(cuts):
        by_rows = peaks.upto(end, cuts[:j]) if j else {}
        for start in cuts[:j]:
            run = Run(program, start, end - 1, touched=peaks.touched, spans=peaks.spans)
            found += _options(run, max(whole[start:end]), by_rows[start])
    return found


def _options(run: Run, whole: int, nbytes: int) -> Iterator[_Part]:
    """The calls of `run` as a whole and by rows, which take `whole` and `nbytes` bytes; a pushed
    input is read by rows alone.
    """
    program, start, end = run.program, run.first, run.last + 1
    rows = rows_of(run) if end - start > 1 else []
    if program.pushed and not start:
        made = program.base(program.calls[0].writes()[0])[0]
        rows = rows if made in rows else []
    else:
        yield _Part(start, end, whole, 0, False)
    if rows:
        yield _Part(start, end, nbytes, sum(c.macs for c in program.calls[start:end]), True)
