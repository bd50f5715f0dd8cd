# SPDX-License-Identifier: Apache-2.0
"""Packing of very many buffers: first fit, again and again, what lay highest first.

Rows are a thousand buffers and more, too many for an exact search. What first fit leaves above the
lower bound was placed too late: it moves to the front of the order, until nothing improves.
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.packing.fit import first_fit, orders
from aot.packing.pack import Buffer, Packing, pack
from aot.packing.problem import Problem, problem_of

#: Buffers that the exact search packs, and rounds of moving to the front otherwise.
MOST_EXACT, ROUNDS = 400, 12
#: Pairs of buffers that all rounds look at, which bounds their time.
MOST_WORK = 3_000_000


def pack_rows(buffers: Sequence[Buffer], effort: int) -> Packing:
    """A packing of `buffers`, which all have a size, within `effort` steps of the exact search.

    Beyond MOST_EXACT buffers it is a first fit. Where the bound is not reached, repaired orders
    follow.
    """
    exact = pack(buffers, effort) if len(buffers) <= MOST_EXACT else None
    if exact and (exact.optimal or not effort):
        return exact
    problem = problem_of(buffers)
    offsets = _repaired(problem, ROUNDS if effort else 0)
    height, bound = problem.height(offsets) * problem.unit, problem.bound * problem.unit
    if exact and height >= exact.height:
        return exact
    places = {b.name: o * problem.unit for b, o in zip(buffers, offsets, strict=True)}
    return Packing(places, height, bound, height == bound)


def _repaired(problem: Problem, rounds: int) -> list[int]:
    """Offsets in units, one per item of `problem`: the lowest packing of a number of rounds.

    The first packing is first fit in the best of some orders. A round puts the items that end above
    the bound first in the order and packs again; every other round moves only the higher half of
    these, which changes the order less. The rounds end when nothing is above the bound.
    """
    bound, height, best, order = problem.bound, 0, list[int](), list[int]()
    for tried in orders(problem):
        offsets = first_fit(problem, tried, height)
        if offsets:
            best, order, height = offsets, tried, problem.height(offsets)
        if height == bound:
            break
    offsets = best
    rounds = min(rounds, max(2, MOST_WORK // (1 + sum(map(len, problem.near)))))
    for turn in range(rounds):
        ends = [o + s for o, s in zip(offsets, problem.size, strict=True)]
        above = sorted((i for i in order if ends[i] > bound), key=lambda i: -ends[i])
        if not above:
            break
        front = above[: max(1, len(above) // 2)] if turn % 2 else above
        moved = set(front)
        order = [i for i in order if i in moved] + [i for i in order if i not in moved]
        offsets = first_fit(problem, order)
        if problem.height(offsets) < height:
            best, height = offsets, problem.height(offsets)
    return best
