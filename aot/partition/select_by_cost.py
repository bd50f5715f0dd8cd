# SPDX-License-Identifier: Apache-2.0
"""Choice by cost: which backend computes what is decided by the time of the network as a whole.

Each backend covers the graph as if it were preferred; nodes that share a match in any of these
covers are one unit, given to one backend. Values that pass from one backend to another cost what
their conversion and the way into and out of memory of the backend's own take. The labels of the
units cost least; `proof` says where the partition might still cost less.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from aot.ir.deferred_import import ir
from aot.ir.layout import PLAIN, Layout, same_bytes
from aot.partition.annotate import PORTABLE
from aot.partition.cost_model import Costs, size_of
from aot.partition.covering import Cover
from aot.partition.min_cut import Choice, choose
from aot.partition.proof import CYCLE, Key, doubts
from aot.vendor.backend import Backend, Pattern
from aot.vendor.match import Match, ValueRef

Item = tuple[Pattern, Match]
#: Layouts that the matches of a cover, in order, give to the values they name.
Layouts = Callable[[Sequence[Item]], list[Mapping[str, Layout]]]


def all_plain(items: Sequence[Item]) -> list[Mapping[str, Layout]]:
    """The layouts of covers in which every value is in ONNX's row-major order."""
    return [{} for _ in items]


@dataclass(frozen=True, slots=True)
class Price:
    """What a unit of nodes costs with each backend that can take part in it, in nanoseconds.

    `measured` says that no estimate is in these numbers.
    """

    nodes: tuple[str, ...]
    costs: tuple[tuple[str, float], ...]
    chosen: str
    measured: bool


@dataclass(frozen=True, slots=True)
class Pricing:
    """All units, and the time of their choice in nanoseconds, borders included.

    No choice of a backend for each unit takes less than `bound`. `doubts` are the reasons why
    other partitions may still take less; with none of them, none takes less than `bound`.
    """

    prices: tuple[Price, ...] = ()
    total: float = 0.0
    bound: float = 0.0
    doubts: tuple[str, ...] = ()

    @property
    def optimal(self) -> bool:
        """Whether no partition is cheaper."""
        return not self.doubts and self.total <= self.bound * (1 + 1e-9) + 1e-9

    def text(self) -> str:
        """One line: the time, and what is proven of it."""
        if self.doubts:
            proof = f"not proven the cheapest: {'; '.join(self.doubts)}"
        elif self.optimal:
            proof = "the cheapest possible"
        elif self.bound > 0:
            gap = 100.0 * (self.total / self.bound - 1)
            proof = f"at most {gap:.1f} % from the cheapest"
        else:
            proof = "not proven the cheapest"
        return f"cost {self.total / 1e3:.1f} us ({proof})"

    def doubting(self, *reasons: str) -> Pricing:
        """The same with further reasons for doubt."""
        return replace(self, doubts=tuple(dict.fromkeys([*self.doubts, *reasons])))


@dataclass(slots=True)
class _Cover:
    """One backend's own cover: its items by unit, and the layouts of what they name."""

    backend: Backend
    items: list[Item]
    layouts: list[Mapping[str, Layout]]
    by_unit: dict[int, list[int]]


