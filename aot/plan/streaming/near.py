# SPDX-License-Identifier: Apache-2.0
"""Another order of calls, in which those that can be made row by row follow each other.

The order with the least memory of whole tensors may put calls between a large value and the one
that reads it, as other branches of a pyramid. Rows are handed on within a run alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from aot.ir.program import Program, Role
from aot.plan.memory.frame import framed, unframed
from aot.plan.memory.live import uses_of
from aot.plan.schedule import dependences, reversed_sets
from aot.plan.streaming.runs import obstacle


def near(program: Program) -> Program:
    """`program` with calls by rows moved next to those whose rows they read or make.

    A call moves up, right behind the last one that it waits for, if it frees as many bytes there
    as it makes, and down, before the first one that waits for it, if it makes more than half of
    what it reads: one operand of the size of its result, but not two.
    Programs with regions of vendors or a pushed input stay as they are.
    """
    if program.pushed or any(c.region != -1 for c in program.calls):
        return program
    whole = framed(program, cyclic=False)
    uses, order = uses_of(whole), list(range(len(whole.calls)))
    succs = reversed_sets(dependences(uses, len(order)))
    waits: list[list[int]] = [[] for _ in order]
    for index, own in enumerate(succs):
        for later in own:
            waits[later].append(index)
    rows = [not obstacle(whole, c) for c in whole.calls]
    users: defaultdict[str, set[int]] = defaultdict(set)
    for root, found in uses.by_root.items():
        users[root] = {u.call for u in found}
    made = [_bytes(whole, c.writes()) for c in whole.calls]
    for call in [i for i in order if rows[i] and waits[i]]:
        to = 1 + max(order.index(i) for i in waits[call])
        done = {call, *order[:to]}
        freed = [n for n in whole.calls[call].reads() if users[whole.base(n)[0]] <= done]
        if rows[order[to - 1]] and made[call] <= _bytes(whole, freed):
            order.remove(call)
            order.insert(to, call)
    for call in [i for i in reversed(order) if rows[i] and succs[i]]:
        if 2 * made[call] > _bytes(whole, whole.calls[call].reads()):
            order.remove(call)
            order.insert(min(order.index(i) for i in succs[call]), call)
    calls = tuple(whole.calls[i] for i in order)
    return program if calls == whole.calls else unframed(replace(whole, calls=calls))


def _bytes(program: Program, names: Iterable[str]) -> int:
    """Bytes in the arena of what owns the memory of tensors."""
    roots = (program.tensors[r] for r in {program.base(n)[0] for n in names})
    return sum(t.nbytes for t in roots if t.role is Role.TEMP)
