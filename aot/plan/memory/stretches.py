# SPDX-License-Identifier: Apache-2.0
"""What holds which bytes of the arena from when to when: the memory map that reports draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.plan.memory.frame import framed
from aot.plan.memory.live import segments, uses_of
from aot.plan.streaming.unrolled import SUMS, steps_of, unrolled


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes [offset, offset + nbytes) of the arena hold a part of the buffer `root` from call
    `first` to call `last`; -1 is before the first call, the number of calls after the last one.
    """

    root: str
    offset: int
    nbytes: int
    first: int
    last: int


def stretches(program: Program, plan: Plan) -> list[Stretch]:
    """All of them, buffers in the order of their first use, scratch among them.

    A buffer that is written or read in parts has a stretch for each part; where a call may write
    in place, the stretches of both buffers have its bytes. Calls that run row by row take turns:
    a row is in use at each call that runs from the step that makes the row to the last one that
    reads it, and rows of one tensor that follow each other are one stretch.
    """
    rows = unrolled(program)
    whole, calls = framed(rows), steps_of(program)
    shift = len(whole.calls) > len(rows.calls)  # the opening call
    uses = uses_of(whole)
    found: list[Stretch] = []
    by_rows: dict[str, list[Stretch]] = {}
    for root, own in uses.by_root.items():
        name, start = _place(plan, root)
        idle = uses.idle.get(root)
        if start is None:
            continue
        for begin, end, first, last in segments(own, whole.tensors[root].nbytes):
            for a, z in _without(first, last, idle):
                for turn in _turns(calls, a - shift, z - shift):
                    made = Stretch(name, start + begin, end - begin, *turn)
                    (found if name == root else by_rows.setdefault(name, [])).append(made)
    joined = [s for own in by_rows.values() for s in _joined(own)]
    both = sorted(found + joined, key=lambda s: s.first) if joined else found
    return [s for s in both if s.nbytes]


def _place(plan: Plan, root: str) -> tuple[str, int | None]:
    """The tensor of the program that a buffer belongs to, and the buffer's offset in the arena.

    A buffer that is a row, or the first of several, belongs to the tensor of the rows.
    """
    name, _, row = root.rpartition("@")
    places: Mapping[str, Sequence[int]] = plan.rows or {}
    if root in places and root.endswith(SUMS):
        return name, places[root][0]
    if name in places:
        return name, places[name][int(row.partition("-")[0])]
    return root, plan.placements[root].offset if root in plan.placements else None


def _turns(calls: Sequence[int], first: int, last: int) -> list[tuple[int, int]]:
    """The runs of calls, (first, last), that steps `first` to `last` belong to."""
    own = set(calls[max(first, 0) : last + 1])
    own |= ({-1} if first < 0 else set()) | ({max(calls) + 1} if last >= len(calls) else set())
    found: list[tuple[int, int]] = []
    for call in sorted(own):
        begin = found.pop()[0] if found and found[-1][1] == call - 1 else call
        found.append((begin, call))
    return found


def _joined(own: Iterable[Stretch]) -> Iterator[Stretch]:
    """Stretches of one tensor, joined where they touch and are in use at the same calls."""
    before: Stretch | None = None
    for now in sorted(own, key=lambda s: (s.first, s.last, s.offset)):
        end = before.offset + before.nbytes if before else 0
        if before and (before.first, before.last) == (now.first, now.last) and now.offset <= end:
            reach = max(end, now.offset + now.nbytes)
            before = replace(before, nbytes=reach - before.offset)
            continue
        if before:
            yield before
        before = now
    if before:
        yield before


def _without(first: int, last: int, idle: range | None) -> list[tuple[int, int]]:
    """The stretches of [first, last] whose steps are not idle."""
    if idle is None or idle.stop <= first or last < idle.start:
        return [(first, last)]
    parts = [(first, idle.start - 1), (idle.stop, last)]
    return [(a, z) for a, z in parts if a <= z]
