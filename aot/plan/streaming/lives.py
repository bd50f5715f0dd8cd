# SPDX-License-Identifier: Apache-2.0
"""When every row of a segment is in memory: what the manifest tells and the report draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.plan.memory.live import uses_of
from aot.plan.streaming.unrolled import SUMS, row_name, unrolled


@dataclass(frozen=True, slots=True)
class RowLives:
    """The rows of a tensor, `nbytes` each: (offset in the arena, first step, last step) of each
    that is ever read or written, with steps of its segment.
    """

    tensor: str
    nbytes: int
    rows: tuple[tuple[int, int, int], ...]

    @property
    def most(self) -> int:
        """The most rows that are in memory at one step."""
        change = Counter(first for _, first, _ in self.rows)
        change.subtract(Counter(last + 1 for _, _, last in self.rows))
        count = found = 0
        for _, step in sorted(change.items()):
            count += step
            found = max(found, count)
        return found


def row_lives(program: Program, plan: Plan) -> Iterator[tuple[RowLives, ...]]:
    """For each segment of `program` its tensors that exist as rows only, and sums."""
    whole = unrolled(program)
    uses = uses_of(whole).by_root
    begin = done = 0
    for segment in program.segments:
        begin += segment.first - done
        done = segment.last + 1
        last = begin + len(segment.steps)
        names = [*segment.tensors]
        made = (program.base(c.writes()[0])[0] for c in program.calls[segment.first : done])
        names += [n + SUMS for n in made if n + SUMS in (plan.rows or {})]
        found = []
        for name in names:
            # Steps are numbered over the whole program; the segment's own begin at `begin`.
            rows, nbytes = [], 0
            for number, offset in enumerate((plan.rows or {})[name]):
                own = name if name.endswith(SUMS) else row_name(name, number)
                nbytes = whole.tensors[own].nbytes
                steps = [u.call - begin for u in uses.get(whole.base(own)[0], ())]
                if steps:
                    rows.append((offset, min(steps), max(steps)))
            found.append(RowLives(name, nbytes, tuple(rows)))
        yield tuple(found)
        begin = last
