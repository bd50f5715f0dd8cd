# SPDX-License-Identifier: Apache-2.0
"""Random coloured graphs, TVM's two region rules in our own words, and two brute forces.

A graph is `preds` (the predecessors of every vertex, vertices in topological order) and `colours`
(-1 portable). A grouping gives every vertex a group number.
"""

from __future__ import annotations

import functools
import random

Graph = tuple[list[tuple[int, ...]], list[int]]

# a=A(x,x); z=N(a); y=C(x2,x2); b=A(a,y); c=C(z,y) in program order.
NAMED: Graph = ([(), (0,), (), (0, 2), (1, 2)], [0, -1, 1, 0, 1])


def random_graph(seed: int, ops: int | None = None) -> Graph:
    """1 to 4 backends, 5 to 100 operators that read up to two of the last values."""
    r = random.Random(seed)
    backends = r.randint(1, 4)
    n = r.randint(5, 100) if ops is None else ops
    window = r.choice((2, 4, 6, 12, 30))
    portable = r.choice((0.0, 0.1, 0.3, 0.5))
    sources = r.choice((0.05, 0.2, 0.4))
    preds: list[tuple[int, ...]] = []
    colours: list[int] = []
    for v in range(n):
        seen = range(max(0, v - window), v)
        picks = sorted({r.choice(seen) for _ in range(2)}) if seen and r.random() > sources else []
        preds.append(tuple(picks))
        colours.append(-1 if r.random() < portable else r.randrange(backends))
    return preds, colours


def is_acyclic(preds: list[tuple[int, ...]], group: list[int]) -> bool:
    """Whether the quotient graph has no cycle, by removing groups that need nothing."""
    needs: dict[int, set[int]] = {g: set() for g in group}
    for v, before in enumerate(preds):
        needs[group[v]] |= {group[p] for p in before} - {group[v]}
    while ready := [g for g in needs if not needs[g]]:
        for g in ready:
            del needs[g]
        for before in needs.values():
            before.difference_update(ready)
    return not needs


def offloaded(group: list[int], colours: list[int]) -> int:
    """How many groups belong to a backend."""
    return len({g for g, c in zip(group, colours, strict=True) if c >= 0})


def relax_rule(graph: Graph) -> list[int]:
    """MergeCompositeFunctions: in program order, with what each group depends on.

    A call joins those groups of its arguments that have its backend and that no argument's group
    depends on. The dependencies of groups seen earlier are not brought up to date: the defect.
    """
    preds, colours = graph
    parent = list(range(len(preds)))

    def find(v: int) -> int:
        while parent[v] != v:
            v = parent[v]
        return v

    deps: dict[int, set[int]] = {v: set() for v in range(len(preds))}
    for v, before in enumerate(preds):
        groups = list(dict.fromkeys(find(p) for p in before))
        barred = {find(d) for g in groups for d in deps[g]}
        joins = [g for g in groups if colours[v] >= 0 and colours[g] == colours[v]]
        joins = [g for g in joins if g not in barred]
        mine = joins[0] if joins else v
        merged = set(deps[mine])
        for g in joins[1:]:
            merged |= deps[g]
            parent[g] = mine
        parent[v] = mine
        for g in groups:
            merged |= {g, *deps[g]} - {mine}
        deps[mine] = {find(d) for d in merged} - {mine}
    return [find(v) for v in range(len(preds))]


def relay_rule(graph: Graph) -> list[int]:
    """MergeCompilerRegions: depth first from the outputs, with restrictions per region."""
    preds, colours = graph
    region = list(range(len(preds)))
    restricted: dict[int, set[int]] = {v: set() for v in range(len(preds))}
    visited: set[int] = set()

    def parents(r: int) -> list[int]:
        found = [region[p] for v in range(len(preds)) if region[v] == r for p in preds[v]]
        return [p for p in dict.fromkeys(found) if p != r]

    def rename(old: int, new: int) -> None:
        for v, r in enumerate(region):
            if r == old:
                region[v] = new
        for names in restricted.values():
            if old in names:
                names.discard(old)
                names.add(new)

    def visit(r: int) -> None:
        if r in visited:
            return
        visited.add(r)
        for p in parents(r):
            visit(p)
        for p in parents(r):
            restricted[r] |= restricted[p]
        for p in parents(r):
            if colours[p] != colours[r] or colours[r] < 0:
                restricted[r].add(p)
        for p in parents(r):
            if colours[p] == colours[r] >= 0 and p not in restricted[r]:
                rename(p, r)

    used = {p for before in preds for p in before}
    for v in range(len(preds)):
        if v not in used:
            visit(region[v])
    return region


def fewest_by_orders(graph: Graph) -> int:
    """Minimum over every topological order of the maximal stretches of one backend."""
    preds, colours = graph
    full = (1 << len(preds)) - 1

    @functools.cache
    def best(done: int, last: int) -> int:
        if done == full:
            return 0
        return min(
            best(done | 1 << v, colours[v]) + (colours[v] >= 0 and colours[v] != last)
            for v, before in enumerate(preds)
            if not done >> v & 1 and all(done >> p & 1 for p in before)
        )

    return best(0, -1)


def fewest_by_groupings(graph: Graph) -> int:
    """Minimum over every way to put offloaded vertices into groups, tested one by one."""
    preds, colours = graph
    n = len(preds)
    least = n

    def place(v: int, group: list[int]) -> None:
        nonlocal least
        if v == n:
            if is_acyclic(preds, group):
                least = min(least, offloaded(group, colours))
            return
        same = {g for u, g in enumerate(group) if colours[u] == colours[v] >= 0}
        for g in [*sorted(same), n + v]:
            place(v + 1, [*group, g])

    place(0, [])
    return least
