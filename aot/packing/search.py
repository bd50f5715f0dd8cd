# SPDX-License-Identifier: Apache-2.0
"""Exact search: does a packing of at most `capacity` units exist?

Depth first over settled packings (every buffer rests on the floor or on another). Buffers are
placed in ascending order of (offset, rank). A buffer whose height varies in time stands on its
full width and raises each neighbour by its greatest height beside it. What prunes:

- section bound: the lowest offset any unplaced buffer of a section can have plus the units it
  still has to hold must fit under the capacity;
- dominance: nothing is placed at or above the top of an unplaced buffer that could slip below it;
- refutation: once a buffer was tried at its resting place in vain, it must rest on a neighbour
  that is still unplaced, which raises its lowest offset for all later alternatives;
- a buffer whose placement raises no other needs no alternative;
- parts of the time axis that no unplaced buffer connects are solved one by one.

Section bound, dominance and the decomposition are published ideas (MiniMalloc, 2023).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aot.packing.problem import Problem

#: (order of keys, whether a part is ranked anew when it splits off); tried in turn.
VARIANTS = (
    ("TWA", True),
    ("TWA", False),
    ("TAW", False),
    ("TAW", True),
    ("WAT", False),
    ("WAT", True),
)
#: Steps for each variant in the first round; every round has twice as many, so that a variant that
#: is stuck costs little before another one is tried.
FIRST_BUDGET = 4000
#: Larger than every place and size, so that the first one found is less.
_NEVER = 1 << 62


class OutOfSteps(Exception):
    """The step budget of one search is used up."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`offsets` if a packing was found; else the least capacity not ruled out (None: unknown)."""

    offsets: list[int] | None
    needed: int | None
    steps: int


def feasible(problem: Problem, capacity: int, effort: int) -> Answer:
    """A packing within `capacity` units, a proof that there is none, or neither after `effort`
    steps.

    Every variant of the search is tried, with budgets that double. After a proof the answer has the
    least capacity that the search found to be needed.
    # Independent parts recurse, and a part may be as deep as there are buffers.
    """
    spent, budget = 0, FIRST_BUDGET
    with _deep_recursion(len(problem.size)):
        # Variants differ in luck, not in power: short tries of all come before long ones of one.
        while spent < effort:
            for keys, rerank in VARIANTS:
                search = _Search(problem, capacity, keys, rerank, min(budget, effort - spent))
                try:
                    found = search.run()
                except OutOfSteps:
                    spent += search.steps
                    if spent >= effort:
                        break
                    continue
                spent += search.steps
                if found:
                    # A search that ends by itself has either a packing or a proof.
                    return Answer(search.support, None, spent)
                return Answer(None, search.needed, spent)
            budget *= 2
    return Answer(None, None, spent)


