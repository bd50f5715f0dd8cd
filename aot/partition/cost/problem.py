# SPDX-License-Identifier: Apache-2.0
"""The problem of the choice by cost, as numbers, and its solution.

Nodes, values, backends and layouts are numbers; `aot/partition/cost/tiles.py` says which ones they
are in a graph, `aot/partition/cost/search.py` solves the problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aot.partition.limits import WhyNot
from aot.vendor.limits import Limits

#: (layout, backend that made the value) of what a tile reads → the layouts that it reads its
#: operands in and makes its results in. Layouts are numbers, 0 is ONNX's own.
LayoutRule = Callable[[int, tuple[tuple[int, int], ...]], tuple[Sequence[int], Sequence[int]]]
#: Nanoseconds to convert a value from one layout to another.
Conversion = Callable[[int, int, int], float]


class Tile(NamedTuple):
    """One way to compute the nodes `covers`, ascending; the last one makes the results `makes`.

    `owner` is the number of the backend, `reads` are the values it needs without constants. Tiles
    of one `label` ("" = none) are in a region of their own. A view has `held`: the backends whose
    regions can hold it.
    """

    covers: tuple[int, ...]
    owner: int
    cost: float
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    label: str = ""
    held: frozenset[int] | None = None


class Content(NamedTuple):
    """What a tile counts for limits on regions: operators, numbers of constants, and its place in
    the order in which tiles of a region run."""

    nodes: int
    constants: tuple[int, ...]
    rank: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Nodes 0, 1, … in topological order, the tiles that can compute them, and what these cost.

    Values have `sizes` in bytes, `readers` (nodes), and may be `inputs` or `outputs` of the graph.
    Backend b takes `enter[b]` nanoseconds per region and `border[b]` per byte that passes the
    border of a region; both are 0 for backends whose regions cost nothing. A region of backend b is
    within `limits[b]` and the check `checked[b]` of tiles in the order they run, where there are
    such; then `contents` has what each tile counts, and `constant_bytes` the sizes of constants.
    """

    nodes: int
    tiles: Sequence[Tile]
    sizes: Sequence[int] = ()
    readers: Sequence[Sequence[int]] = ()
    inputs: Sequence[int] = ()
    outputs: frozenset[int] = frozenset()
    enter: Sequence[float] = ()
    border: Sequence[float] = ()
    layouts: LayoutRule | None = None
    convert: Conversion = field(default=lambda value, there, here: 0.0)
    limits: Mapping[int, Limits] = field(default_factory=dict)
    checked: Mapping[int, WhyNot] = field(default_factory=dict)
    contents: Sequence[Content] = ()
    constant_bytes: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Solution:
    """The tiles chosen, in the order of their last nodes, and the region of each.

    Regions are numbered as they were begun, -1 for tiles of backends whose regions cost nothing.
    No way to compute all nodes costs less than `bound`.
    """

    tiles: tuple[int, ...]
    regions: tuple[int, ...]
    total: float
    bound: float
