# SPDX-License-Identifier: Apache-2.0
"""The bytes that a span of calls needs, row by row or as a whole, before anything is placed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from aot.ir.program import Arg, Program, Role
from aot.plan.memory.frame import framed
from aot.plan.memory.live import uses_of
from aot.plan.streaming.order import Need, Run, Touched, Waits, of_scratch
from aot.plan.streaming.runs import copied_bytes


@dataclass(frozen=True, slots=True)
class LiveRanges:
    """`of` maps a root in the arena to its first and last call (-1 and the number of calls: what
    holds between runs); `size` are its bytes."""

    of: dict[str, tuple[int, int]]
    size: dict[str, int]


def live_ranges_of(program: Program) -> LiveRanges:
    """The live ranges of all roots in the arena but scratch."""
    whole = framed(program)
    shift = len(whole.calls) > len(program.calls)
    found = {
        root: (uses[0].call - shift, uses[-1].call - shift)
        for root, uses in uses_of(whole).by_root.items()
        if program.tensors[root].role is Role.TEMP
    }
    return LiveRanges(found, {n: program.tensors[n].nbytes for n in found})


def whole_peaks(program: Program, ranges: LiveRanges) -> list[int]:
    """For each call the most bytes live in it when it runs on whole tensors.

    A result that may take the place of an operand does; no other bytes are shared.
    """
    change = [0] * (len(program.calls) + 2)
    for root, (a, z) in ranges.of.items():
        change[max(a, 0)] += ranges.size[root]
        change[z + 1] -= ranges.size[root]
    found = []
    for index, (call, live) in enumerate(zip(program.calls, accumulate(change), strict=False)):
        own = (program.tensors[n] for n in {program.base(a.tensor)[0] for a in call.pointers()})
        scratch = sum(t.nbytes for t in own if t.role is Role.SCRATCH)
        found.append(live + scratch - _shared(program, ranges, index))
    return found


def _shared(program: Program, ranges: LiveRanges, index: int) -> int:
    """Bytes of the largest result of call `index` that may take the place of an operand that ends
    there.
    """
    call = program.calls[index]
    best = 0
    for out, inp in call.inplace:
        made, read = call.tensor(out), call.tensor(inp)
        above, below = program.base(made.tensor)[0], program.base(read.tensor)[0]
        if not {above, below} <= ranges.of.keys():
            continue
        meet = ranges.of[below][1] == ranges.of[above][0] == index
        if meet and ranges.size[above] <= ranges.size[below]:
            best = max(best, ranges.size[above])
    return best


class _Touched:
    """What the steps of a call touch, as rows of roots that have numbers.

    `read` are (root, row, step) of all that it reads, `made` is its result, with (row, step);
    `scratch` and `sums` are bytes in one step and from its first to its last. `apart` are roots
    whose rows have several pieces for the call, `below` those whose place its result may take.
    """

    def __init__(self, program: Program, index: int, number: Callable[[str], int]) -> None:
        """Note what call `index` touches; `number` gives a root its number."""
        call, alone = program.calls[index], Run(program, index, index)
        rowwise = call.by_rows
        read = [
            (number(root), row, step)
            for step in range(rowwise.steps)
            for _, root, rows in alone.needs(index, step)
            for row in rows
        ]
        self.read = np.array(read, np.int64).reshape(-1, 3).T
        # The result of sums counts from the first step on.
        steps = range(1 if rowwise.sums else rowwise.steps)
        made = [(r, t) for t in steps for r in ((0,) if rowwise.sums else rowwise.made(t))]
        self.made, self.rows = number(alone.made[0]), np.array(made, np.int64).T
        self.scratch = sum(program.tensors[n].nbytes for n in of_scratch(program, call))
        self.scratch += copied_bytes(program, call)
        self.sums = rowwise.sums
        self.apart = [number(root) for root in alone.apart]
        args = (call.args[inp] for out, inp in call.inplace if out == 0)
        self.below = [number(program.base(a.tensor)[0]) for a in args if isinstance(a, Arg)]


class RowPeaks:
    """The most bytes live in parts of a run of calls that are made row by row."""

    def __init__(self, program: Program, ranges: LiveRanges, first: int, last: int) -> None:
        """Number what calls `first` to `last` touch, and after it all other roots in the arena."""
        self.program, self.first = program, first
        self.known: dict[tuple[int, int], tuple[Need, ...]] = {}
        self.touched: dict[int, Touched] = {}
        self.before: dict[int, Waits] = {}
        self.spans: dict[str, tuple[int, int]] = {}
        numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))
        span = range(first, last + 1)
        self.calls = {i: _Touched(program, i, numbers.__getitem__) for i in span}
        rows = (r for c in self.calls.values() for r in (c.read[1], c.rows[0]))
        self.shape = len(numbers), 1 + max(int(r.max(initial=0)) for r in rows)
        names = [*numbers, *(n for n in ranges.of if n not in numbers)]
        # What is not in the arena has no bytes there.
        self.size = np.array([ranges.size.get(n, 0) for n in names], np.int64)
        self.begin, self.end = np.array([ranges.of.get(n, (0, 0)) for n in names]).T

    def upto(self, end: int, starts: Container[int]) -> dict[int, int]:
        """For each of `starts` the most bytes live in the calls from there to `end` - 1.

        The calls of a part make their rows in the order of the longest part: those in front only
        come in between. So it is ordered once, and one call after the other is put in front.
        """
        run = Run(
            self.program, self.first, end - 1, self.known, self.touched, self.spans, self.before
        )
        steps = np.array(run.steps())
        live = _Live(self, len(steps))
        found = {}
        for index in range(end - 1, self.first - 1, -1):
            live.add(self.calls[index], np.flatnonzero(steps == index))
            if index in starts:
                found[index] = live.peak(index, end - 1)
        return found


class _Live:
    """When rows of `rows` come and go, over `steps` steps; arrays are [roots, rows] of step
    numbers.

    `reads` is the last step that reads a row (-1: none does), `born` the first that makes it
    (`steps`: none does), `change` [steps + 1] the bytes of scratch and sums that come with each
    step. `makers` are the calls that make a root, `apart` tells of which roots a row has several
    pieces.
    """

    def __init__(self, rows: RowPeaks, steps: int) -> None:
        """Begin without calls; `steps` is the number of steps of all calls together."""
        self.rows, self.steps = rows, steps
        self.reads, self.born = np.full(rows.shape, -1), np.full(rows.shape, steps)
        self.change = np.zeros(steps + 1, np.int64)
        self.makers: dict[int, list[_Touched]] = {}
        self.apart = np.zeros(rows.shape[0], bool)

    def add(self, call: _Touched, times: NDArray[np.int64]) -> None:
        """Put a call in front, whose steps are at `times`."""
        root, row, step = call.read
        np.maximum.at(self.reads, (root, row), times[step])
        np.minimum.at(self.born[call.made], call.rows[0], times[call.rows[1]])
        self.change[times] += call.scratch
        self.change[times + 1] -= call.scratch
        self.change[times[0]] += call.sums
        self.change[-1] -= call.sums
        self.makers.setdefault(call.made, []).append(call)
        self.apart[call.apart] = True

    def peak(self, first: int, last: int) -> int:
        """The most bytes live in a step, with calls `first` to `last` added.

        Tensors that live across them count in full. What they read drains as its rows are read,
        unless it is read behind them or its rows have several pieces. A result that is read behind
        them is there as a whole from its first row on, rows of others from their step to their last
        reader.
        """
        known, change = self.rows, self.change.copy()
        begin, end, size = known.begin, known.end, known.size
        count = (self.born < self.steps).sum(1)
        whole = (end > last) & (begin < first)
        whole[: len(count)] |= count == 0
        whole[len(count) :] = True
        start = size[whole & (begin <= last) & (end >= first)].sum()
        size, stays = size[: len(count)], end[: len(count)] > last
        drains = (count == 0) & ~stays & ~self.apart
        there = self.reads >= 0
        rows = there.shape[1] - there[:, ::-1].argmax(1)
        self._count(change, self.reads + 1, there & drains[:, None], -(size // rows))
        fills = (count > 0) & stays
        np.add.at(change, self.born[fills].min(1), size[fills])
        streams = (self.born < self.steps) & ~stays[:, None]
        each = size // np.maximum(count, 1)
        self._count(change, self.born + self._late(), streams, each)
        self._count(change, np.maximum(self.reads, self.born) + 1, streams, -each)
        return int(start + change.cumsum().max())

    @staticmethod
    def _count(
        change: NDArray[np.int64],
        times: NDArray[np.int64],
        mask: NDArray[np.bool_],
        each: NDArray[np.int64],
    ) -> None:
        """Add to `change` the bytes `each` of a row, by root, at the times of those in `mask`."""
        np.add.at(change, times[mask], np.repeat(each, mask.sum(1)))

    def _late(self) -> NDArray[np.bool_]:
        """Which rows take the place of a row that their step reads for the last time."""
        late = np.zeros(self.rows.shape, bool)
        for root, makers in self.makers.items():
            left = np.full(self.rows.shape[1], True)
            for below in makers[0].below if len(makers) == 1 else ():
                hit = left & (self.reads[below] == self.born[root])
                late[root] |= hit & bool(self.rows.size[below] >= self.rows.size[root])
                left &= ~hit
        return late


def narrow(ranges: LiveRanges, first: int, last: int) -> Iterator[int]:
    """Yield the calls before which a run may be cut: its ends, and where no more bytes cross than
    beside.
    """
    cross = [
        sum(ranges.size[n] for n, (a, z) in ranges.of.items() if a < k <= z)
        for k in range(first, last + 2)
    ]
    for k in range(first, last + 2):
        i = k - first
        left = cross[i - 1] if i else cross[i] + 1
        right = cross[i + 1] if i + 1 < len(cross) else cross[i] + 1
        if k in (first, last + 1) or (cross[i] <= left and cross[i] <= right):
            yield k
