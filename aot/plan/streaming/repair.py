# SPDX-License-Identifier: Apache-2.0
"""Packing of very many buffers: first fit, again and again, what lay highest first.

Rows are a thousand buffers and more, too many for an exact search. What first fit leaves above the
lower bound was placed too late: it moves to the front of the order, until nothing improves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aot.plan.memory.fit import first_fit, orders
from aot.plan.memory.pack import Buffer, Packing, pack
from aot.plan.memory.problem import Problem, problem_of

#: Buffers that the exact search packs, and rounds of moving to the front otherwise.
MOST_EXACT, ROUNDS = 400, 12


def pack_rows(buffers: Sequence[Buffer], effort: int) -> Packing:
    """A packing of `buffers`, which all have a size, within `effort` steps of the exact search.

    Beyond MOST_EXACT buffers it is a first fit. Where the bound is not reached, repaired orders
    follow.
    """
    found = pack(buffers, effort if len(buffers) <= MOST_EXACT else 0)
    if found.height == found.lower_bound or not effort:
        return found
    problem = problem_of(buffers)
    offsets = _repaired(problem)
    height = problem.height(offsets) * problem.unit
    if height >= found.height:
        return found
    places = {b.name: o * problem.unit for b, o in zip(buffers, offsets, strict=True)}
    optimal = height == found.lower_bound
    return replace(found, offsets=places, height=height, optimal=optimal)


def _repaired(problem: Problem) -> list[int]:
    """Offsets in bytes, one per item of `problem`: the lowest packing of a number of rounds.

    The first packing is first fit in the best of some orders. A round puts the items that end above
    the bound first in the order and packs again; every other round moves only the higher half of
    these, which changes the order less. The rounds end when nothing is above the bound.
    """
    fits = ((first_fit(problem, order), order) for order in orders(problem))
    best, order = min(fits, key=lambda fit: problem.height(fit[0]))
    offsets = best
    for turn in range(ROUNDS):
        ends = [o + s for o, s in zip(offsets, problem.size, strict=True)]
        above = sorted((i for i in order if ends[i] > problem.bound), key=lambda i: -ends[i])
        if not above:
            break
        front = above[: max(1, len(above) // 2)] if turn % 2 else above
        moved = set(front)
        order = [i for i in order if i in moved] + [i for i in order if i not in moved]
        offsets = first_fit(problem, order)
        if problem.height(offsets) < problem.height(best):
            best = offsets
    return best
