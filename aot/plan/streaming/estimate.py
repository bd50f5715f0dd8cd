# SPDX-License-Identifier: Apache-2.0
"""The bytes that a span of calls needs, row by row or as a whole, before anything is placed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from aot.ir.program import Arg, Program, Role
from aot.plan.memory.frame import framed
from aot.plan.memory.live import uses_of
from aot.plan.streaming.order import Run, of_scratch


@dataclass(frozen=True, slots=True)
class LiveRanges:
    """`of` maps a root in the arena to its first and last call (-1 and the number of calls: what
    holds between runs); `size` are its bytes."""

    of: dict[str, tuple[int, int]]
    size: dict[str, int]

    def across(self, first: int, last: int) -> int:
        """Bytes of what is live through calls `first` to `last` and is touched by none of them."""
        return sum(self.size[n] for n, (a, z) in self.of.items() if a < first and z > last)


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


def whole_peak(program: Program, ranges: LiveRanges, first: int, last: int) -> int:
    """The most bytes live in one of calls `first` to `last`, run on whole tensors.

    A result that may take the place of an operand does; no other bytes are shared.
    """
    most = 0
    for index in range(first, last + 1):
        live = sum(ranges.size[n] for n, (a, z) in ranges.of.items() if a <= index <= z)
        call = program.calls[index]
        own = {program.base(a.tensor)[0]: a for a in call.pointers()}
        scratch = [n for n in own if program.tensors[n].role is Role.SCRATCH]
        most = max(
            most,
            live
            + sum(program.tensors[n].nbytes for n in scratch)
            - _shared(program, ranges, index),
        )
    return most


def _shared(program: Program, ranges: LiveRanges, index: int) -> int:
    """Bytes of the largest result of call `index` that may take the place of an operand that ends
    there.
    """
    call = program.calls[index]
    best = 0
    for out, inp in call.inplace:
        made, read = call.args[out], call.args[inp]
        assert isinstance(made, Arg)
        assert isinstance(read, Arg)
        above, below = program.base(made.tensor)[0], program.base(read.tensor)[0]
        if not {above, below} <= ranges.of.keys():
            continue
        meet = ranges.of[below][1] == ranges.of[above][0] == index
        if meet and ranges.size[above] <= ranges.size[below]:
            best = max(best, ranges.size[above])
    return best


class _Count:
    """Bytes that come and go with the steps of a run."""

    def __init__(self, run: Run, ranges: LiveRanges) -> None:
        """Count bytes of `run`; `change` is by how many bytes each step changes them."""
        self.run, self.program, self.ranges = run, run.program, ranges
        self.steps = self.run.steps()
        self.change = [0] * (len(self.steps) + 1)
        self.rows: dict[str, tuple[int, dict[int, int]]] = {}  # row bytes, row → last step read
        self.born: dict[str, dict[int, int]] = {}
        self.over: dict[tuple[str, int], int] = {}

    def peak(self) -> int:
        """The most bytes live at a step of the run.

        Tensors that live across the run count in full; inputs of the run drain as their rows are
        read.
        """
        self.simulate()
        first, last = self.run.first, self.run.last
        start = self.ranges.across(first, last)
        for root, (a, z) in self.ranges.of.items():
            inside = a <= last and z >= first and not (a < first and z > last)
            # Roots that touch the run but are not made by rows are there as a whole.
            if inside and root not in self.born:
                start += self.ranges.size[root]
                self.drain(root, z <= last)
        for root, born in self.born.items():
            _, z = self.ranges.of.get(root, (0, last + 1))
            if root not in self.ranges.of:
                continue
            # A tensor that is read behind the run fills up row by row and stays.
            if z > last:
                self.change[min(born.values())] += self.ranges.size[root]
            else:
                self.stream(root, born)
        return start + max(accumulate(self.change))

    def simulate(self) -> None:
        """Note at which step each row is made and last read, and the bytes of scratch.

        Fills `rows`, `born` and `change`, from which `peak` sums up the bytes that are live.
        """
        made = dict.fromkeys(range(self.run.first, self.run.last + 1), 0)
        root_of = {i: r for r, calls in self.run.producers.items() for i in calls}
        sizes = {n: t.nbytes for n, t in self.program.tensors.items() if t.role is Role.SCRATCH}
        scratch = {
            i: sum(sizes[n] for n in of_scratch(self.program, c)) for i, c in self.run.calls()
        }
        for t, index in enumerate(self.steps):
            call, step = self.program.calls[index], made[index]
            made[index] += 1
            assert call.rowwise is not None
            for _, root, rows in self.run.needs(index, step):
                reads = self.rows.setdefault(root, (0, {}))[1]
                for row in rows:
                    reads[row] = t
            self.brief(t, scratch[index])
            born = self.born.setdefault(root_of[index], {})
            # A call that sums has one result, in its last step.
            for row in (0,) if call.rowwise.sums else call.rowwise.made(step):
                born.setdefault(row, t)
            if call.rowwise.sums and step == 0:
                # The sums live from the first step to the last.
                self.change[t] += call.rowwise.sums
                self.change[-1] -= call.rowwise.sums

    def brief(self, step: int, nbytes: int) -> None:
        """Count `nbytes` of scratch that exist in `step` alone."""
        self.change[step] += nbytes
        self.change[step + 1] -= nbytes

    def drain(self, root: str, ends: bool) -> None:
        """Free each row of `root`, a whole tensor, after the last step that reads the row.

        `root` is the tensor behind all views; its rows have the same bytes. Nothing is
        freed unless the run `ends` the tensor's live range, or where no row is read, or where
        rows have several pieces.
        """
        if root not in self.rows or not ends or root in self.run.apart:
            return
        reads = self.rows[root][1]
        size = self.ranges.size[root] // (max(reads) + 1)
        for step in reads.values():
            self.change[step + 1] -= size

    def stream(self, root: str, born: dict[int, int]) -> None:
        """Count each row of `root`, a result of the run, from its step to its last reader.

        `born` is the step that makes each row. All rows have the same bytes.
        """
        size = self.ranges.size[root] // len(born)
        reads = self.rows.get(root, (0, {}))[1]
        for row, step in born.items():
            late = self.replaces(root, row, step)
            self.change[step + late] += size
            self.change[max(reads.get(row, step), step) + 1] -= size

    def replaces(self, root: str, row: int, step: int) -> bool:
        """Whether row `row` of `root` takes the place of one that is read for the last time in step
        `step`.
        """
        makers = self.run.producers[root]
        call = self.program.calls[makers[0]]
        for out, inp in call.inplace:
            arg = call.args[inp]
            if out == 0 and len(makers) == 1 and isinstance(arg, Arg):
                below = self.program.base(arg.tensor)[0]
                if below in self.rows and self.rows[below][1].get(row) == step:
                    return (
                        below in self.ranges.of
                        and self.ranges.size[below] >= self.ranges.size[root]
                    )
        return False


def rows_peak(run: Run, ranges: LiveRanges) -> int:
    """The most bytes live in the calls of `run` when they are made row by row."""
    return _Count(run, ranges).peak()


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
