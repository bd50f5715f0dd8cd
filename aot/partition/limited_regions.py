# SPDX-License-Identifier: Apache-2.0
"""Regions within limits: as many matches as possible, then in as few regions as possible.

Two ways lead to them. `exact_regions` tries every set of computed vertices, for the smallest
graphs: regions of an acyclic quotient graph can be computed one after the other, so the best way to
have computed a set of vertices depends on nothing but the set. `split_regions` cuts regions made
without limits into runs of a topological order, then joins runs that still fit: every cut and every
join keeps the quotient graph acyclic.

`rules[c]` says which sets of vertices of colour c can be a region; a colour without a rule has no
limits. A vertex that is in no region is given back: it is portable afterwards.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from aot.partition.limits import Extent, Rule
from aot.partition.region_search import in_order, readers

Preds = Sequence[Sequence[int]]
Rules = Mapping[int, Rule]
#: Offloaded vertices up to which the best regions are found whatever it takes.
SMALL_LIMITED = 10
#: Vertices added beyond the last region that fits, in search of a larger one.
LOOK_AHEAD = 24
#: Vertices passed over that would make a region too heavy.
PASSED_OVER = 16
#: Groups looked at behind a region, and regions tried, for another one to join.
REACH, PARTNERS = 300, 12


class Choice(NamedTuple):
    """The best way to have computed a set of vertices; `last` is a region, or one vertex alone."""

    given_back: int
    regions: int
    before: int
    last: int


def exact_regions(
    preds: Preds, colours: Sequence[int], rules: Rules, most: tuple[int, int]
) -> list[int] | None:
    """The region of every vertex, -1 for portable ones and those given back; regions in order.

    None if nothing is better than `most`: (vertices given back, regions).
    """
    # Sets of vertices are integers; with ten or so vertices all 2^n of them can be looked at.
    inside = [v for v, c in enumerate(colours) if c >= 0]
    direct, through = _ancestors(preds, colours, inside)
    full = (1 << len(inside)) - 1
    ways = {0: Choice(0, 0, 0, 0)}
    for done in range(full):
        way = ways.get(done)
        if way is None or way[:2] >= most:
            continue
        steps = [(1, 0, 1 << i) for i in range(len(inside)) if not done >> i & 1]
        # A set may only grow by vertices whose predecessors, also through portable ones, are in it.
        steps = [s for s in steps if not _needs(s[2], direct, through) & ~done]
        for colour in sorted({colours[v] for v in inside}):
            mine = [i for i, v in enumerate(inside) if colours[v] == colour]
            for chosen in _closed(done, mine, direct, through):
                members = [inside[i] for i in range(len(inside)) if chosen >> i & 1]
                if colour not in rules or not rules[colour].why_not(members):
                    steps.append((0, 1, chosen))
        for back, region, chosen in steps:
            # Fewest vertices given back first, then fewest regions: the order of the pair.
            new = Choice(way.given_back + back, way.regions + region, done, chosen)
            old = ways.get(done | chosen)
            if new[:2] < most and (old is None or new[:2] < old[:2]):
                ways[done | chosen] = new
    return _spelled(ways, full, inside, len(preds)) if full in ways else None


def _spelled(ways: Mapping[int, Choice], full: int, inside: Sequence[int], size: int) -> list[int]:
    """The region of each of `size` vertices, -1 for none, by going back from the set `full` to the
    empty one.

    `ways` has the best choice by set of vertices (bits, numbered as in `inside`); where it has one
    region more than the choice before it, the vertices of `last` are that region.
    """
    region = [-1] * size
    at = full
    while at:
        way = ways[at]
        if way.regions > ways[way.before].regions:
            for i, v in enumerate(inside):
                if way.last >> i & 1:
                    region[v] = way.regions - 1
        at = way.before
    return region


def _ancestors(
    preds: Preds, colours: Sequence[int], inside: Sequence[int]
) -> tuple[list[int], list[int]]:
    """(direct, through): bit sets of the vertices of `inside` that each of them needs.

    Bits are numbered as in `inside`. `direct` are needed at once, `through` by way of vertices that
    are not in `inside` (portable ones).
    """
    place = {v: i for i, v in enumerate(inside)}
    reached = [0] * len(preds)  # through portable vertices only
    direct, through = [], []
    for v in in_order({v: set(before) for v, before in enumerate(preds)}, range(len(preds))):
        near = sum(1 << place[p] for p in set(preds[v]) if p in place)
        far = 0
        for p in preds[v]:
            far |= reached[p] if p not in place else 0
        if v in place:
            direct.append((place[v], near))
            through.append((place[v], far))
        else:
            reached[v] = near | far
    return [m for _, m in sorted(direct)], [m for _, m in sorted(through)]


def _needs(chosen: int, direct: Sequence[int], through: Sequence[int]) -> int:
    """The vertices that the highest one of `chosen` needs, directly or through portable ones."""
    i = chosen.bit_length() - 1
    return direct[i] | through[i]


def _closed(
    done: int, mine: Sequence[int], direct: Sequence[int], through: Sequence[int]
) -> Iterator[int]:
    """Every set of vertices out of `mine` that can be computed as one region, now.

    Sets are bit masks over positions in the caller's list of vertices that are not portable;
    `mine` are such positions, in topological order. `done` are computed already. Vertex i needs
    the set `direct[i]` at once, which may be in its own region, and `through[i]` by way of
    portable vertices, which must be done: else the region would be left and entered again.
    """
    stack = [(0, 0)]
    while stack:
        at, chosen = stack.pop()
        if at == len(mine):
            if chosen:
                yield chosen
            continue
        i = mine[at]
        stack.append((at + 1, chosen))
        if not done >> i & 1 and not direct[i] & ~(done | chosen) and not through[i] & ~done:
            stack.append((at + 1, chosen | 1 << i))


def split_regions(
    preds: Preds, colours: Sequence[int], region: Sequence[int], order: Sequence[int], rules: Rules
) -> list[int]:
    """The regions `region` cut until every one fits, then joined where two still fit.

    `order` is topological with every region contiguous. Vertices that fit nowhere get -1.
    """
    after = readers(preds)
    groups: list[tuple[int, list[int]]] = []  # (colour, vertices); in an order they can run in
    start = 0
    while start < len(order):
        v = order[start]
        end = start + 1
        while end < len(order) and region[v] >= 0 and region[order[end]] == region[v]:
            end += 1
        inside, colour = list(order[start:end]), colours[v]
        start = end
        if region[v] < 0 or colour not in rules:
            groups.append((colour if region[v] >= 0 else -1, sorted(inside)))
            continue
        cuts = [_cut(preds, after, inside, rules[colour], near) for near in (True, False)]
        best = min(cuts, key=lambda cut: (sum(not fits for fits, _ in cut), len(cut)))
        groups += [(colour if fits else -1, run) for fits, run in best]
    found = [-1] * len(preds)
    for number, (colour, run) in enumerate(_joined(preds, groups, rules)):
        for v in run if colour >= 0 else ():
            found[v] = number
    return found


def _cut(
    preds: Preds, after: Preds, inside: Sequence[int], rule: Rule, near: bool
) -> list[tuple[bool, list[int]]]:
    """Cut a region, the vertices `inside`, into (whether the backend takes the run, run), in order.

    Each run needs only those before it; it satisfies `rule`, the limits of the backend and its
    own check, or it is a single vertex that the backend does not take. A run grows to the
    readers of its vertices first if `near`, else in the order of the graph. `after` are the
    readers of every vertex.
    """
    left = set(inside)
    waiting = {v: len({p for p in preds[v] if p in left}) for v in inside}
    runs = []
    while left:
        run = _grown(after, left, waiting, rule, near)
        fits = bool(run)
        if not fits:
            run = [min(v for v in left if not waiting[v])]
        left.difference_update(run)
        for s in (s for v in run for s in after[v] if s in waiting):
            waiting[s] -= 1
        runs.append((fits, sorted(run)))
    return runs


def _grown(
    after: Preds, left: set[int], waiting: Mapping[int, int], rule: Rule, near: bool
) -> list[int]:
    """The longest run of vertices found that keeps the limits of `rule`, in the order in which it
    runs.

    The run takes vertices of `left`, each after all those of `left` that it needs; `waiting` counts
    these. With `near`, users of the run's last vertex come first, else the lowest number. The
    search looks LOOK_AHEAD vertices beyond the last run that fits and passes over a number of
    vertices that are too heavy.
    """
    need: dict[int, int] = {}
    extent = Extent(rule.flow)
    far = sorted(v for v in left if not waiting[v])
    close: list[int] = []
    best = passed = checked = 0
    while (far or close) and len(extent.order) - best <= LOOK_AHEAD and passed <= PASSED_OVER:
        v = close.pop() if close else heapq.heappop(far)
        if rule.too_heavy(extent, v):
            passed += 1
            continue
        extent.add(v)
        for s in after[v]:
            if s in left:
                need[s] = need.get(s, waiting[s]) - 1
                if not need[s] and near:
                    close.append(s)
                elif not need[s]:
                    heapq.heappush(far, s)
        size = len(extent.order)
        # Questions about the whole region become rarer as it grows.
        if not rule.excess(extent) and (size <= 64 or size * 16 >= checked * 17 or not far):
            checked = size
            if not rule.refusal(sorted(extent.order)):
                best = size
    return extent.order[:best]


def _joined(
    preds: Preds, groups: list[tuple[int, list[int]]], rules: Rules
) -> list[tuple[int, list[int]]]:
    """`groups` with pairs of regions joined where both fit together and no path leads around them.

    A group is (colour, vertices in order). Groups come back in an order in which each follows those
    that it needs.
    """
    group_of = {v: g for g, (_, run) in enumerate(groups) for v in run}
    needs = [
        {group_of[p] for v in run for p in preds[v]} - {g} for g, (_, run) in enumerate(groups)
    ]
    users: list[set[int]] = [set() for _ in groups]
    for g, before in enumerate(needs):
        for p in before:
            users[p].add(g)
    runs = [list(run) for _, run in groups]
    order = list(range(len(groups)))
    at = 0
    while at < len(order):
        found = _partner(order, at, groups, runs, needs, rules)
        if found is None:
            at += 1
            continue
        place, behind = found
        g, h = order[at], order[place]
        runs[g] = sorted(runs[g] + runs[h])
        for other in users[h] - {g}:
            needs[other] = (needs[other] - {h}) | {g}
        for other in needs[h] - {g}:
            users[other] = (users[other] - {h}) | {g}
        users[g] = (users[g] | users[h]) - {g, h}
        needs[g] = (needs[g] | needs[h]) - {g, h}
        # Groups that need the joined one go behind it; the others may stay in front.
        between = order[at + 1 : place]
        first = [k for k in between if k not in behind]
        order[at : place + 1] = [*first, g, *(k for k in between if k in behind)]
    return [(groups[g][0], runs[g]) for g in order]


def _partner(
    order: Sequence[int],
    at: int,
    groups: Sequence[tuple[int, list[int]]],
    runs: Sequence[list[int]],
    needs: Sequence[set[int]],
    rules: Rules,
) -> tuple[int, set[int]] | None:
    """(place in `order`, groups that need the first) of a group that the one at `at` may take in,
    or None.

    `runs` are the vertices and `needs` the groups needed, by group. At most REACH places are looked
    at and PARTNERS pairs asked about.
    """
    g = order[at]
    rule = rules.get(groups[g][0])
    behind = {g}
    tried = 0
    for place in range(at + 1, min(at + REACH, len(order)) if rule else 0):
        # Groups from `g` on that depend on it: joining past one of them would close a cycle.
        h = order[place]
        around = not needs[h].isdisjoint(behind - {g})
        if rule and groups[h][0] == groups[g][0] and not around:
            both = sorted(runs[g] + runs[h])
            # The cheap test first: the rule of a vendor runs its own code.
            if rule.may_fit(both) and not rule.why_not(both):
                return place, behind
            tried += 1
            if tried == PARTNERS:
                return None
        if around or g in needs[h]:
            behind.add(h)
    return None


def bound_of(preds: Preds, colours: Sequence[int], colour: int, rule: Rule) -> int:
    """A number of regions below which no partition of the vertices of `colour` can be.

    It is, per connected part where regions must be connected, the largest quotient of what the
    vertices have together and what one region may have: operators, bytes of constants, inputs,
    outputs.
    """
    flow, limits = rule.flow, rule.limits
    inside = [v for v, c in enumerate(colours) if c == colour]
    part = {v: v for v in inside}

    def root(index: int) -> int:
        """The representative of the connected part of `index`; paths are halved on the way."""
        while part[index] != index:
            part[index] = index = part[part[index]]
        return index

    # Connected parts by union-find: where regions must be connected, no region spans two of them.
    for v in inside if limits.connected else ():
        for p in preds[v]:
            if p in part:
                part[root(p)] = root(v)
    groups: dict[int, list[int]] = {}
    for v in inside:
        groups.setdefault(root(v) if limits.connected else 0, []).append(v)
    total = 0
    for members in groups.values():
        own = set(members)
        nodes = sum(flow.vertices[v].nodes for v in members)
        held = sum(flow.nbytes[u] for u in {u for v in members for u in flow.vertices[v].constants})
        # Only what crosses the border of all members together must cross that of some region.
        made = {u for v in members for u in flow.vertices[v].makes}
        enter = {u for v in members for u in flow.vertices[v].reads} - made
        leave = {u for u in made if u in flow.results or flow.readers[u] - own}
        shares = (
            (nodes, limits.nodes),
            (held, limits.constant_bytes),
            (len(enter), limits.inputs),
            (len(leave), limits.outputs),
        )
        counts = [-(-have // most) if most else 1 for have, most in shares]
        total += max(1, *counts)
    return total
