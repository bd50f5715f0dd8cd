# SPDX-License-Identifier: Apache-2.0
"""What the regions of a search hold, and whether they are within the limits of their backends.

Operators, constants, inputs and outputs of a region only become more as tiles join it, so a region
that has too many is given up at once. Live bytes, connectedness and a backend's own check are
asked of a region that nothing can join any more. A strict search asks about all limits whenever a
tile joins, as if it were the last one: so it never gets into a dead end.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence, Set
from typing import NamedTuple

from aot.partition.cost.problem import Problem
from aot.partition.limits import Flow, Rule, Vertex

#: Tiles of a region that a strict search asks about: the time of an answer grows with their number.
ASKED = 256
_NONE: frozenset[int] = frozenset()


class Load(NamedTuple):
    """What a region has: operators, numbers of constants, values that enter and that leave, and the
    number of the list of its tiles (-1: it has none), `size` tiles long."""

    nodes: int = 0
    constants: frozenset[int] = _NONE
    enter: frozenset[int] = _NONE
    leave: frozenset[int] = _NONE
    tiles: int = -1
    size: int = 0


EMPTY = Load()


class Loads:
    """The loads of the regions of one problem.

    A list of tiles is a number: `_lists` has (number of the list before, tile) for each, so that
    equal lists have equal numbers and share memory.
    """

    def __init__(self, problem: Problem) -> None:
        """Prepare `problem`; `_whole` are owners of which limits depend on a region as a whole."""
        self._problem = problem
        self._lists: list[tuple[int, int]] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self._answers: dict[tuple[int, frozenset[int]], bool] = {}
        # What each tile adds at least, so that a region without room for any tile is known to be
        # full.
        self._least = {
            owner: min(
                (
                    c.nodes
                    for t, c in zip(problem.tiles, problem.contents, strict=True)
                    if t.owner == owner
                ),
                default=0,
            )
            for owner in problem.limits
        }
        # Values that views lead on: where they are read, the region that made them is joined.
        self._viewed = {v for t in problem.tiles if t.held for v in t.reads}
        self._asked_about = {
            owner
            for owner, limits in problem.limits.items()
            if limits.live_bytes is not None or owner in problem.checked
        }
        connected = {owner for owner, limits in problem.limits.items() if limits.connected}
        self._whole = self._asked_about | connected

    def joined(self, load: Load, index: int, enter: Set[int], leave: Set[int]) -> Load:
        """`load` with tile `index`, which reads `enter` from outside and makes results `leave`."""
        content = self._problem.contents[index]
        key = load.tiles, index
        number = self._numbers.setdefault(key, len(self._lists))
        if number == len(self._lists):
            self._lists.append(key)
        return Load(
            load.nodes + content.nodes,
            load.constants.union(content.constants),
            load.enter | enter,
            load.leave | leave,
            number,
            load.size + 1,
        )

    def exceeds(self, owner: int, load: Load) -> bool:
        """Whether a region has too much already, whatever joins it."""
        limits = self._problem.limits[owner]
        sizes = self._problem.constant_bytes
        counted = (
            (load.nodes, limits.nodes),
            (len(load.enter), limits.inputs),
            (len(load.leave), limits.outputs),
        )
        if any(most is not None and amount > most for amount, most in counted):
            return True
        most = limits.constant_bytes
        return most is not None and sum(sizes[u] for u in load.constants) > most

    def is_full(self, owner: int, load: Load, held: Iterable[int]) -> bool:
        """Whether no tile can join a region because of its operators.

        A view counts as no operator: it can join a region that made one of the live values `held`.
        """
        most = self._problem.limits[owner].nodes
        full = most is not None and load.nodes + self._least[owner] > most
        return full and self._viewed.isdisjoint(held)

    def key(self, owner: int, load: Load, live: Container[int]) -> object:
        """A key of `load`, equal for loads between which no later tile can tell.

        It has the amounts that the backend limits: of values that enter or leave the region their
        number, and which of them are `live` (read later). Where a backend judges a region as a
        whole the key has all its tiles and results.
        """
        if owner in self._whole:
            return load.tiles, load.leave
        limits = self._problem.limits[owner]
        crossing = [
            (len(values), tuple(sorted(v for v in values if v in live))) if most is not None else ()
            for values, most in ((load.enter, limits.inputs), (load.leave, limits.outputs))
        ]
        nodes = -1 if limits.nodes is None else load.nodes
        return nodes, _NONE if limits.constant_bytes is None else load.constants, *crossing

    def stands_alone(self, index: int) -> bool:
        """Whether a tile can be a region by itself, all its results leaving it."""
        tile = self._problem.tiles[index]
        if tile.owner not in self._problem.limits:
            return True
        load = self.joined(EMPTY, index, set(tile.reads), set(tile.makes))
        return self.fits(tile.owner, load, load.leave)

    def doubtful(self, owner: int, load: Load, joined: bool, leave: frozenset[int]) -> bool:
        """Whether a strict search gives up a region that could be within its limits later.

        A region that it keeps is within its limits if nothing joins it any more: `leave` are its
        values that are read later. `joined` says whether the last tile reads something of it.
        """
        limits = self._problem.limits[owner]
        if limits.connected and load.size > 1 and not joined:
            return True
        if owner not in self._asked_about:
            return self.exceeds(owner, load._replace(leave=leave))
        return load.size > ASKED or not self.fits(owner, load, leave)

    def fits(self, owner: int, load: Load, leave: frozenset[int]) -> bool:
        """Whether a region is within all limits if it is ready and the values `leave` leave it."""
        if owner not in self._whole:
            return not self.exceeds(owner, load._replace(leave=leave))
        key = load.tiles, leave
        if key not in self._answers:
            self._answers[key] = self._asked(owner, load.tiles, leave)
        return self._answers[key]

    def _asked(self, owner: int, number: int, leave: frozenset[int]) -> bool:
        """The answer of the limits' own rule for a list of tiles, in the order of the graph."""
        problem, tiles = self._problem, list[int]()
        while number >= 0:
            number, last = self._lists[number]
            # The rule asks about the graph's order, in which its members are added one by one.
            tiles.append(last)
        tiles.sort(key=lambda index: problem.contents[index].rank)
        numbers: dict[tuple[bool, int], int] = {}
        nbytes: list[int] = []

        def local(values: Sequence[int], constant: bool = False) -> tuple[int, ...]:
            """Numbers of values or constants in the flow of this region alone."""
            sizes = problem.constant_bytes if constant else problem.sizes
            for v in values:
                if (constant, v) not in numbers:
                    numbers[constant, v] = len(nbytes)
                    nbytes.append(sizes[v])
            return tuple(numbers[constant, v] for v in values)

        vertices = []
        for index in tiles:
            tile, content = problem.tiles[index], problem.contents[index]
            constants = local(content.constants, constant=True)
            vertices.append(Vertex(local(tile.reads), constants, local(tile.makes), content.nodes))
        flow = Flow(vertices, nbytes, frozenset(local(sorted(leave))))
        limits, check = problem.limits[owner], problem.checked.get(owner)
        asks = None if check is None else lambda members: check([tiles[i] for i in members])
        return not Rule("", flow, limits, asks).why_not(range(len(tiles)))
