# SPDX-License-Identifier: Apache-2.0
"""Exact offset assignment: buffers with live ranges into the least contiguous memory.

Deterministic: effort is counted in search steps, never in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aot.packing.fit import first_fit, orders
from aot.packing.problem import Buffer, Problem, problem_of
from aot.packing.search import feasible

__all__ = ["Buffer", "Packing", "pack"]

#: Search steps spent at most; a step is a candidate placement.
EFFORT = 200_000


@dataclass(frozen=True, slots=True)
class Packing:
    """`offsets` in bytes by buffer name; `height` bytes hold them all.

    `lower_bound` is the largest sum of sizes live at one time, each rounded up to the unit (the
    greatest common divisor of all alignments); `height` is a multiple of the unit too. `optimal`
    says that no smaller height exists: it equals the bound, or the search refuted all below.
    """

    offsets: Mapping[str, int]
    height: int
    lower_bound: int
    optimal: bool
    steps: int = 0


def pack(buffers: Sequence[Buffer], effort: int = EFFORT) -> Packing:
    """The best packing found within `effort` search steps; names must be unique.

    With fixed buffers only first fit is used: optimality is then known only at the lower bound.
    ValueError if a buffer is malformed or two fixed buffers overlap.
    """
    real = [b for b in buffers if b.size > 0]
    p = problem_of(real)
    offsets, height = _first_fits(p)
    proven, steps = p.bound, 0
    if height > proven and all(f is None for f in p.fixed):
        offsets, height, proven, steps = _search(p, offsets, effort)
    by_name = {b.name: b.fixed or 0 for b in buffers}
    by_name.update({b.name: o * p.unit for b, o in zip(real, offsets, strict=True)})
    return Packing(by_name, height * p.unit, p.bound * p.unit, height <= proven, steps)


def _first_fits(problem: Problem) -> tuple[list[int], int]:
    """(offsets, height) in units of the lowest first fit over several orders."""
    best: list[int] = []
    height = 0
    for order in orders(problem):
        offsets = first_fit(problem, order, height)
        if offsets:
            best, height = offsets, problem.height(offsets)
        if height == problem.bound:
            break
    return best, height


def _search(problem: Problem, offsets: list[int], effort: int) -> tuple[list[int], int, int, int]:
    """(offsets, height, proven lower bound, steps): at the bound first, then upwards.

    Offsets and heights are in units of the problem, the greatest common divisor of all alignments
    and sizes. `effort` is the most steps of the search.

    A capacity that is refuted raises the bound to the least the search had to exceed it by; one
    that is left open is passed over by halving the gap to the best height known.
    """
    height, proven, steps = problem.height(offsets), problem.bound, 0
    open_up_to = proven - 1
    while max(proven, open_up_to + 1) < height and steps < effort:
        at_bound = open_up_to < proven
        capacity = proven if at_bound else (open_up_to + height) // 2
        share = (effort - steps) // (2 if at_bound else 4)
        answer = feasible(problem, capacity, max(share, 1))
        steps += answer.steps
        if answer.offsets is not None:
            offsets, height = answer.offsets, problem.height(answer.offsets)
        elif answer.needed is not None:
            proven = min(max(answer.needed, capacity + 1), height)
        else:
            open_up_to = capacity
    return offsets, height, proven, steps
