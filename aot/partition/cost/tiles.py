# SPDX-License-Identifier: Apache-2.0
"""The problem of a graph: every match of every backend as a tile, values with their sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from aot.ir.deferred_import import ir
from aot.ir.layout import PLAIN, Layout, same_bytes
from aot.partition.annotate import PORTABLE
from aot.partition.assign_layouts import assign_layouts, promised, wanted_layouts
from aot.partition.cost.costs import Costs
from aot.partition.cost.pricing import MANY_WAYS, SEVERAL_RESULTS, Price
from aot.partition.cost.problem import Content, Problem, Solution, Tile
from aot.partition.cost.search import Search, solve
from aot.partition.covering import FREE, Cover
from aot.partition.graph import is_view, node_dependencies, read_by
from aot.partition.limits import WhyNot
from aot.partition.region_rules import rules_for
from aot.partition.result import Partition, Selected
from aot.vendor.backend import Backend, Pattern
from aot.vendor.limits import Limits
from aot.vendor.match import Match, ValueRef
from aot.vendor.pattern import Results

#: A match, and whether its time was measured.
Item = tuple[Pattern, Match, bool]


@dataclass(slots=True)
class Tiles:
    """The matches behind the tiles of a problem; `doubts` are ways that it does not have."""

    backends: Sequence[Backend]
    costs: Costs
    items: list[Item] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)
    values: list[ValueRef] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)
    _same: dict[tuple[tuple[int, ...], int], int] = field(default_factory=dict)
    _covering: dict[int, list[int]] = field(default_factory=dict)
    _layouts: dict[Layout, int] = field(default_factory=lambda: {PLAIN: 0})
    _known: dict[tuple[int, tuple[tuple[int, int], ...]], tuple[list[int], list[int]]] = field(
        default_factory=dict
    )

    def problem(self, graph: ir.Graph, marked_only: Collection[str]) -> Problem:
        """The problem of `graph`; backends in `marked_only` get what the user gives them."""
        cover = Cover(graph)
        # Nodes close to their readers keep the set of open nodes small, on which the search's time
        # grows.
        nodes = _near_readers(list(graph))
        self._places = {id(n): i for i, n in enumerate(nodes)}
        readers: list[list[int]] = []
        for place, node in enumerate(nodes):
            # Constants cross no border and need no copy.
            for value in dict.fromkeys(read_by(node)):
                if not ValueRef(value).is_const:
                    number = self._number(value)
                    readers += [[] for _ in range(number + 1 - len(readers))]
                    readers[number].append(place)
        inputs = [i for i, v in enumerate(self.values) if id(v.ir.producer()) not in self._places]
        found = [
            (owner, pattern, match)
            for owner, backend in enumerate(self.backends)
            for pattern, match in cover.candidates(backend, backend.name in marked_only)
        ]
        # Rates that are not measured follow from those of the matches that are.
        self.costs = self.costs.calibrated((self.backends[o], p, m) for o, p, m in found)
        for owner, pattern, match in found:
            self._add(cover, owner, pattern, match)
        self.doubts += [MANY_WAYS] if cover.cut_short else []
        readers += [[] for _ in range(len(self.values) - len(readers))]
        speeds = [self.costs.speed(b) for b in self.backends]
        vendors = [b.name != PORTABLE for b in self.backends]
        pairs = list(zip(speeds, vendors, strict=True))
        limits, checked, contents, sizes = self._limited(list(graph))
        return Problem(
            len(nodes),
            self.tiles,
            [v.nbytes for v in self.values],
            readers,
            inputs,
            frozenset(i for i, v in enumerate(self.values) if v.is_output),
            # Portable C is everywhere: it neither enters a region nor copies values at a border.
            [s.enter_ns * own for s, own in pairs],
            [
                1 / s.border_bytes_per_ns if own and s.border_bytes_per_ns else 0.0
                for s, own in pairs
            ],
            self._laid_out,
            self._convert,
            limits,
            checked,
            contents,
            sizes,
        )

    def _limited(
        self, nodes: Sequence[ir.Node]
    ) -> tuple[dict[int, Limits], dict[int, WhyNot], list[Content], Sequence[int]]:
        """(limits by backend, checks of regions by backend, what each tile counts, the bytes of
        constants); all are empty where no backend limits its regions.

        `nodes` are in the order of the graph, in which the tiles of a region run.
        """
        chosen = [(pattern, match) for pattern, match, _ in self.items]
        rules = rules_for(chosen, self.backends)
        if not rules:
            return {}, {}, [], ()
        flow = next(iter(rules.values())).flow
        place = {id(n): i for i, n in enumerate(nodes)}
        contents = [
            Content(v.nodes, v.constants, place[id(m.root.ir)])
            for v, (_, m) in zip(flow.vertices, chosen, strict=True)
        ]
        checked = {i: rule.fits for i, rule in rules.items() if rule.fits is not None}
        return {i: rule.limits for i, rule in rules.items()}, checked, contents, flow.nbytes

    def _number(self, value: ir.Value) -> int:
        """The number of a value, a new one at its first mention."""
        number = self._numbers.setdefault(id(value), len(self.values))
        if number == len(self.values):
            self.values.append(ValueRef(value))
        return number

    def _add(self, cover: Cover, owner: int, pattern: Pattern, match: Match) -> None:
        """The tile of a match, unless its backend has another one for these nodes that costs less
        and that has the same layouts."""
        if isinstance(pattern.graph, Results):
            self.doubts += [SEVERAL_RESULTS] if SEVERAL_RESULTS not in self.doubts else []
            return
        inside = {id(v) for n in match.nodes for v in n.ir.outputs}
        entering = [v for n in match.nodes for v in read_by(n.ir) if id(v) not in inside]
        reads = [self._number(v) for v in dict.fromkeys(entering) if not ValueRef(v).is_const]
        makes = [self._number(v.ir) for v in match.outputs()]
        covers = tuple(sorted(self._places[id(n.ir)] for n in match.nodes))
        at = self._same.setdefault((covers, owner), len(self.tiles))
        portable = self.backends[owner].name == PORTABLE  # whose patterns are in its own order
        if at < len(self.tiles) and portable:
            return
        cost, known = self.costs.of(self.backends[owner], pattern, match)
        held = None
        if reads and is_view(match):  # a view of a constant begins nothing and ends nothing
            holding = [cover.holds(b, match.root.ir) for b in self.backends]
            held = frozenset(i for i, holds in enumerate(holding) if holds)
        label = "" if portable else cover.marks.get(id(match.root.ir), FREE).region
        made = Tile(covers, owner, cost, tuple(reads), tuple(makes), label, held)
        if at < len(self.tiles) and not (pattern.lays_out or self.items[at][0].lays_out):
            if cost < self.tiles[at].cost:
                self.items[at], self.tiles[at] = (pattern, match, known), made
            return
        for node in covers:
            self._covering.setdefault(node, []).append(len(self.tiles))
        self.items.append((pattern, match, known))
        self.tiles.append(made)

    def _laid_out(
        self, index: int, incoming: tuple[tuple[int, int], ...]
    ) -> tuple[list[int], list[int]]:
        """(layouts of operands, layouts of results) that the match of tile `index` chooses, as
        numbers.

        `incoming` has (layout, owner that made the value) for each value that the tile reads.
        """
        # Layouts depend on what arrives only, so the same question comes up in thousands of ways.
        key = index, incoming
        if key not in self._known:
            pattern, match, _ = self.items[index]
            tile, numbers = self.tiles[index], list(self._layouts)
            given = dict(zip(tile.reads, incoming, strict=True))
            at, named = dict.fromkeys(match.values, PLAIN), dict[int, str]()
            for name, value in match.values.items():
                number = None if value is None else self._numbers.get(id(value.ir))
                if number is None:
                    continue
                named.setdefault(number, name)
                if number in given:
                    layout, maker = given[number]
                    own = maker == tile.owner or (tile.held is not None and maker in tile.held)
                    at[name] = promised(numbers[layout], own)
            present = {n: at[n] for n, v in match.values.items() if v is not None}
            wanted = wanted_layouts(pattern, match, present, self.costs.lanes)
            read = [
                self._layouts.setdefault(wanted.get(named[v], PLAIN), len(self._layouts))
                if v in named
                else given[v][0]
                for v in tile.reads
            ]
            made = [
                self._layouts.setdefault(wanted.get(named[v], PLAIN), len(self._layouts))
                for v in tile.makes
            ]
            self._known[key] = read, made
        return self._known[key]

    def _convert(self, value: int, there: int, here: int) -> float:
        """Nanoseconds to convert value number `value` from layout `there` to `here`; 0 if bytes are
        equal.
        """
        layouts = list(self._layouts)
        ref = self.values[value]
        if same_bytes(ref.shape, layouts[there], layouts[here]):
            return 0.0
        return ref.nbytes / self.costs.reorder_bytes_per_ns

    def total(self, graph: ir.Graph, items: Sequence[Selected]) -> float:
        """Nanoseconds of a partition that is ready; `items` are in the order they run."""
        by_name = {b.name: b for b in self.backends}
        spent = 0.0
        entered = {s.region: by_name[s.backend] for s in items if s.region >= 0}
        for s in items:
            spent += self.costs.of(by_name[s.pattern.backend], s.pattern, s.match)[0]
        spent += sum(self.costs.speed(b).enter_ns for b in entered.values())
        if any(self.costs.speed(b).border_bytes_per_ns for b in entered.values()):
            spent += self._borders(graph, items, entered)
        return spent + self._conversions(graph, items)

    def _borders(
        self, graph: ir.Graph, items: Sequence[Selected], entered: Mapping[int, Backend]
    ) -> float:
        """Nanoseconds for values that enter or leave `entered`, backends by number of their region.

        A value pays once per region that it enters and once where it leaves; views count as their
        base.
        """
        shown: dict[int, ir.Value] = {}
        made: dict[int, int] = {}  # id() of a value → the region that makes it
        crossing: dict[tuple[int, int], ValueRef] = {}
        for s in items:
            read = [v for n in s.match.nodes for v in read_by(n.ir) if not ValueRef(v).is_const]
            bases = [shown.get(id(v), v) for v in read]
            if s.is_view:
                shown[id(s.match.root.ir.outputs[0])] = bases[0]
                continue
            inside = {id(v) for n in s.match.nodes for v in n.ir.outputs}
            made.update(dict.fromkeys(inside, s.region))
            for v in bases:
                if id(v) not in inside and made.get(id(v), -1) != s.region:
                    crossing[id(v), made.get(id(v), -1)] = ValueRef(v)
                    crossing[id(v), s.region] = ValueRef(v)
        for v in graph.outputs:
            base = shown.get(id(v), v)
            crossing[id(base), made.get(id(base), -1)] = ValueRef(base)
        spent = 0.0
        for (_, region), ref in crossing.items():
            rate = self.costs.speed(entered[region]).border_bytes_per_ns if region >= 0 else 0
            spent += ref.nbytes / rate if rate else 0.0
        return spent

    def _conversions(self, graph: ir.Graph, items: Sequence[Selected]) -> float:
        """Nanoseconds for values read in another layout than they are made in, once per value and
        layout.
        """
        plan = assign_layouts(Partition(tuple(items), ()), self.costs.lanes)
        wanted = [
            (v, placed.layouts[name])
            for placed in plan.items
            for name, v in placed.selected.match.inputs()
            if not v.is_const
        ]
        changed = {(v.name, at): v for v, at in wanted}
        ends = [(ValueRef(v), PLAIN) for v in graph.outputs]
        return sum(
            v.nbytes / self.costs.reorder_bytes_per_ns
            for v, at in [*((v, at) for (_, at), v in changed.items()), *ends]
            if not same_bytes(v.shape, plan.produced.get(v.name, PLAIN), at)
        )

    def price(self, name: str, match: Match) -> Price:
        """The least nanoseconds for the nodes of `match` with each backend; the backend `name` was
        chosen.
        """
        nodes = frozenset(self._places[id(n.ir)] for n in match.nodes)
        near = sorted({i for n in nodes for i in self._covering[n]})
        inside = [i for i in near if nodes.issuperset(self.tiles[i].covers)]
        place = {n: i for i, n in enumerate(sorted(nodes))}
        found = []
        for owner, backend in enumerate(self.backends):
            own = [t for i in inside if (t := self.tiles[i]).owner == owner]
            local = [Tile(tuple(place[n] for n in t.covers), 0, t.cost, (), ()) for t in own]
            least = Search(Problem(len(nodes), local)).least()
            found += [(backend.name, least)] if least < inf else []
        names = tuple(n.name for n in reversed(match.nodes))
        return Price(names, tuple(found), name, all(self.items[i][2] for i in inside))


def _near_readers(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """The nodes in a topological order that has each as near to its first reader as it can be.

    The fewer values are alive at a time, the fewer ways the search has to tell apart.
    """
    needs = node_dependencies(nodes)
    read = {p for before in needs for p in before}
    order: dict[int, None] = {}
    stack = [v for v in reversed(range(len(nodes))) if v not in read]
    while stack:
        missing = [p for p in needs[stack[-1]] if p not in order]
        if missing:
            stack += missing
        else:
            order.setdefault(stack.pop())
    return [nodes[v] for v in order]


def cheapest(
    graph: ir.Graph,
    backends: Sequence[Backend],
    marked_only: Collection[str],
    costs: Costs,
) -> tuple[Tiles, Solution | None, Cover, Mapping[int, str]]:
    """The tiles of `graph`, the best solution found, its matches, and the regions of the
    matches that are in regions which cost something, by id() of the node that ends them.

    `backends` are in order, portable C last.
    """
    tiles = Tiles(backends, costs)
    problem = tiles.problem(graph, marked_only)
    found = solve(problem)
    if found is None and problem.limits:  # regions are cut to their limits later
        found = solve(replace(problem, limits={}))
    cover, regions = Cover(graph), dict[int, str]()
    if found is not None:
        for index, region in zip(found.tiles, found.regions, strict=True):
            cover.adopt(*tiles.items[index][:2])
            if region >= 0:
                regions[id(tiles.items[index][1].root.ir)] = f"\0{region}"
    for backend in backends:
        cover.match(backend, backend.name in marked_only)
    return tiles, found, cover, regions
