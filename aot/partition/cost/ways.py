# SPDX-License-Identifier: Apache-2.0
"""The records of the search by cost: a way to compute the nodes so far, and what matters of it.

Regions that may be joined have places; a set of regions is a number with a bit per place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aot.partition.cost.loads import EMPTY, Load


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
    """A region that may be joined; `place` is its bit in sets, `needs` the set of those before,
    `load` what it has of what its owner limits."""

    place: int
    number: int
    owner: int
    label: str
    needs: int
    load: Load = EMPTY


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


def bit(place: int) -> int:
    """The set of the one region at `place`, of none for -1."""
    return 1 << place if place >= 0 else 0


def union(sets: Iterable[int]) -> int:
    """The union of bit sets."""
    every = 0
    for one in sets:
        every |= one
    return every


def closure(regions: Sequence[Region], needs: int) -> int:
    """A set of regions with all that these need."""
    for region in regions:
        if needs >> region.place & 1:
            needs |= region.needs
    return needs


def finished(regions: Sequence[Region], values: dict[int, Known]) -> int:
    """The set of regions that no tile can join which reads one of `values`, as bits by place."""
    every = sum(1 << r.place for r in regions)
    gone = every
    for known in values.values():
        if not gone:
            break
        own = bit(known.home)
        gone &= closure(regions, known.needs | own) & ~own
    return gone
