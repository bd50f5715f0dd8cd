# SPDX-License-Identifier: Apache-2.0
"""The least cost of a `Problem`: nodes in order, and all that matters of what was chosen before.

A node is left open or is the last one of a tile, whose other nodes were left open. What has been
chosen matters by the nodes open, by what is known of values that are still read (`Known`), and by
the regions that later tiles may still join: of the ways that agree in all this the cheapest is
kept. A tile may join a region unless one of its operands needs the region from outside; then a
cycle would close. A region that all values behind it need is never joined again and is forgotten.

The search is exact while it keeps every way. It keeps the `width` cheapest at each node, and more
the smaller the problem is; what it drops can cost no less than the bound that it returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from aot.partition.cost.problem import Problem, Solution, Tile

#: Steps of the search (a million take less than a minute), and regions that may be joined.
EFFORT, MOST_OPEN = 600_000, 12
#: Sets of open nodes that are told apart at a node.
MOST_SETS = 256
WIDTHS = (1, 8, 64, 512, 4096, 32_768)
_ROUNDING = 1e-9


#: Set of open nodes → each tile that may follow (-1: the node is left open), and the set then open.
Moves = dict[int, list[tuple[int, int]]]


class Known(NamedTuple):
    """What matters of a value: the region it is in (-1: none) and a set of those it needs.

    `layout` is what it is stored in, `maker` the backend that made it, `copies` are the layouts it
    was converted to, `base` is the value whose memory it shows.
    """

    home: int
    needs: int
    layout: int
    maker: int
    copies: frozenset[int]
    base: int


class Passage(NamedTuple):
    """The region that holds a value, what it costs to get it out for the first time, and the set of
    regions that have a copy of it."""

    home: int
    owed: float
    copied: int


class Region(NamedTuple):
    """A region that may be joined; `place` is its bit in sets, `needs` the set of those before."""

    place: int
    number: int
    owner: int
    label: str
    needs: int


class Way(NamedTuple):
    """One way to compute the nodes so far; `cost` includes the least that tiles cost for the rest.

    `open` is the set of nodes that a later tile is to cover.
    """

    cost: float
    open: int
    values: dict[int, Known]
    passages: dict[int, Passage]
    regions: tuple[Region, ...]
    begun: int
    before: tuple[Way, int, int] | None


class Step(NamedTuple):
    """A tile that a way is continued with, in `region` (None: the way leaves the node open)."""

    cost: float
    way: Way
    tile: int = -1
    region: Region | None = None
    values: tuple[tuple[int, Known], ...] = ()
    passages: tuple[tuple[int, Passage], ...] = ()


def solve(problem: Problem, effort: int = EFFORT) -> Solution | None:
    """The cheapest solution found, with the best bound found; None if no tiles cover the graph.

    Beams of growing width are tried until one is proven, or until the next would need more than
    `effort` steps in all.
    """
    search = Search(problem)
    best, spent = None, 0
    for width in WIDTHS:
        found = search.run(width, best)
        spent, best = spent + search.steps, found or best
        # The next width takes about eight times as many steps.
        if (best is not None and best.bound >= best.total) or spent * 8 > effort:
            break
    return best


class Search:
    """The search on one problem; `steps` counts the ways that the last run looked at."""

    def __init__(self, problem: Problem) -> None:
        """Prepare `problem`: moves per node, bounds of what is left, and readers of each value as
        bit sets.

        `_tracked` says per owner whether it matters which region a tile is in (entering or borders
        cost).
        """
        self.problem = problem
        self.steps = 0
        self._tracked = [bool(e or b) for e, b in zip(problem.enter, problem.border, strict=True)]
        self._bordered = any(problem.border)
        self._moves, self._left, self._cut = self._planned()
        self._last = [max(r, default=-1) for r in problem.readers]
        self._reading = [sum(1 << r for r in rs) for rs in problem.readers]

    def _planned(self) -> tuple[list[Moves], list[dict[int, float]], bool]:
        """(what each set of open nodes can be followed by at each node, the least that tiles cost
        from there on, whether sets were left out).

        What comes to a dead end is not among them.
        """
        problem = self.problem
        ending: list[list[int]] = [[] for _ in range(problem.nodes)]
        latest = list(range(problem.nodes))
        maker: dict[int, int] = {}
        for i, tile in enumerate(problem.tiles):
            ending[tile.covers[-1]].append(i)
            maker.update(dict.fromkeys(tile.makes, tile.covers[-1]))
            for node in tile.covers:
                latest[node] = max(latest[node], tile.covers[-1])
        expiring: list[list[int]] = [[] for _ in range(problem.nodes)]
        for node, last in enumerate(latest):
            expiring[last].append(node)
        inner = [sum(1 << n for n in t.covers[:-1]) for t in problem.tiles]
        read = [sum(1 << maker[v] for v in t.reads if v in maker) for t in problem.tiles]
        cut, sets, moves = False, {0}, list[Moves]()
        for node in range(problem.nodes):
            due = sum(1 << n for n in expiring[node])
            after: Moves = {}
            for open_ in sets:
                found = [
                    (i, open_ & ~inner[i])
                    for i in ending[node]
                    if not inner[i] & ~open_ and not read[i] & open_
                ]
                found += [(-1, open_ | 1 << node)] if latest[node] > node else []
                after[open_] = [(i, rest) for i, rest in found if not rest & due]
            moves.append(after)
            every = sorted({r for found in after.values() for _, r in found}, key=int.bit_count)
            sets, cut = set(every[:MOST_SETS]), cut or len(every) > MOST_SETS
        left: list[dict[int, float]] = [{0: 0.0}]
        for after in reversed(moves):
            least = {}
            for open_, found in after.items():
                found[:] = [(i, rest) for i, rest in found if rest in left[-1]]
                costs = [left[-1][r] + (problem.tiles[i].cost if i >= 0 else 0) for i, r in found]
                if costs:
                    least[open_] = min(costs)
            left.append(least)
        return moves, left[::-1], cut

    def least(self) -> float:
        """What no solution can cost less than."""
        if not self._cut:
            return self._left[0].get(0, inf)
        shares = [inf] * self.problem.nodes
        for tile in self.problem.tiles:
            for node in tile.covers:
                shares[node] = min(shares[node], tile.cost / len(tile.covers))
        return sum(shares)

    def run(self, width: int, best: Solution | None) -> Solution | None:
        """The cheapest solution that keeping `width` ways finds, or `best`; None without one.

        Ways that cost as much as `best` are given up; its bound is never lost.
        """
        self.steps = 0
        upper = inf if best is None else best.total * (1 - _ROUNDING)
        dropped = inf if best is None else best.total
        ways = [self._start()] if 0 in self._left[0] else []
        for node in range(self.problem.nodes):
            steps = [s for way in ways for s in self._continued(way, node) if s.cost < upper]
            steps.sort(key=lambda s: s.cost)
            self.steps += len(steps)
            kept: dict[object, Way] = {}
            for step in steps:
                if len(kept) == width:
                    dropped = min(dropped, step.cost)
                    break
                way, exact = self._taken(step, node)
                dropped = dropped if exact else min(dropped, step.cost)
                known = tuple(way.values.items()), tuple(way.passages.items())
                joinable = tuple((r.place, r.owner, r.label, r.needs) for r in way.regions)
                kept.setdefault((way.open, known, joinable), way)
            ways = list(kept.values())
        bound = self.least() if self._cut else max(dropped, self.least())
        if not ways:
            return None if best is None else replace(best, bound=max(best.bound, bound))
        way = min(ways, key=lambda w: w.cost)
        bound = min(bound, way.cost)
        return Solution(*_traced(way), way.cost, bound if best is None else max(bound, best.bound))

    def _start(self) -> Way:
        """The way before the first node: no node is open, no region begun, nothing paid but the
        least that tiles cost for all nodes; inputs that somebody reads are in no region."""
        inputs = self.problem.inputs
        values = {v: Known(-1, 0, 0, -1, frozenset(), v) for v in inputs if self._last[v] >= 0}
        passages = dict.fromkeys(values, Passage(-1, 0.0, 0)) if self._bordered else {}
        return Way(self._left[0][0], 0, values, passages, (), 0, None)

    def _continued(self, way: Way, node: int) -> Iterator[Step]:
        """Every way to go on at a node that leaves no node open for good."""
        left, before = self._left[node + 1], self._left[node][way.open]
        for index, open_ in self._moves[node].get(way.open, ()):
            cost = way.cost + left[open_] - before
            if index < 0:
                yield Step(cost, way)
            else:
                yield from self._placed(way, index, cost + self.problem.tiles[index].cost)

    def _placed(self, way: Way, index: int, cost: float) -> Iterator[Step]:
        """Yield the steps that place tile `index`: in each region that it may join, in a new one,
        or in none.

        `cost` are nanoseconds of `way` with the tile itself; conversions and entering are added. A
        region cannot be joined if an operand needs it by way of something outside.
        """
        tile = self.problem.tiles[index]
        spent, values, made = self._laid_out(way, index)
        cost, knowns = cost + spent, [way.values[v] for v in tile.reads]
        if tile.held is not None:
            yield self._viewed(way, index, cost, values, made)
            return
        needs = _closure(way.regions, _union(k.needs | _bit(k.home) for k in knowns))
        if not self._tracked[tile.owner]:
            yield self._put(way, index, cost, None, (-1, needs), (values, made))
            return
        kind = tile.owner, tile.label
        for region in (r for r in way.regions if (r.owner, r.label) == kind):
            outer = (k.needs | _bit(k.home) for k in knowns if k.home != region.place)
            before = _closure(way.regions, _union(outer))
            if not before >> region.place & 1:
                joined, here = region._replace(needs=region.needs | before), region.place
                yield self._put(way, index, cost, joined, (here, 1 << here), (values, made))
        used = {r.place for r in way.regions}
        # Places of regions that are finished are used again, so sets of regions stay small.
        place = next(i for i in range(len(used) + 1) if i not in used)
        fresh = Region(place, way.begun, *kind, needs)
        cost += self.problem.enter[tile.owner]
        yield self._put(way, index, cost, fresh, (place, 1 << place), (values, made))

    def _put(
        self,
        way: Way,
        index: int,
        cost: float,
        region: Region | None,
        results: tuple[int, int],
        laid: tuple[tuple[tuple[int, Known], ...], Sequence[int]],
    ) -> Step:
        """The step that puts tile `index` in `region`, or in none (None), with border copies added
        to `cost`.

        `results` are (place of the region, set of regions needed) of each value that the tile
        makes; `laid` are (values that were converted, layouts of values made).
        """
        tile = self.problem.tiles[index]
        more, passages = self._passed(way, tile, region)
        made = [
            (v, Known(*results, layout, tile.owner, frozenset(), v))
            for v, layout in zip(tile.makes, laid[1], strict=True)
        ]
        return Step(cost + more, way, index, region, (*laid[0], *made), passages)

    def _viewed(
        self,
        way: Way,
        index: int,
        cost: float,
        values: tuple[tuple[int, Known], ...],
        made: Sequence[int],
    ) -> Step:
        """The step of a view: it goes where its operand is if `held` has that owner, else in no
        region.

        `cost` are nanoseconds so far, `values` what was converted, `made` the layout of the result.
        A border copy that is owed becomes due if the view is a result of the graph.
        """
        tile = self.problem.tiles[index]
        assert tile.held is not None
        operand = way.values[tile.reads[0]]
        inside = operand.maker in tile.held
        home = operand.home if inside else -1
        needs = operand.needs | _bit(operand.home)
        maker = operand.maker if inside else tile.owner
        (result,) = tile.makes
        known = Known(home, needs, made[0], maker, frozenset(), operand.base)
        passage = way.passages.get(operand.base)
        moved: tuple[tuple[int, Passage], ...] = ()
        if passage is not None and passage.owed and result in self.problem.outputs:
            cost, moved = cost + passage.owed, ((operand.base, passage._replace(owed=0.0)),)
        return Step(cost, way, index, None, (*values, (result, known)), moved)

    def _laid_out(
        self, way: Way, index: int
    ) -> tuple[float, tuple[tuple[int, Known], ...], Sequence[int]]:
        """Nanoseconds of the conversions before a tile and of outputs behind it, the values that
        have one copy more, and the layouts of the results."""
        problem, tile = self.problem, self.problem.tiles[index]
        if problem.layouts is None:
            return 0.0, (), [0] * len(tile.makes)
        incoming = tuple((way.values[v].layout, way.values[v].maker) for v in tile.reads)
        wanted, made = problem.layouts(index, incoming)
        spent, changed = 0.0, []
        for v, layout in zip(tile.reads, wanted, strict=True):
            known = way.values[v]
            if layout == known.layout or layout in known.copies:
                continue
            spent += problem.convert(v, known.layout, layout)
            changed.append((v, known._replace(copies=known.copies | {layout})))
        ends = [(v, at) for v, at in zip(tile.makes, made, strict=True) if v in problem.outputs]
        return spent + sum(problem.convert(v, at, 0) for v, at in ends), tuple(changed), made

    def _passed(
        self, way: Way, tile: Tile, region: Region | None
    ) -> tuple[float, tuple[tuple[int, Passage], ...]]:
        """(nanoseconds, changes) for values that pass the border of a region as `tile` goes into
        `region`.

        A value is copied out of its region once, when the first reader outside comes, and into each
        region once. Changes are a new `Passage` per value.
        """
        problem = self.problem
        if not self._bordered:
            return 0.0, ()
        place = -1 if region is None else region.place
        rate = 0.0 if region is None else problem.border[tile.owner]
        spent, changed = 0.0, dict[int, Passage]()
        for base in dict.fromkeys(way.values[v].base for v in tile.reads):
            passage = way.passages[base]
            if place >= 0 and passage.home == place:
                continue
            spent += passage.owed
            copied = passage.copied
            if rate and not copied >> place & 1:
                spent, copied = spent + rate * problem.sizes[base], copied | 1 << place
            changed[base] = Passage(passage.home, 0.0, copied)
        for v in tile.makes:
            owed = rate * problem.sizes[v]
            leaves = v in problem.outputs
            spent += owed if leaves else 0.0
            changed[v] = Passage(place, 0.0 if leaves else owed, 0)
        return spent, tuple(changed.items())

    def _taken(self, step: Step, node: int) -> tuple[Way, bool]:
        """(way, exact): the way that a step leads to, and whether nothing that may matter was
        forgotten.

        Values whose readers are covered, and regions that nothing can join any more, are dropped.
        Of more than MOST_OPEN regions the oldest is closed, which may lose the best solution.
        """
        way = step.way
        if step.tile < 0:
            return way._replace(cost=step.cost, open=way.open | 1 << node), True
        tile = self.problem.tiles[step.tile]
        open_ = way.open & ~sum(1 << n for n in tile.covers)
        values = {**way.values, **dict(step.values)}
        for v in (*tile.reads, *tile.makes):
            if self._last[v] <= node and not self._reading[v] & open_:
                del values[v]
        passages = {}
        if way.passages or step.passages:
            bases = {k.base for k in values.values()}
            passages = {
                b: p for b, p in {**way.passages, **dict(step.passages)}.items() if b in bases
            }
        regions, begun, number = list(way.regions), way.begun, -1
        if step.region is not None:
            new, number = step.region, step.region.number
            begun = max(begun, number + 1)
            regions = [
                r._replace(needs=r.needs | new.needs) if r.needs >> new.place & 1 else r
                for r in regions
                if r.place != new.place
            ]
            regions = sorted([*regions, new], key=lambda r: r.number)
        gone = _finished(regions, values)
        exact = True
        if len(regions) - gone.bit_count() > MOST_OPEN:
            gone |= 1 << next(r.place for r in regions if not gone >> r.place & 1)
            exact = False
        if gone:
            every = regions
            regions = [
                r._replace(needs=r.needs & ~gone) for r in regions if not gone >> r.place & 1
            ]
            left = {r.place for r in regions}
            for v, k in values.items():
                home = k.home if k.home in left else -1
                values[v] = k._replace(home=home, needs=_closure(every, k.needs) & ~gone)
            for v, p in passages.items():
                passages[v] = Passage(p.home if p.home in left else -1, p.owed, p.copied & ~gone)
        before = way, step.tile, number
        return Way(step.cost, open_, values, passages, tuple(regions), begun, before), exact


def _bit(place: int) -> int:
    """The set of the one region at `place`, of none for -1."""
    return 1 << place if place >= 0 else 0


def _union(sets: Iterable[int]) -> int:
    """The union of bit sets."""
    every = 0
    for one in sets:
        every |= one
    return every


def _closure(regions: Sequence[Region], needs: int) -> int:
    """A set of regions with all that these need."""
    for region in regions:
        if needs >> region.place & 1:
            needs |= region.needs
    return needs


def _finished(regions: Sequence[Region], values: dict[int, Known]) -> int:
    """The set of regions that no tile can join which reads one of `values`, as bits by place."""
    every = sum(1 << r.place for r in regions)
    gone = every
    for known in values.values():
        if not gone:
            break
        own = _bit(known.home)
        gone &= _closure(regions, known.needs | own) & ~own
    return gone


def _traced(way: Way) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tiles of a way in order, and their regions."""
    tiles, regions = [], []
    at: Way | None = way
    while at is not None and at.before is not None:
        at, tile, region = at.before
        tiles.append(tile)
        regions.append(region)
    return tuple(tiles[::-1]), tuple(regions[::-1])