def cheapest(
    graph: ir.Graph,
    backends: Sequence[Backend],
    marked_only: Collection[str],
    costs: Costs,
    layouts: Layouts,
) -> tuple[Cover, Pricing]:
    """The cover of `graph` by the units whose labels cost least, and what is proven of it.

    `backends` are in order, portable C last. Precondition: together they compute every node.
    """
    by_name = {b.name: b for b in backends}
    labels = [b for b in backends if b.name == PORTABLE or b.name not in marked_only]
    covers = [_covered(graph, b, backends, marked_only, costs, layouts) for b in labels]
    units = _units(graph, covers)
    unary: list[dict[int, float]] = []
    exact: list[bool] = []
    for number, nodes in enumerate(units):
        found, measured = _alternatives(number, nodes, covers, by_name, costs)
        unary.append(found)
        exact.append(measured)
    edges = _edges(covers, unary, by_name, costs)
    choice = choose(unary, edges)
    cover = Cover(graph)
    adopted = True
    for number, label in enumerate(choice.labels):
        for index in covers[label].by_unit.get(number, ()):
            adopted = cover.adopt(*covers[label].items[index]) and adopted
    for backend in backends:  # what would have closed a cycle
        cover.match(backend, backend.name in marked_only)
    pricing = _pricing(units, unary, exact, covers, choice)
    if not adopted:
        return cover, pricing.doubting(CYCLE)
    known = [_compared(n, found, covers, by_name, costs) for n, found in enumerate(unary)]
    placed = [named for c in covers for named in c.layouts]
    return cover, pricing.doubting(*doubts(graph, labels, placed, units, known, costs))


def _compared(
    number: int,
    labels: Collection[int],
    covers: Sequence[_Cover],
    by_name: Mapping[str, Backend],
    costs: Costs,
) -> list[dict[Key, float]]:
    """The matches that each label gives to a unit, with their nanoseconds."""
    ways = []
    for label in labels:
        items = [covers[label].items[i] for i in covers[label].by_unit.get(number, ())]
        ways.append(
            {
                (p.backend, frozenset(id(n.ir) for n in m.nodes)): costs.of(
                    by_name[p.backend], p, m
                )[0]
                for p, m in items
            }
        )
    return ways


def _covered(
    graph: ir.Graph,
    backend: Backend,
    backends: Sequence[Backend],
    marked_only: Collection[str],
    costs: Costs,
    layouts: Layouts,
) -> _Cover:
    """The graph covered by one backend, by others only where the user says so, by portable C."""
    cover = Cover(graph)
    cover.match(backend, backend.name in marked_only)
    for other in backends:
        if other is not backend:
            cover.match(other, other.name != PORTABLE)
    items = [_cheaper(backend, item, costs) for item in cover.matches()]
    return _Cover(backend, items, layouts(items), {})


def _cheaper(backend: Backend, item: Item, costs: Costs) -> Item:
    """The backend's cheapest way to compute what `item` computes; its own preference wins ties."""
    pattern, match = item
    if pattern.backend != backend.name or backend.name == PORTABLE:
        return item
    covered = {id(n.ir) for n in match.nodes}
    best, least = item, costs.of(backend, pattern, match)[0]
    for other in backend.patterns:
        if other is pattern or other.size < len(covered):
            continue
        found = next(iter(other.matches(match.root.ir)), None)
        if found is None or {id(n.ir) for n in found.nodes} != covered or other.refusals(found):
            continue
        cost = costs.of(backend, other, found)[0]
        if cost < least:
            best, least = (other, found), cost
    return best


def _units(graph: ir.Graph, covers: Sequence[_Cover]) -> list[list[ir.Node]]:
    """Nodes that share a match in some cover, in the graph's order; fills `by_unit`."""
    nodes = list(graph)
    leader = {id(n): id(n) for n in nodes}

    def find(member: int) -> int:
        while leader[member] != member:
            leader[member] = leader[leader[member]]
            member = leader[member]
        return member

    for c in covers:
        for _, match in c.items:
            first = find(id(match.nodes[0].ir))
            for other in match.nodes[1:]:
                leader[find(id(other.ir))] = first
    groups: dict[int, list[ir.Node]] = {}
    for node in nodes:
        groups.setdefault(find(id(node)), []).append(node)
    number = {root: i for i, root in enumerate(groups)}
    for c in covers:
        for index, (_, match) in enumerate(c.items):
            c.by_unit.setdefault(number[find(id(match.root.ir))], []).append(index)
    return list(groups.values())


