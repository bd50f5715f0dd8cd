# SPDX-License-Identifier: Apache-2.0
"""Shortest sequence of regions that computes a graph: the search behind `regions`.

Regions of an acyclic quotient graph can be computed one after the other, so a set of regions is a
word of colours (one letter per region, a colour is a backend). Whatever the word, it never hurts
to compute as much as possible with each letter: what is done only grows. So a state is the set of
vertices left, a step appends a letter, takes every vertex of that colour that needs nothing but
earlier vertices and the region itself, then every colourless vertex that became possible.

The bound: along every path each maximal stretch of one colour is in a region of its own, so the
longest such chain per colour, summed over the colours, is a number of regions still needed. It
falls by at most one per step, hence A* finds the minimum; a beam does where A* takes too long.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aot.errors import InternalError

Word = tuple["Word", int] | None  # (earlier letters, last letter)


class State(NamedTuple):
    """What is left after the letters of `word`.

    `left` is a bit set of vertices, `ready[c]` the vertices of colour c that may start a region,
    `chains[c]` the bound of colour c.
    """

    left: int
    ready: tuple[tuple[int, ...], ...]
    chains: tuple[int, ...]
    length: int
    word: Word

    @property
    def bound(self) -> int:
        """Regions needed in all if this state is on the way: never too many."""
        return self.length + sum(self.chains)


def readers(preds: Sequence[Sequence[int]]) -> list[list[int]]:
    """The vertices that read each vertex, each reader once, ascending."""
    after: list[list[int]] = [[] for _ in preds]
    for v, before in enumerate(preds):
        for p in dict.fromkeys(before):
            after[p].append(v)
    return after


def in_order(
    needs: Mapping[int, Collection[int]], first: Mapping[int, int] | Sequence[int]
) -> list[int]:
    """Keys in topological order; of those possible, the one with the lowest `first`."""
    after: dict[int, list[int]] = {v: [] for v in needs}
    waiting = {v: len(before) for v, before in needs.items()}
    for v, before in needs.items():
        for p in sorted(before):
            after[p].append(v)
    # Kahn's algorithm with a heap, so that the order is the same in every run.
    heap = [(first[v], v) for v, n in waiting.items() if not n]
    heapq.heapify(heap)
    order = []
    while heap:
        _, v = heapq.heappop(heap)
        order.append(v)
        for s in after[v]:
            waiting[s] -= 1
            if not waiting[s]:
                heapq.heappush(heap, (first[s], s))
    return order


def free_of_cycles(after: Sequence[Sequence[int]]) -> list[int]:
    """The vertices that no cycle leads to, in a topological order. `after` has the users of
    each (Kahn's algorithm).
    """
    waiting = [0] * len(after)
    for users in after:
        for s in users:
            waiting[s] += 1
    order = [v for v, n in enumerate(waiting) if not n]
    for v in order:
        for s in after[v]:
            waiting[s] -= 1
            if not waiting[s]:
                order.append(s)
    return order


def topological(after: Sequence[Sequence[int]]) -> list[int]:
    """Vertices in a topological order. `after` has the users of each. InternalError if there is a
    cycle.
    """
    order = free_of_cycles(after)
    if len(order) != len(after):
        raise InternalError("regions of a graph that has a cycle")
    return order


def condensed(
    preds: Sequence[Sequence[int]], colours: Sequence[int]
) -> tuple[list[list[int]], list[int], list[int]]:
    """The same problem with at most one colourless vertex before each coloured one.

    Returns (preds, colours, the given vertex of each coloured vertex); those come first. All that
    matters of colourless vertices is which coloured ones reach which others through them. The
    problem is returned as it is, coloured vertices first, where that takes too many edges.
    Raises InternalError where `preds` have a cycle.
    """
    coloured = [v for v, c in enumerate(colours) if c >= 0]
    place = {v: i for i, v in enumerate(coloured)}
    # What reaches a vertex through colourless ones is a set; shared sets keep memory small.
    reaching: list[frozenset[int]] = [frozenset()] * len(preds)
    # Above this the condensed graph would be larger than the given one.
    edges, most = 0, 20 * len(preds) + 1000
    made: list[list[int]] = [[] for _ in coloured]
    tints = [colours[v] for v in coloured]
    for v in topological(readers(preds)):
        through = [reaching[p] for p in preds[v] if colours[p] < 0]
        direct = [place[p] for p in preds[v] if colours[p] >= 0]
        if colours[v] < 0:
            reaching[v] = frozenset(direct).union(*through)
            edges += len(reaching[v])
            continue
        made[place[v]] = direct
        # One colourless vertex stands for all paths that lead through portable code.
        behind = sorted(frozenset[int]().union(*through))
        if behind:
            made[place[v]] = [*direct, len(made)]
            made.append(behind)
            tints.append(-1)
            edges += len(behind)
        if edges > most:
            return _coloured_first(preds, colours, coloured)
    return made, tints, coloured


def _coloured_first(
    preds: Sequence[Sequence[int]], colours: Sequence[int], coloured: list[int]
) -> tuple[list[list[int]], list[int], list[int]]:
    """(predecessors, colours, order) of the graph with its coloured vertices numbered first.

    The third is `coloured`, the old numbers of the new vertices 0, 1 and so on.
    """
    every = [*coloured, *(v for v, c in enumerate(colours) if c < 0)]
    place = {v: i for i, v in enumerate(every)}
    moved = [[place[p] for p in preds[v]] for v in every]
    return moved, [colours[v] for v in every], coloured


class ColouredGraph:
    """The graph as the search needs it: predecessors as bit sets, chains per colour.

    `visits` counts the vertices computed so far, which is what searches are bounded by.
    """

    def __init__(self, preds: Sequence[Sequence[int]], colours: Sequence[int]) -> None:
        self.size = len(preds)
        self.colours = colours
        self.count = max(colours, default=-1) + 1
        self.after = readers(preds)
        self.needs = [sum(1 << p for p in set(before)) for before in preds]
        self.visits = 0
        self._levels = self._chains()

    def _chains(self) -> list[list[int]]:
        """levels[c][k]: vertices of colour c at which a chain of k + 1 stretches of c starts."""
        levels: list[list[int]] = [[] for _ in range(self.count)]
        # best[v][c]: stretches of c on the best path from v on; open[v]: colours whose longest
        # path begins with v itself, so that a predecessor of that colour adds nothing.
        best: list[list[int]] = [[]] * self.size
        for v in reversed(topological(self.after)):
            own = self.colours[v]
            most = [0] * self.count
            for s in self.after[v]:
                for c, k in enumerate(best[s]):
                    # Within the stretch of v if s has v's colour, a new stretch otherwise.
                    most[c] = max(most[c], k + (c == own and self.colours[s] != own))
            if own >= 0:
                most[own] = max(most[own], 1)
                marks = levels[own]
                marks += [0] * (most[own] - len(marks))
                marks[most[own] - 1] |= 1 << v
            best[v] = most
        return levels

    def start(self) -> State:
        """Nothing computed but the colourless vertices that need no region."""
        ready: list[list[int]] = [[] for _ in range(self.count)]
        free: list[int] = []
        for v, needs in enumerate(self.needs):
            if not needs:
                (free if self.colours[v] < 0 else ready[self.colours[v]]).append(v)
        left = self._run(-1, free, (1 << self.size) - 1, ready, [])
        chains = tuple(len(marks) for marks in self._levels)
        return State(left, tuple(map(tuple, ready)), chains, 0, None)

    def step(self, state: State, colour: int) -> State:
        """The state after one more region of `colour`: all that is ready for it, and colourless
        followers.
        """
        ready = [list(r) for r in state.ready]
        stack, ready[colour] = ready[colour], []
        free: list[int] = []
        left = self._run(colour, stack, state.left, ready, free)
        left = self._run(-1, free, left, ready, [])
        chains = list(state.chains)
        if chains[colour] and not self._levels[colour][chains[colour] - 1] & left:
            chains[colour] -= 1
        word = (state.word, colour)
        return State(left, tuple(map(tuple, ready)), tuple(chains), state.length + 1, word)

    def _run(
        self, colour: int, stack: list[int], left: int, ready: list[list[int]], free: list[int]
    ) -> int:
        """The vertices left (a bit set) after `stack` and all of `colour` that follows are
        computed.

        `stack`, `ready` (by colour) and `free` (colourless) are changed: followers of another
        colour are put there. `left` is the bit set before.
        """
        colours, after, needs = self.colours, self.after, self.needs
        while stack:
            v = stack.pop()
            self.visits += 1
            left ^= 1 << v
            for s in after[v]:
                if needs[s] & left:
                    continue
                c = colours[s]
                (stack if c == colour else free if c < 0 else ready[c]).append(s)
        return left

    def regions(self, word: Word) -> list[int]:
        """The region of every vertex, as an index into the word, -1 for colourless vertices.

        InternalError if the word leaves vertices over.
        """
        letters = spelled(word)
        region = [-1] * self.size
        state = self.start()
        for index, colour in enumerate(letters):
            after = self.step(state, colour)
            done = state.left & ~after.left
            # Bits that a step took away are the vertices of its region, lowest first.
            while done:
                low = done & -done
                v = low.bit_length() - 1
                if self.colours[v] >= 0:
                    region[v] = index
                done ^= low
            state = after
        if state.left:
            raise InternalError("a word of regions leaves vertices over")
        return region


def spelled(word: Word) -> list[int]:
    """The letters of a word, first to last."""
    letters = []
    while word is not None:
        word, letter = word
        letters.append(letter)
    return letters[::-1]


def beam(graph: ColouredGraph, width: int, limit: int) -> State | None:
    """The state with nothing left after the fewest regions found, fewer than `limit`; None if none
    is found.

    For each number of regions the `width` most promising states are kept.
    """
    layer = [graph.start()]
    while layer:
        found: dict[int, State] = {}
        for state in layer:
            if not state.left:
                return state
            for c in range(graph.count):
                if state.ready[c]:
                    new = graph.step(state, c)
                    if new.bound < limit and new.left not in found:
                        found[new.left] = new
        layer = sorted(found.values(), key=lambda s: (s.bound, s.left.bit_count(), s.left))[:width]
    return None


@dataclass(frozen=True, slots=True)
class Exact:
    """What A* found: a shorter word than the limit or none, and a proven bound."""

    best: State | None
    bound: int


def exact(graph: ColouredGraph, limit: int, visits: int) -> Exact:
    """The shortest word if shorter than `limit`, given up after `visits` more vertices.

    `bound` = the minimum when the search ends by itself (`limit` if nothing is shorter).
    """
    # A* over sets of vertices that are left: `bound` is the word so far and what must still come.
    start = graph.start()
    stop = graph.visits + visits
    heap = [(start.bound, 0, 0, start)]
    seen: dict[int, int] = {start.left: 0}
    made = 0
    while heap:
        bound, _, _, state = heapq.heappop(heap)
        if not state.left:
            return Exact(state, bound)
        if graph.visits > stop:
            return Exact(None, bound)
        # A shorter way to the same set was found after this one was queued.
        if seen[state.left] < state.length:
            continue
        for c in range(graph.count):
            if not state.ready[c]:
                continue
            new = graph.step(state, c)
            if new.bound >= limit or seen.get(new.left, new.length + 1) <= new.length:
                continue
            seen[new.left] = new.length
            made += 1
            # Of equal bounds those with fewer vertices left come first: they end the search sooner.
            heapq.heappush(heap, (new.bound, new.left.bit_count(), made, new))
    return Exact(None, limit)
