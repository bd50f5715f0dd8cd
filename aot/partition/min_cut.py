# SPDX-License-Identifier: Apache-2.0
"""The cheapest label for every unit, where neighbours with different labels pay for it.

Two labels: a minimum cut, exact for any size. More: branch and bound, exact up to SMALL units;
beyond, the best of several descents, with a proven bound.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Units up to which more than two labels are chosen exactly.
SMALL = 20
#: Steps of branch and bound.
EFFORT = 2_000_000

#: Costs of one unit by label; a label that is not there is impossible.
Unary = Mapping[int, float]
#: (unit, unit) → cost if the first has label a and the second b ≠ a, by (a, b).
Edges = Mapping[tuple[int, int], Mapping[tuple[int, int], float]]


@dataclass(frozen=True, slots=True)
class Choice:
    """A label per unit, what it costs in all, and what no choice can beat."""

    labels: tuple[int, ...]
    total: float
    bound: float

    @property
    def optimal(self) -> bool:
        """Whether nothing is cheaper."""
        return self.total <= self.bound * (1 + 1e-9) + 1e-9


def choose(units: Sequence[Unary], edges: Edges) -> Choice:
    """The cheapest labels. Every unit has at least one."""
    labels = sorted({a for u in units for a in u})
    if len(labels) <= 2:
        found = _cut(units, edges, labels)
        total = total_of(found, units, edges)
        return Choice(tuple(found), total, total)
    best = _descend(units, edges, labels)
    total = total_of(best, units, edges)
    open_ = sum(len(u) > 1 for u in units)
    if open_ <= SMALL:
        found, proven = _branch(units, edges, best, total)
        total = total_of(found, units, edges)
        return Choice(tuple(found), total, total if proven else _bound(units))
    return Choice(tuple(best), total, _bound(units))


def total_of(labels: Sequence[int], units: Sequence[Unary], edges: Edges) -> float:
    """What a choice costs."""
    own = sum(u[a] for u, a in zip(units, labels, strict=True))
    return own + sum(_between(cost, labels[i], labels[j]) for (i, j), cost in edges.items())


def _between(cost: Mapping[tuple[int, int], float], a: int, b: int) -> float:
    return 0.0 if a == b else cost.get((a, b), 0.0)


def _bound(units: Sequence[Unary]) -> float:
    return sum(min(u.values()) for u in units)


def _cut(units: Sequence[Unary], edges: Edges, labels: Sequence[int]) -> list[int]:
    """Two labels: the source's side has the first one. Capacities are costs."""
    if len(labels) == 1:
        return [labels[0]] * len(units)
    first, second = labels
    source, sink = len(units), len(units) + 1
    flow: list[dict[int, float]] = [{} for _ in range(len(units) + 2)]

    def add(tail: int, w: int, capacity: float) -> None:
        if capacity > 0:
            flow[tail][w] = flow[tail].get(w, 0.0) + capacity
            flow[w].setdefault(tail, 0.0)

    for i, unit in enumerate(units):
        add(source, i, unit.get(second, math.inf))  # cut when i has the second label
        add(i, sink, unit.get(first, math.inf))
    for (i, j), cost in edges.items():
        add(i, j, cost.get((first, second), 0.0))
        add(j, i, cost.get((second, first), 0.0))
    side = _reachable(flow, source, sink)
    return [first if i in side else second for i in range(len(units))]


def _reachable(flow: list[dict[int, float]], source: int, sink: int) -> set[int]:
    """Vertices on the source's side of a minimum cut (Dinic's algorithm)."""
    while True:
        level = {source: 0}
        queue = deque([source])
        while queue:
            v = queue.popleft()
            for w, left in flow[v].items():
                if left > 1e-9 and w not in level:
                    level[w] = level[v] + 1
                    queue.append(w)
        if sink not in level:
            return set(level)
        left_over = {v: list(flow[v]) for v in level}
        while _augment(flow, level, left_over, source, sink):
            pass


def _augment(
    flow: list[dict[int, float]],
    level: Mapping[int, int],
    untried: Mapping[int, list[int]],
    source: int,
    sink: int,
) -> bool:
    """Push as much as one path of rising levels takes; False if there is none left."""
    path = [source]
    while path:
        v = path[-1]
        if v == sink:
            steps = list(pairwise(path))
            least = min(flow[a][b] for a, b in steps)
            for a, b in steps:
                flow[a][b] -= least
                flow[b][a] += least
            return True
        while untried[v]:
            w = untried[v][-1]
            if flow[v][w] > 1e-9 and level.get(w) == level[v] + 1:
                path.append(w)
                break
            untried[v].pop()
        else:
            path.pop()
            if path:
                untried[path[-1]].pop()
    return False


def _descend(units: Sequence[Unary], edges: Edges, labels: Sequence[int]) -> list[int]:
    """The best choice that no change of one unit improves, from several starts."""
    near: list[list[tuple[int, int]]] = [[] for _ in units]
    for i, j in edges:
        near[i].append((i, j))
        near[j].append((i, j))
    starts = [[min(u, key=lambda a, u=u: (u[a], a)) for u in units]]  # type: ignore[misc]
    starts += [[a if a in u else min(u, key=u.__getitem__) for u in units] for a in labels]
    best, least = starts[0], math.inf
    for start in starts:
        found = _local_minimum(list(start), units, edges, near)
        total = total_of(found, units, edges)
        if total < least:
            best, least = found, total
    return best


def _local_minimum(
    labels: list[int],
    units: Sequence[Unary],
    edges: Edges,
    near: Sequence[Sequence[tuple[int, int]]],
) -> list[int]:
    def cost(i: int, a: int) -> float:
        around = sum(
            _between(edges[e], a if e[0] == i else labels[e[0]], a if e[1] == i else labels[e[1]])
            for e in near[i]
        )
        return units[i][a] + around

    changed = True
    while changed:
        changed = False
        for i, unit in enumerate(units):
            now = cost(i, labels[i])
            better = min(unit, key=lambda a, i=i: (cost(i, a), a))  # type: ignore[misc]
            if cost(i, better) < now - 1e-9:
                labels[i], changed = better, True
    return labels


def _branch(
    units: Sequence[Unary], edges: Edges, best: list[int], least: float
) -> tuple[list[int], bool]:
    """(the cheapest choice, whether that is proven), by depth-first search with a bound."""
    earlier: list[list[tuple[int, tuple[int, int]]]] = [[] for _ in units]
    for i, j in edges:
        earlier[max(i, j)].append((min(i, j), (i, j)))
    rest = [0.0] * (len(units) + 1)
    for i in range(len(units) - 1, -1, -1):
        rest[i] = rest[i + 1] + min(units[i].values())
    stack: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    steps = 0
    while stack:
        spent, labels = stack.pop()
        i = len(labels)
        if spent + rest[i] >= least - 1e-9:
            continue
        if i == len(units):
            best, least = list(labels), spent
            continue
        steps += 1
        if steps > EFFORT:
            return best, False
        ways = []
        for a, own in units[i].items():
            extra = own
            for other, edge in earlier[i]:
                ends = (a, labels[other]) if edge[0] == i else (labels[other], a)
                extra += _between(edges[edge], *ends)
            ways.append((spent + extra, (*labels, a)))
        stack += sorted(ways, reverse=True)
    return best, True
