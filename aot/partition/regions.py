# SPDX-License-Identifier: Apache-2.0
"""Regions: the fewest groups of one backend's matches whose quotient graph is acyclic.

A vertex is a match. Portable ones have colour -1 and stay vertices of their own, the others have
the number of their backend. A region need not be connected. A vertex joins a region only when all
it needs is in earlier vertices or in the region itself, so every merge keeps the quotient graph
acyclic; the order returned is the proof, and `check` tests it again by other means.

One backend: the greedy sequence meets the bound, so the result is the minimum. Several: A* proves
the minimum where it ends in time (14 offloaded matches always), else the best of a beam from
either end is returned with a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from aot.partition.limited_regions import SMALL_LIMITED, bound_of, exact_regions, split_regions
from aot.partition.limits import Rule
from aot.partition.region_search import ColouredGraph, State, beam, condensed, exact, in_order

#: Vertices the search may compute (a million take about a second).
EFFORT = 600_000
#: A narrow search comes first: what it finds lets the wide ones leave most states out.
WIDTHS = (1, 8, 64, 256)
#: Offloaded vertices up to which the minimum is found whatever it takes.
SMALL = 14
NO_LIMIT = 1 << 62
#: Why a vertex that fits alone is in no region: it cannot happen but beside other vertices.
NO_PLACE = "no region that it may be in"


@dataclass(frozen=True, slots=True)
class RegionCertificate:
    """How good a partition into regions is.

    `count` offloaded regions were made and no acyclic quotient graph has fewer than `lower_bound`;
    `order` lists the vertices so that every edge points forward and every region is contiguous.
    """

    count: int
    lower_bound: int
    optimal: bool
    order: tuple[int, ...]

    def text(self) -> str:
        """`3 regions (the fewest possible)`."""
        noun = "region" if self.count == 1 else "regions"
        how = "the fewest possible" if self.optimal else f"at least {self.lower_bound} are needed"
        return f"{self.count} {noun} ({how})"


@dataclass(frozen=True, slots=True)
class Regions:
    """The region of every vertex, -1 for portable ones; regions are numbered in their order.

    `given_back` says of vertices that limits leave in no region why, in words that follow a name.
    """

    region: tuple[int, ...]
    certificate: RegionCertificate
    given_back: Mapping[int, str] = field(default_factory=dict)


def merge_regions(
    preds: Sequence[Sequence[int]],
    colours: Sequence[int],
    effort: int = EFFORT,
    rules: Mapping[int, Rule] | None = None,
) -> Regions:
    """Group the vertices of each colour >= 0 into the fewest regions.

    `preds[v]` are the vertices that v needs. `rules` are the limits of the regions of some colours
    (vertices are in topological order then): as few vertices as possible are given back, the others
    get the fewest regions. Raises InternalError if `preds` form a cycle.
    """
    palette = {c: i for i, c in enumerate(sorted({c for c in colours if c >= 0}))}
    dense = [palette.get(c, -1) for c in colours]
    fewer, tints, coloured = condensed(preds, dense)
    found, bound = _fewest(fewer, tints, effort, len(coloured) <= SMALL)
    region = [-1] * len(preds)
    for v, r in zip(coloured, found, strict=False):
        region[v] = r
    if rules:
        within = {palette[c]: rule for c, rule in rules.items() if c in palette}
        return _limited(preds, dense, within, _numbered(preds, region, bound))
    return _numbered(preds, region, bound)


def _numbered(preds: Sequence[Sequence[int]], region: Sequence[int], bound: int) -> Regions:
    """`region` numbered in the order in which the regions run, certified to be at least `bound`
    regions.
    """
    order = quotient_order(preds, region)
    names: dict[int, int] = {}
    for v in order:
        if region[v] >= 0:
            names.setdefault(region[v], len(names))
    numbered = tuple(names.get(r, -1) for r in region)
    certificate = RegionCertificate(len(names), bound, len(names) == bound, tuple(order))
    return Regions(numbered, certificate)


def _limited(
    preds: Sequence[Sequence[int]],
    colours: Sequence[int],
    rules: Mapping[int, Rule],
    free: Regions,
) -> Regions:
    """Regions that keep `rules` (by colour), made of `free`, the fewest that no rule limits.

    A vertex that fits in no region is given back with its reason. Graphs of at most SMALL_LIMITED
    coloured vertices are searched exactly where splitting may not be best.
    """
    region = split_regions(preds, colours, free.region, free.certificate.order, rules)
    coloured = [v for v, c in enumerate(colours) if c >= 0]
    back = [v for v in coloured if region[v] < 0]
    count = len(set(region) - {-1})
    bound = _bound_within(preds, colours, back, rules)
    if (back or count > bound) and len(coloured) <= SMALL_LIMITED:
        region = exact_regions(preds, colours, rules, (len(back), count)) or region
        back = [v for v in coloured if region[v] < 0]
        bound = len(set(region) - {-1})
    why = {v: rules[colours[v]].why_not([v]) or NO_PLACE for v in back}
    return replace(_numbered(preds, region, bound), given_back=why)


def _bound_within(
    preds: Sequence[Sequence[int]],
    colours: Sequence[int],
    back: Sequence[int],
    rules: Mapping[int, Rule],
) -> int:
    """A number of regions that the vertices which are not in `back` need at least.

    Per colour it is the longest chain of stretches on a path, or the bound by sizes (`bound_of`),
    whichever is more.
    """
    left = list(colours)
    for v in back:
        left[v] = -1
    chains = dict(enumerate(ColouredGraph(*condensed(preds, left)[:2]).start().chains))
    for colour in set(left) - {-1}:
        if colour in rules:
            by_size = bound_of(preds, left, colour, rules[colour])
            chains[colour] = max(chains.get(colour, 0), by_size)
    return sum(chains.values())


def _fewest(
    preds: Sequence[Sequence[int]], colours: Sequence[int], effort: int, small: bool
) -> tuple[list[int], int]:
    """(region of every vertex, lower bound on their number), the bound being that number if
    `small`.

    A greedy search comes first, from both ends of the graph; then, while the bound is not reached,
    an exact search, and wider beams as far as `effort` (vertices visited) allows.
    """
    forward = ColouredGraph(preds, colours)
    bound = forward.start().bound
    best = beam(forward, 1, len(preds) + 1)
    assert best is not None, "a beam with no limit always ends"
    if best.length == bound:
        return forward.regions(best.word), bound
    backward = ColouredGraph(forward.after, colours)
    best, winner = _either_end(forward, backward, WIDTHS[1], best, forward)
    if best.length > bound:
        proof = exact(forward, best.length, NO_LIMIT if small else effort // 4)
        bound = max(bound, proof.bound)
        if proof.best is not None:
            best, winner = proof.best, forward
    for width in WIDTHS[2:]:
        likely = width * forward.size * forward.count  # of both ends
        if best.length > bound and forward.visits + backward.visits + likely <= effort:
            best, winner = _either_end(forward, backward, width, best, winner)
    region = winner.regions(best.word)
    if winner is backward:
        region = [r if r < 0 else best.length - 1 - r for r in region]
    return region, bound


def _either_end(
    forward: ColouredGraph, backward: ColouredGraph, width: int, best: State, winner: ColouredGraph
) -> tuple[State, ColouredGraph]:
    """The shorter one of `best` and what beams from both ends of the graph find, and who found it.

    A beam keeps `width` states at each count of regions; the length of a state is its regions.
    """
    for ways in (forward, backward):
        found = beam(ways, width, best.length)
        if found is not None:
            best, winner = found, ways
    return best, winner


def quotient_order(preds: Sequence[Sequence[int]], region: Sequence[int]) -> list[int]:
    """Vertices in a topological order with every region contiguous, else as near to 0, 1, 2 …

    `region[v]` is -1 for a vertex on its own. The quotient graph must be acyclic.
    """
    group = [len(region) + r if r >= 0 else v for v, r in enumerate(region)]
    members: dict[int, list[int]] = {}
    for v, g in enumerate(group):
        members.setdefault(g, []).append(v)
    needs = {g: set[int]() for g in members}
    for v, before in enumerate(preds):
        needs[group[v]].update(group[p] for p in before if group[p] != group[v])
    order: list[int] = []
    for g in in_order(needs, {g: m[0] for g, m in members.items()}):
        inside = {v: {p for p in preds[v] if group[p] == g} for v in members[g]}
        order += in_order(inside, {v: v for v in members[g]})
    return order
