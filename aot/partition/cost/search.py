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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from aot.partition.cost.loads import Loads
from aot.partition.cost.problem import Problem, Solution, Tile
from aot.partition.cost.ways import (
    Known,
    Passage,
    Region,
    Step,
    Way,
    bit,
    closure,
    finished,
    union,
)

#: Steps of the search (a million take less than a minute), and regions that may be joined.
EFFORT, MOST_OPEN = 600_000, 12
#: Sets of open nodes that are told apart at a node.
MOST_SETS = 256
#: A narrow search comes first: what it finds lets the wide ones leave most states out.
WIDTHS = (1, 8, 64, 512, 4096, 32_768)
#: How many times as long a step takes where regions have limits.
LIMITED = 4
#: The width from which on a region may exceed a limit for a while that it is within in the end.
LENIENT = 512
#: Equal costs are sums in several orders, which may differ by their rounding.
_ROUNDING = 1e-9


#: Set of open nodes → each tile that may follow (-1: the node is left open), and the set then open.
Moves = dict[int, list[tuple[int, int]]]


def solve(problem: Problem, effort: int = EFFORT) -> Solution | None:
    """The cheapest solution found, with the best bound found; None if no tiles cover the graph.

    Beams of growing width are tried until one is proven, or until the next would need more than
    `effort` steps in all.
    """
    free = Search(problem)
    strict = Search(problem, strict=True) if problem.limits else free
    best, spent = None, 0
    for width in WIDTHS:
        search = strict if width < LENIENT else free
        if search is not strict and width == LENIENT and LIMITED * width * problem.nodes > effort:
            break
        found = search.run(width, best)
        if found is not None and search is not free:
            found = replace(found, bound=free.least())  # a strict search leaves ways out
        spent, best = spent + search.steps * (LIMITED if problem.limits else 1), found or best
        # The next width takes about eight times as many steps.
        if (best is not None and best.bound >= best.total) or spent * 8 > effort:
            break
    return best