@contextmanager
def _deep_recursion(depth: int) -> Iterator[None]:
    """The search recurses once per buffer."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 2 * depth + 1000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _crossings(problem: Problem) -> list[int]:
    """For every section the buffers that are live in it and in the one before."""
    first = problem.first
    return [sum([first[i] < t for i in live]) for t, live in enumerate(problem.live)]


class _Search:
    """One depth-first search. All state is undone through `trail`.

    `support[i]` is the top of what is placed below buffer i (its resting place), `low[i]` >= it
    the lowest offset not refuted. `floor[t]` is the least `low` of section t's unplaced buffers,
    `rest[t]` the units it still has to hold, `cross[t]` the unplaced buffers live on both sides of
    the boundary before section t.
    """

    def __init__(
        self, problem: Problem, capacity: int, keys: str, rerank: bool, budget: int
    ) -> None:
        """A search for a packing of `problem` within `capacity` units, in at most `budget` steps.

        `keys` are letters of `_key`, `rerank` renews the ranks in each part. Per buffer: `support`
        is the lowest place above those placed, `low` the lowest it may get at all. Per section:
        `rest` are units not placed yet, `floor` the lowest place left.
        """
        n = len(problem.size)
        self.p, self.capacity, self.keys, self.rerank = problem, capacity, keys, rerank
        self.budget, self.steps, self.needed = budget, 0, _NEVER
        self.aligned = any(a != 1 for a in problem.align)
        self.placed = [False] * n
        self.support, self.low, self.rank = [0] * n, [0] * n, [0] * n
        self.rest = problem.totals[:]
        self.floor = [0] * len(problem.live)
        self.cross = _crossings(problem)
        self.trail: list[tuple[int, list[tuple[int, int, int]], list[int], int]] = []

    def run(self) -> bool:
        """Whether a packing exists; it is then in `support`."""
        p = self.p
        over = max(self.rest, default=0)
        if over > self.capacity:
            self.needed = over
            return False
        items = sorted(range(len(p.size)), key=lambda buffer: (p.first[buffer], buffer))
        self._rank(items)
        return self._solve_parts(items)

    def _rank(self, items: list[int]) -> None:
        """Number `items` by `_key`: of buffers with equal offsets the lower rank is tried first."""
        for k, i in enumerate(sorted(items, key=self._key)):
            self.rank[i] = k

    def _key(self, buffer: int) -> tuple[int, ...]:
        """The key of a buffer, largest first: T most units left in its sections, W length of life,
        A area.
        """
        p = self.p
        crowd = max(self.rest[p.first[buffer] : p.last[buffer]])
        values = {"T": crowd, "W": p.width[buffer], "A": p.width[buffer] * p.size[buffer]}
        return (*(-values[k] for k in self.keys), buffer)

    def _parts(self, items: list[int]) -> list[list[int]]:
        """`items`, ascending by first section, split where nothing unplaced connects them; smallest
        first.
        """
        first, last = self.p.first, self.p.last
        parts: list[list[int]] = []
        part: list[int] = []
        end = -1
        for i in items:
            if first[i] >= end and part:
                parts.append(part)
                part = []
            part.append(i)
            end = max(end, last[i])
        parts.append(part)
        return sorted(parts, key=len)

    def _solve_parts(self, items: list[int]) -> bool:
        """Whether all parts of `items` can be placed, each by itself."""
        parts = self._parts(items)
        if len(parts) == 1:
            return self._solve(items)
        ranks = self.rank[:] if self.rerank else None
        for part in parts:
            if self.rerank:
                self._rank(part)
            if not self._solve(part):
                if ranks:
                    self.rank[:] = ranks
                return False
        return True

    def _solve(self, items: list[int]) -> bool:
        """Whether all of `items`, which are connected, can be placed; on failure all is as before.

        OutOfSteps when the budget is used up.
        """
        begin = len(self.trail)
        placed = self.placed
        # Steps are counted by work done, so that the budget is the same on every machine.
        self.steps += len(items) >> 3
        for o, _, i in self._candidates(items):
            self.steps += 3 + (len(self.p.near[i]) >> 2)
            if self.steps > self.budget:
                raise OutOfSteps
            mark = len(self.trail)
            free, fits = self._place(i, o)
            if fits:
                others = [j for j in items if not placed[j]]
                if not others:
                    return True
                p = self.p
                # Where no buffer crosses a section any more, the parts on both sides are
                # independent.
                split = 0 in self.cross[p.first[i] + 1 : p.last[i]]
                if self._solve_parts(others) if split else self._solve(others):
                    return True
            self._undo(mark)
            # A buffer that raised nothing could not have been placed better: other offsets are no
            # use.
            if free or not self._refute(i, o):
                break
        self._undo(begin)
        return False

    def _candidates(self, items: list[int]) -> list[tuple[int, int, int]]:
        """(offset, rank, buffer) of what may be placed next, ascending."""
        p, low, support, rank, size = self.p, self.low, self.support, self.rank, self.p.size
        slip = min([support[i] + size[i] for i in items])
        begin, end = p.first[items[0]], max([p.last[i] for i in items])
        most = max(self.rest[begin:end])
        found = sorted(
            [(low[i], rank[i], i) for i in items if low[i] == support[i] and low[i] < slip]
        )
        highest = self.capacity - most
        if found and found[-1][0] > highest:
            over = next(k for k, c in enumerate(found) if c[0] > highest)
            self.needed = min(self.needed, found[over][0] + most)
            return found[:over]
        return found

    def _place(self, buffer: int, offset: int) -> tuple[bool, bool]:
        """Place `buffer` at `offset`: (it raised no other, every section still fits)."""
        p, low, support, placed, floor = self.p, self.low, self.support, self.placed, self.floor
        size, top = p.size[buffer], offset + p.size[buffer]
        a, b = p.first[buffer], p.last[buffer]
        reach = p.reach[buffer]
        # Only sections whose floor a raised buffer touches are looked at again.
        begin, end = a, b
        placed[buffer] = True
        raised: list[tuple[int, int, int]] = []
        free = True
        for j in p.near[buffer]:
            if reach is not None:
                top = offset + reach[j]
            if not placed[j] and support[j] < top:
                x = low[j]
                raised.append((j, x, support[j]))
                seat = p.aligned(j, top) if self.aligned else top
                support[j] = seat
                if x < seat:
                    low[j] = seat
                    free = False
                    begin, end = min(begin, p.first[j]), max(end, p.last[j])
        self.trail.append((buffer, raised, floor[begin:end], begin))
        rest = self.rest
        for t, height in enumerate(p.profile[buffer] or [size] * (b - a), a):
            rest[t] -= height
            if floor[t] < offset + height:
                floor[t] = offset + height
        for t in range(a + 1, b):
            self.cross[t] -= 1
        if free:
            return True, True
        if reach is not None:
            return False, self._raise_floors(begin, end, offset + size)
        return False, self._raise_floors(begin, a, top) and self._raise_floors(b, end, top)

    def _raise_floors(self, begin: int, end: int, top: int) -> bool:
        """Recompute floors below `top` in sections `begin` to `end` - 1; False if one no longer
        fits.
        """
        floor, low, placed, live = self.floor, self.low, self.placed, self.p.live
        for t in range(begin, end):
            f = floor[t]
            if f >= top:
                # Floors only rise: those that reach the new top already are right.
                continue
            least = _NEVER
            for j in live[t]:
                if not placed[j]:
                    x = low[j]
                    if x <= f:
                        break
                    if x < least:
                        least = x
            else:
                if self.rest[t]:
                    floor[t] = least
                    # All that is left must be above the lowest floor: if it exceeds the capacity,
                    # this is a dead end.
                    if least + self.rest[t] > self.capacity:
                        self.needed = min(self.needed, least + self.rest[t])
                        return False
        return True

    def _refute(self, buffer: int, offset: int) -> bool:
        """Buffer i does not rest at `offset`: raise it; False if its sections no longer fit."""
        p, low, placed = self.p, self.low, self.placed
        a, b = p.first[buffer], p.last[buffer]
        seat = min([low[k] + p.above(k, buffer) for k in p.near[buffer] if not placed[k]])
        seat = p.aligned(buffer, max(seat, offset + 1))
        self.trail.append((-1, [(buffer, offset, self.support[buffer])], self.floor[a:b], a))
        low[buffer] = seat
        return self._raise_floors(a, b, offset + 1)

    def _undo(self, mark: int) -> None:
        """Take back the steps of the trail behind its first `mark` ones, the last first: bounds and
        floors get their old values, and a buffer that was placed is to be placed again."""
        trail, p = self.trail, self.p
        while len(trail) > mark:
            i, raised, floors, begin = trail.pop()
            for j, low, support in raised:
                self.low[j] = low
                self.support[j] = support
            self.floor[begin : begin + len(floors)] = floors
            if i < 0:
                continue
            self.placed[i] = False
            a, b, size = p.first[i], p.last[i], p.size[i]
            for t, height in enumerate(p.profile[i] or [size] * (b - a), a):
                self.rest[t] += height
            for t in range(a + 1, b):
                self.cross[t] += 1
