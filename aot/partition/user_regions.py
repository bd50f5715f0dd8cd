# SPDX-License-Identifier: Apache-2.0
"""Regions that the user asked for: proven convex, then left as they are while others merge."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from aot.errors import ModelError, raise_all
from aot.partition.limits import Rule, contracted_flow
from aot.partition.region_search import free_of_cycles, readers
from aot.partition.regions import Regions, merge_regions, quotient_order

Preds = Sequence[Sequence[int]]
#: Names shown of a path.
SHOWN = 8
SMALLER = "make the region smaller, or leave the choice to aotc"


def merge_around(
    preds: Preds,
    colours: Sequence[int],
    labels: Sequence[str],
    names: Sequence[str],
    rules: Mapping[int, Rule],
    homes: Sequence[int],
) -> Regions:
    """As `merge_regions`, where the vertices of one label ("" = none) are one region by themselves.

    Each vertex is in the region of the vertex `homes` gives for it, an earlier one or itself, whose
    label it has. Raises ModelError with the path if a labelled region is left and entered again, or
    if such regions need each other; with the limit if the backend does not take the region.
    """
    group, fewer, members = prove_convex(preds, labels, names, homes)
    used: dict[str, int] = {}
    # Colours above all others, so that no match outside joins a user's region.
    first = max((*colours, *rules), default=-1) + 1
    tints = []
    for inside in members:
        label = labels[inside[0]]
        own = first + used.setdefault(label, len(used)) if label else colours[inside[0]]
        tints.append(own)
        if label and colours[inside[0]] in rules:
            why = rules[colours[inside[0]]].why_not(inside)
            raise_all([ModelError(f'region "{label}": {why}', hint=SMALLER)] if why else [])
    # A user's region is one vertex of the contracted problem, hence its limits are contracted too.
    flows = {id(r.flow): contracted_flow(r.flow, members) for r in rules.values()}
    limited = {c: r.contracted(flows[id(r.flow)], members) for c, r in rules.items()}
    found = merge_regions(fewer, tints, rules=limited)
    region = [found.region[g] for g in group]
    certificate = replace(found.certificate, order=tuple(quotient_order(preds, region)))
    back = {members[g][0]: why for g, why in found.given_back.items()}
    return Regions(tuple(region), certificate, back)


def prove_convex(
    preds: Preds, labels: Sequence[str], names: Sequence[str], homes: Sequence[int]
) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Contract the graph to one vertex per labelled region and prove that it has no cycle.

    Returns (contracted vertex of each vertex, predecessors and members of each contracted one).
    Vertices without a label stay single, but one joins the vertex that `homes` gives for it. Raises
    ModelError, with the path, for a cycle: a labelled region is then left and entered again.
    """
    group = _groups(labels, homes)
    fewer, members = _contracted(preds, group)
    cycle = _cycle(fewer, [g for g, m in enumerate(members) if labels[m[0]]])
    if cycle:
        raise _broken(preds, group, labels, names, members, cycle)
    return group, fewer, members


def _groups(labels: Sequence[str], homes: Sequence[int]) -> list[int]:
    """The vertex of the contracted graph of each vertex."""
    number: dict[str | int, int] = {}
    for label, home in zip(labels, homes, strict=True):
        number.setdefault(label or home, len(number))
    return [number[label or home] for label, home in zip(labels, homes, strict=True)]


def _contracted(preds: Preds, group: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """(predecessors, members) of each contracted vertex; `group` has the contracted one per
    vertex.
    """
    needs: list[dict[int, None]] = [{} for _ in range(max(group, default=-1) + 1)]
    members: list[list[int]] = [[] for _ in needs]
    for v, before in enumerate(preds):
        members[group[v]].append(v)
        for p in before:
            if group[p] != group[v]:
                needs[group[v]].setdefault(group[p])
    return [list(n) for n in needs], members


def _cycle(preds: Preds, starts: Sequence[int]) -> list[int]:
    """Vertices of a shortest cycle through one of `starts`, along its edges; [] if there is
    none.
    """
    after = readers(preds)
    stuck = set(range(len(after))).difference(free_of_cycles(after))
    found = [path for v in starts if v in stuck and (path := _path(after, v, v, stuck))]
    return min(found, key=len) if found else []


def _path(after: Preds, start: int, stop: int, inside: set[int]) -> list[int]:
    """A shortest path of at least one edge within `inside`: [start, …], `stop` left out."""
    origin: dict[int, int] = {}
    queue = deque([start])
    while queue:
        v = queue.popleft()
        for s in after[v]:
            if s == stop:
                path = [v]
                while path[-1] != start:
                    path.append(origin[path[-1]])
                return path[::-1]
            if s in inside and s not in origin and s != start:
                origin[s] = v
                queue.append(s)
    return []


def _broken(
    preds: Preds,
    group: Sequence[int],
    labels: Sequence[str],
    names: Sequence[str],
    members: Sequence[Sequence[int]],
    cycle: Sequence[int],
) -> ModelError:
    """The ModelError for a cycle of contracted vertices, spelled with the names of real ones.

    `group` has the contracted vertex per vertex, `members` the reverse, `labels` the user's region
    per vertex ("" for none), `cycle` contracted vertices along its edges. At most SHOWN names are
    listed.
    """
    named = [labels[members[g][0]] for g in cycle if labels[members[g][0]]]
    # The cycle is told from a node of the user's region, the place a user knows.
    turn = next(i for i, g in enumerate(cycle) if labels[members[g][0]])
    ring = [*cycle[turn:], *cycle[:turn], cycle[turn]]
    path: list[str] = []
    for here, there in pairwise(ring):
        # An edge between contracted vertices stands for one between real nodes: name these.
        leave, enter = next((p, v) for v in members[there] for p in preds[v] if group[p] == here)
        if not path or path[-1] != names[leave]:
            path.append(names[leave])
        path.append(names[enter])
    shown = path if len(path) <= SHOWN else [*path[: SHOWN - 2], "…", path[-1]]
    if len(named) == 1:
        what = f'region "{named[0]}" is left and entered again: {" -> ".join(shown)}'
        hint = "a region must hold every node on a path between two of its own"
    else:
        what = f"regions {', '.join(named)} need each other: {' -> '.join(shown)}"
        hint = "split one of them where the path crosses it"
    return ModelError(what, hint=hint)
