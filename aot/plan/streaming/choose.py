# SPDX-License-Identifier: Apache-2.0
"""Which calls to make row by row: as few as a budget allows, or those that need the least memory.

A run is cut where few bytes cross; every part between two cuts is made row by row or as a whole.
Dynamic programming over the cuts finds the parts with the least (bytes, work by rows), or within a
budget the least work by rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.program import Program
from aot.plan.streaming.estimate import LiveRanges, live_ranges_of, narrow, rows_peak, whole_peak
from aot.plan.streaming.runs import rows_of, runs_of, segmented

#: Cuts of one run that are tried at most.
MOST_CUTS = 24


@dataclass(frozen=True, slots=True)
class _Best:
    """How the calls up to a cut are made: the most bytes, what is multiplied by rows, the spans."""

    nbytes: int
    work: int
    spans: tuple[tuple[int, int], ...]


def choose(program: Program, budget: int = 0) -> Program:
    """`program` with the segments that need the fewest bytes; with a budget the cheapest within."""
    ranges = live_ranges_of(program)
    spans: list[tuple[int, int]] = []
    for first, last in runs_of(program)[0]:
        spans += _parts(program, ranges, first, last, budget)
    return segmented(program, spans)


def _parts(
    program: Program, ranges: LiveRanges, first: int, last: int, budget: int
) -> tuple[tuple[int, int], ...]:
    cuts = list(narrow(ranges, first, last))
    if len(cuts) > MOST_CUTS:
        step = -(-(len(cuts) - 1) // (MOST_CUTS - 1))
        cuts = [*cuts[:-1:step], cuts[-1]]
    best = {cuts[0]: _Best(0, 0, ())}
    for j, end in enumerate(cuts[1:], 1):
        found = [
            option
            for start in cuts[:j]
            if start in best
            for option in _options(program, ranges, best[start], start, end)
        ]
        if found:
            best[end] = min(found, key=lambda b: _rank(b, budget))
    return best[cuts[-1]].spans if cuts[-1] in best else ()


def _rank(best: _Best, budget: int) -> tuple[int, int, int]:
    """Within the budget the least work first, else the fewest bytes."""
    return (max(best.nbytes, budget), best.work, len(best.spans))


def _options(
    program: Program, ranges: LiveRanges, before: _Best, start: int, end: int
) -> list[_Best]:
    """Calls `start` to `end` - 1 as a whole and by rows; a pushed input is read by rows alone."""
    rows = rows_of(program, start, end - 1) if end - start > 1 else []
    if program.pushed and not start:
        made = program.base(program.calls[0].writes()[0])[0]
        rows = rows if made in rows else []
    whole = max(before.nbytes, whole_peak(program, ranges, start, end - 1))
    found = [_Best(whole, before.work, before.spans)] if start or not program.pushed else []
    if rows:
        work = before.work + sum(c.macs for c in program.calls[start:end])
        most = max(before.nbytes, rows_peak(program, ranges, start, end - 1))
        found.append(_Best(most, work, (*before.spans, (start, end - 1))))
    return found
