# SPDX-License-Identifier: Apache-2.0
"""Views are nobody's: a node that moves no byte belongs to no backend and cuts no region.

Portable C matches every such node alone, and no vendor is offered it alone. A view goes where its
operand is made: into that region, if something there reads the view, else it stays outside, where
it costs nothing either. The calls of a region see a view as memory of the operand. A backend that
lowers a region as a whole has no such memory: its own pattern of the view says whether the region
can hold it, and how; without one the view stays outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import operand
from aot.partition.covering import Cover
from aot.partition.graph import is_view
from aot.vendor.backend import Backend, Pattern
from aot.vendor.match import Match

Chosen = list[tuple[Pattern, Match]]


def made_inside(
    cover: Cover, chosen: Chosen, backends: Mapping[str, Backend]
) -> tuple[Chosen, list[int]]:
    """`chosen`, in topological order, with the views that go where their operands are made.

    The numbers are, for each match, that of the vendor's match whose region it is in: its own but
    for such views, which have that vendor's name.
    """
    owner = {id(n.ir): i for i, (_, m) in enumerate(chosen) for n in m.nodes}
    found, homes = list(chosen), list(range(len(chosen)))
    for i, (pattern, match) in enumerate(chosen):
        maker = owner.get(id(_operand(match).producer())) if is_view(match) else None
        if maker is None or found[maker][0].backend not in backends:
            continue
        held = pattern, match
        whole = found[maker][0].region_lowering is not None
        name = found[maker][0].backend
        own = cover.held_as(backends[name], match.root.ir) if whole else held
        if own is not None:
            found[i] = own if whole else (replace(pattern, backend=name), match)
            homes[i] = homes[maker]
    return found, homes


def _operand(match: Match) -> ir.Value:
    """The value of which a view shows the bytes: the first input of its node."""
    return operand(match.root.ir, 0)


def without_last(
    chosen: Chosen, homes: Sequence[int], region: Sequence[int], portable: Chosen
) -> tuple[Chosen, list[int]]:
    """(matches, regions) where views that nothing in their region reads are outside of it.

    `portable` are the matches before `made_inside`. Backends that lower whole regions keep theirs.
    """
    found, regions = list(chosen), list(region)
    reads = {r: set[int]() for r in region}
    for i in reversed(range(len(chosen))):
        pattern, match = chosen[i]
        inside = id(match.root.ir.outputs[0]) in reads[region[i]]
        if homes[i] != i and not inside and pattern.region_lowering is None:
            found[i], regions[i] = portable[i], -1
            continue
        reads[region[i]].update(id(v) for n in match.nodes for v in n.ir.inputs)
    return found, regions
