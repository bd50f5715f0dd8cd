# SPDX-License-Identifier: Apache-2.0
"""What a region takes of a device, and why a set of matches exceeds the limits of a backend.

Vertices are matches, numbered in a topological order; values have numbers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from aot.vendor.limits import Limits

#: Vertices of a region whose answer is kept for the next question.
REMEMBERED = 16

#: Why a region of these vertices cannot be; "" if it can.
WhyNot = Callable[[Sequence[int]], str]


@dataclass(frozen=True, slots=True)
class Vertex:
    """What a match reads (without constants), holds and makes, by numbers of values."""

    reads: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()
    makes: tuple[int, ...] = ()
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Flow:
    """Every vertex of a graph, the bytes of every value, and the values that leave the graph."""

    vertices: Sequence[Vertex]
    nbytes: Sequence[int]
    results: frozenset[int] = frozenset()
    readers: list[set[int]] = field(init=False)

    def __post_init__(self) -> None:
        """Find the vertices that read each value."""
        readers: list[set[int]] = [set() for _ in self.nbytes]
        for v, vertex in enumerate(self.vertices):
            for value in vertex.reads:
                readers[value].add(v)
        object.__setattr__(self, "readers", readers)


def contracted_flow(flow: Flow, members: Sequence[Sequence[int]]) -> Flow:
    """The flow between groups of vertices: what each group of `members` reads, holds and makes.

    A value that a group makes is none that it reads. Sizes and results of the whole flow stay.
    """
    groups = []
    for inside in members:
        vertices = [flow.vertices[v] for v in inside]
        makes = tuple(u for vertex in vertices for u in vertex.makes)
        reads = tuple(u for vertex in vertices for u in vertex.reads if u not in makes)
        constants = tuple(u for vertex in vertices for u in vertex.constants)
        groups.append(Vertex(reads, constants, makes, sum(vertex.nodes for vertex in vertices)))
    return Flow(groups, flow.nbytes, flow.results)


class Extent:
    """What a region has, as vertices are added in a topological order."""

    def __init__(self, flow: Flow, vertices: Iterable[int] = ()) -> None:
        """Start with `vertices`, numbers of vertices of `flow`, in this order.

        `_made` has the vertex that makes a value, `_open` the number of its readers outside,
        `_part` the parents of a union-find over connected vertices; all by number.
        """
        self._flow = flow
        self.order: list[int] = []
        self.inputs: set[int] = set()
        self.outputs: set[int] = set()
        self.nodes = self.constant_bytes = self.parts = 0
        self._constants: set[int] = set()
        self._made: dict[int, int] = {}
        self._open: dict[int, int] = {}  # readers of a value made here that are not here
        self._part: dict[int, int] = {}
        for v in vertices:
            self.add(v)

    def heavier(self, index: int) -> tuple[int, int]:
        """(operators, bytes of constants) of the region together with `index`."""
        vertex = self._flow.vertices[index]
        fresh = set(vertex.constants) - self._constants
        return self.nodes + vertex.nodes, self.constant_bytes + self._bytes(fresh)

    def _bytes(self, values: Iterable[int]) -> int:
        return sum(self._flow.nbytes[u] for u in values)

    def add(self, index: int) -> None:
        """Put `index` behind the vertices that are in the region."""
        flow, vertex = self._flow, self._flow.vertices[index]
        self.nodes, self.constant_bytes = self.heavier(index)
        self._constants.update(vertex.constants)
        self.order.append(index)
        # A vertex joins the parts whose values it reads; one that reads none is a part of its own.
        joined = {self._root(self._made[u]) for u in vertex.reads if u in self._made}
        self._part[index] = index
        for root in joined:
            self._part[root] = index
        self.parts += 1 - len(joined)
        # A value stays an output while a reader outside is left.
        for u in set(vertex.reads):
            if u not in self._made:
                self.inputs.add(u)
                continue
            self._open[u] -= 1
            if not self._open[u] and u not in flow.results:
                self.outputs.discard(u)
        for u in vertex.makes:
            self._made[u] = index
            self._open[u] = len(flow.readers[u])
            if self._open[u] or u in flow.results:
                self.outputs.add(u)

    def _root(self, index: int) -> int:
        """The representative of the connected part of vertex `index`; paths are halved on
        the way.
        """
        while self._part[index] != index:
            self._part[index] = index = self._part[self._part[index]]
        return index

    def live_bytes(self) -> int:
        """The most bytes of values that the region holds while one of its vertices runs (see
        `Limits`).

        Inputs are held from the start, outputs to the end, everything until its last reader.
        """
        last: dict[int, int] = {}
        for step, v in enumerate(self.order):
            for u in (*self._flow.vertices[v].reads, *self._flow.vertices[v].makes):
                last[u] = step
        dying: list[int] = [0] * len(self.order)
        for u, step in last.items():
            if u not in self.outputs:
                dying[step] += self._flow.nbytes[u]
        held = most = self._bytes(self.inputs)
        for step, v in enumerate(self.order):
            held += self._bytes(self._flow.vertices[v].makes)
            most = max(most, held)
            held -= dying[step]
        return most


@dataclass(frozen=True, slots=True)
class Rule:
    """The limits of backend `name` on regions of a graph, with its own check (`fits`)."""

    name: str
    flow: Flow
    limits: Limits
    fits: WhyNot | None = None
    _known: dict[tuple[int, ...], str] = field(default_factory=dict)

    def contracted(self, flow: Flow, members: Sequence[Sequence[int]]) -> Rule:
        """The same limits where vertex g of `flow` stands for the vertices `members[g]`."""
        fits = self.fits

        def check(groups: Sequence[int]) -> str:
            """The reason why the vertices in `groups` together are no region, "" if they
            are one.
            """
            assert fits is not None
            return fits(sorted(v for g in groups for v in members[g]))

        return Rule(self.name, flow, self.limits, None if fits is None else check)

    def why_not(self, members: Sequence[int]) -> str:
        """Why `members`, in ascending order, cannot be one region; "" if they can."""
        key = tuple(members)
        known = self._known.get(key)
        if known is None:
            known = self.excess(Extent(self.flow, key)) or self.refusal(key)
            if len(key) <= REMEMBERED:
                self._known[key] = known
        return known

    def excess(self, extent: Extent) -> str:
        """Which limit the region exceeds, but that on live bytes; "" for none."""
        limits, name = self.limits, self.name
        counted = (
            (len(extent.inputs), limits.inputs, "inputs"),
            (len(extent.outputs), limits.outputs, "outputs"),
            (extent.nodes, limits.nodes, "operators"),
            (extent.constant_bytes, limits.constant_bytes, "bytes of constants"),
        )
        for number, most, noun in counted:
            if most is not None and number > most:
                return f"a region of {number} {noun} ({name} takes at most {most})"
        if limits.connected and extent.parts > 1:
            return f"a region in {extent.parts} parts ({name} takes connected ones)"
        return ""

    def too_heavy(self, extent: Extent, index: int) -> bool:
        """Whether no region that has those of `extent` and `index` is within the limits."""
        nodes, held = extent.heavier(index)
        limits = self.limits
        return (limits.nodes is not None and nodes > limits.nodes) or (
            limits.constant_bytes is not None and held > limits.constant_bytes
        )

    def may_fit(self, members: Sequence[int]) -> bool:
        """Whether `members` are no more operators than a region takes: quickly answered."""
        most = self.limits.nodes
        return most is None or sum(self.flow.vertices[v].nodes for v in members) <= most

    def refusal(self, members: Sequence[int]) -> str:
        """What the limit on live bytes and the backend's own check say."""
        most = self.limits.live_bytes
        if most is not None:
            held = Extent(self.flow, members).live_bytes()
            if held > most:
                return f"a region that holds {held} bytes ({self.name} holds at most {most})"
        return "" if self.fits is None else self.fits(members)