class Search:
    """The search on one problem; `steps` counts the ways that the last run looked at."""

    def __init__(self, problem: Problem, strict: bool = False) -> None:
        """Prepare `problem`: moves per node, bounds of what is left, and readers of each value as
        bit sets.

        `_tracked` says per owner whether it matters which region a tile is in (entering or borders
        cost, or regions have limits). A `strict` search keeps every region within its limits at
        every step, and has no tiles that cannot be a region alone: it always finds something where
        tiles without limits cover the graph.
        """
        self.problem = problem
        self.steps = 0
        self._loads, self._strict = Loads(problem), strict
        self._tracked = [bool(e or b) for e, b in zip(problem.enter, problem.border, strict=True)]
        for owner in problem.limits:
            self._tracked[owner] = True
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
        # For each node: the tiles that end at it, and the last node that may still cover it.
        ending: list[list[int]] = [[] for _ in range(problem.nodes)]
        latest = list(range(problem.nodes))
        maker: dict[int, int] = {}
        for i, tile in enumerate(problem.tiles):
            if self._strict and not self._loads.stands_alone(i):
                continue
            ending[tile.covers[-1]].append(i)
            maker.update(dict.fromkeys(tile.makes, tile.covers[-1]))
            for node in tile.covers:
                # A node left open longer than this could never be covered: such sets are dropped
                # early.
                latest[node] = max(latest[node], tile.covers[-1])
        expiring: list[list[int]] = [[] for _ in range(problem.nodes)]
        for node, last in enumerate(latest):
            expiring[last].append(node)
        # Sets of nodes are integers, bit n for node n: unions and tests take one operation.
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
            # Sets with few open nodes first: where the number of sets is cut, these lead on most
            # often.
            every = sorted({r for found in after.values() for _, r in found}, key=int.bit_count)
            sets, cut = set(every[:MOST_SETS]), cut or len(every) > MOST_SETS
        # Backwards: the least cost from each set to the end is the bound that the search counts on.
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
        # A little below `best`: equal ways that differ in rounding only would be followed for
        # nothing.
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
                if way is None:
                    continue
                # Two ways are the same from here on if what later tiles can ask about is the same.
                known = tuple(way.values.items()), tuple(way.passages.items())
                joinable = tuple(
                    (*r[:1], *r[2:5], self._loads.key(r.owner, r.load, way.values))
                    if r.owner in self.problem.limits
                    else (*r[:1], *r[2:5])
                    for r in way.regions
                )
                kept.setdefault((way.open, known, joinable), way)
            ways = list(kept.values())
        # What was dropped may have led to the optimum, but to nothing cheaper than its cost so far.
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
        needs = closure(way.regions, union(k.needs | bit(k.home) for k in knowns))
        if not self._tracked[tile.owner]:
            yield self._put(way, index, cost, None, (-1, needs), (values, made))
            return
        kind = tile.owner, tile.label
        for region in (r for r in way.regions if (r.owner, r.label) == kind):
            outer = (k.needs | bit(k.home) for k in knowns if k.home != region.place)
            before = closure(way.regions, union(outer))
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
        needs = operand.needs | bit(operand.home)
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
        # Views share their base's bytes, so a copy of one serves all.
        for base in dict.fromkeys(way.values[v].base for v in tile.reads):
            passage = way.passages[base]
            if place >= 0 and passage.home == place:
                continue
            spent += passage.owed
            copied = passage.copied
            if rate and not copied >> place & 1:
                spent, copied = spent + rate * problem.sizes[base], copied | 1 << place
            changed[base] = Passage(passage.home, 0.0, copied)
        # A value pays for leaving its region when a reader outside comes, a result of the graph at
        # once.
        for v in tile.makes:
            owed = rate * problem.sizes[v]
            leaves = v in problem.outputs
            spent += owed if leaves else 0.0
            changed[v] = Passage(place, 0.0 if leaves else owed, 0)
        return spent, tuple(changed.items())

    def _taken(self, step: Step, node: int) -> tuple[Way | None, bool]:
        """(way, exact): the way that a step leads to, None if a region exceeds its limits, and
        whether nothing that may matter was forgotten.

        Values whose readers are covered, and regions that nothing can join any more, are dropped.
        Of more than MOST_OPEN regions the oldest is closed, which may lose the best solution.
        """
        way = step.way
        if step.tile < 0:
            return way._replace(cost=step.cost, open=way.open | 1 << node), True
        tile = self.problem.tiles[step.tile]
        open_ = way.open & ~sum(1 << n for n in tile.covers)
        # Values that nobody reads any more would only make equal ways look different.
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
            # Regions that need the joined one must now need what that needs, else a cycle may
            # follow.
            regions = [
                r._replace(needs=r.needs | new.needs) if r.needs >> new.place & 1 else r
                for r in regions
                if r.place != new.place
            ]
            regions = sorted([*regions, new], key=lambda r: r.number)
        exact = True
        if self.problem.limits:
            loaded, exact = self._loaded(step, tile, regions, values)
            if loaded is None:
                return None, exact
            regions = loaded
        gone = finished(regions, values) | self._full(regions, values)
        # The state space grows with the open regions; closing one loses the proof, not the
        # validity.
        if len(regions) - gone.bit_count() > MOST_OPEN:
            gone |= 1 << next(r.place for r in regions if not gone >> r.place & 1)
            exact = False
        if gone:
            if not all(self._closed(r, values) for r in regions if gone >> r.place & 1):
                return None, True
            every = regions
            regions = [
                r._replace(needs=r.needs & ~gone) for r in regions if not gone >> r.place & 1
            ]
            left = {r.place for r in regions}
            # Places of closed regions are used again, so what still names them must change first.
            for v, k in values.items():
                home = k.home if k.home in left else -1
                values[v] = k._replace(home=home, needs=closure(every, k.needs) & ~gone)
            for v, p in passages.items():
                passages[v] = Passage(p.home if p.home in left else -1, p.owed, p.copied & ~gone)
        before = way, step.tile, number
        return Way(step.cost, open_, values, passages, tuple(regions), begun, before), exact

    def _loaded(
        self, step: Step, tile: Tile, regions: Sequence[Region], values: dict[int, Known]
    ) -> tuple[list[Region] | None, bool]:
        """(`regions` with what the tile of a step brings to each, None if one exceeds its limits;
        whether that is certain). `values` are those that are read later."""
        reads = {v: step.way.values[v].home for v in tile.reads}
        home = dict(step.values)[tile.makes[0]].home
        found = []
        for r in regions:
            own = {v for v, at in reads.items() if at == r.place}
            load = r.load
            # The tile's own region holds more; others only learn that a value of theirs leaves
            # them.
            if r.owner in self.problem.limits and r.place == home:
                leave = self.problem.outputs.intersection(tile.makes)
                load = self._loads.joined(load, step.tile, reads.keys() - own, leave)
            elif r.owner in self.problem.limits and own - load.leave:
                load = load._replace(leave=load.leave | own)
            if load is not r.load:
                if self._loads.exceeds(r.owner, load):
                    return None, True
                later = {v for v, k in values.items() if k.home == r.place}
                joined, strict = bool(own), self._strict and r.place == home
                if strict and self._loads.doubtful(r.owner, load, joined, load.leave | later):
                    return None, False
            found.append(r._replace(load=load))
        return found, True

    def _full(self, regions: Sequence[Region], values: dict[int, Known]) -> int:
        """The set of regions that have as many operators as their owners allow."""
        limited = [r for r in regions if r.owner in self.problem.limits]
        held = {r.place: [v for v, k in values.items() if k.home == r.place] for r in limited}
        loads = self._loads
        return sum(1 << r.place for r in limited if loads.is_full(r.owner, r.load, held[r.place]))

    def _closed(self, region: Region, values: dict[int, Known]) -> bool:
        """Whether a region that nothing joins any more is within its limits."""
        if region.owner not in self.problem.limits:
            return True
        later = {v for v, k in values.items() if k.home == region.place}
        return self._loads.fits(region.owner, region.load, region.load.leave | later)


def _traced(way: Way) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tiles of a way in order, and their regions."""
    tiles, regions = [], []
    at: Way | None = way
    while at is not None and at.before is not None:
        at, tile, region = at.before
        tiles.append(tile)
        regions.append(region)
    return tuple(tiles[::-1]), tuple(regions[::-1])