def _alternatives(
    number: int,
    nodes: Sequence[ir.Node],
    covers: Sequence[_Cover],
    by_name: Mapping[str, Backend],
    costs: Costs,
) -> tuple[dict[int, float], bool]:
    """Cost of a unit by cover, where the cover is complete and its backend takes part."""
    found: dict[int, float] = {}
    measured = True
    for label, c in enumerate(covers):
        items = [c.items[i] for i in c.by_unit.get(number, ())]
        takes_part = c.backend.name == PORTABLE or any(
            p.backend == c.backend.name for p, _ in items
        )
        if not takes_part or sum(len(m.nodes) for _, m in items) != len(nodes):
            continue
        total = 0.0
        for pattern, match in items:
            cost, known = costs.of(by_name[pattern.backend], pattern, match)
            total += cost
            measured = measured and known
        found[label] = total
    return found, measured


@dataclass(frozen=True, slots=True)
class _End:
    """Where a value is made or read in a cover: by which unit's item."""

    unit: int
    item: int


def _edges(
    covers: Sequence[_Cover],
    unary: Sequence[Mapping[int, float]],
    by_name: Mapping[str, Backend],
    costs: Costs,
) -> dict[tuple[int, int], dict[tuple[int, int], float]]:
    """Costs of the borders between units, by (maker, reader) and labels."""
    made = [_makers(c) for c in covers]
    edges: dict[tuple[int, int], dict[tuple[int, int], float]] = {}
    for b, reader in enumerate(covers):
        for unit, items in reader.by_unit.items():
            for index in items:
                _, match = reader.items[index]
                for name, value in match.inputs():
                    for a, maker in enumerate(covers):
                        end = made[a].get(id(value.ir))
                        if a == b or end is None or end.unit == unit:
                            continue
                        if a not in unary[end.unit] or b not in unary[unit]:
                            continue
                        cost = _border(maker, end.item, reader, index, name, value, by_name, costs)
                        between = edges.setdefault((end.unit, unit), {})
                        between[a, b] = between.get((a, b), 0.0) + cost
    return edges


def _makers(c: _Cover) -> dict[int, _End]:
    """id() of each value → the item that computes it."""
    return {
        id(v.ir): _End(unit, index)
        for unit, items in c.by_unit.items()
        for index in items
        for v in c.items[index][1].outputs()
    }


def _border(
    maker: _Cover,
    made: int,
    reader: _Cover,
    read: int,
    name: str,
    value: ValueRef,
    by_name: Mapping[str, Backend],
    costs: Costs,
) -> float:
    """Nanoseconds for a value on its way from one item to another."""
    source, target = maker.items[made][0], reader.items[read][0]
    if source.backend == target.backend:
        return 0.0
    spent = 0.0
    for pattern in (source, target):
        rate = costs.speed(by_name[pattern.backend]).border_bytes_per_ns
        spent += size_of(value) / rate if rate else 0.0
    stored = Layout(_layout_of(maker, made, value).block)  # zeros are promised to one's own only
    incoming = dict(reader.layouts[read])
    incoming[name] = stored
    known = {n: incoming.get(n, PLAIN) for n in reader.items[read][1].values}
    wanted = target.choose_layouts(reader.items[read][1], known, costs.lanes).get(name, PLAIN)
    if not same_bytes(value.shape, stored, wanted):
        spent += size_of(value) / costs.reorder_bytes_per_ns
    return spent


def _layout_of(maker: _Cover, made: int, value: ValueRef) -> Layout:
    values = maker.items[made][1].values
    name = next(n for n, v in values.items() if v is not None and v.ir is value.ir)
    return maker.layouts[made].get(name, PLAIN)


def _pricing(
    units: Sequence[Sequence[ir.Node]],
    unary: Sequence[Mapping[int, float]],
    exact: Sequence[bool],
    covers: Sequence[_Cover],
    choice: Choice,
) -> Pricing:
    prices = []
    for nodes, found, measured, label in zip(units, unary, exact, choice.labels, strict=True):
        shown = tuple((covers[a].backend.name, ns) for a, ns in found.items())
        names = tuple(str(n.name) for n in nodes)
        prices.append(Price(names, shown, covers[label].backend.name, measured))
    return Pricing(tuple(prices), choice.total, choice.bound)
