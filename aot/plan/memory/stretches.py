# SPDX-License-Identifier: Apache-2.0
"""What holds which bytes of the arena from when to when: the memory map that reports draw."""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.plan.memory.frame import framed
from aot.plan.memory.live import segments, uses_of


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
    in place, the stretches of both buffers have its bytes.
    """
    whole = framed(program)
    shift = len(whole.calls) > len(program.calls)  # the opening call
    uses = uses_of(whole)
    found = []
    for root, own in uses.by_root.items():
        if root not in plan.placements:
            continue
        start, idle = plan.placements[root].offset, uses.idle.get(root)
        for begin, end, first, last in segments(own, program.tensors[root].nbytes):
            for a, z in _without(first, last, idle):
                found.append(Stretch(root, start + begin, end - begin, a - shift, z - shift))
    return [s for s in found if s.nbytes]


def _without(first: int, last: int, idle: range | None) -> list[tuple[int, int]]:
    """The stretches of [first, last] whose steps are not idle."""
    if idle is None or idle.stop <= first or last < idle.start:
        return [(first, last)]
    parts = [(first, idle.start - 1), (idle.stop, last)]
    return [(a, z) for a, z in parts if a <= z]
