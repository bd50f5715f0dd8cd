# SPDX-License-Identifier: Apache-2.0
"""What stands in the way of calling a choice by cost the cheapest possible.

The choice compares one cover per backend and charges values by the pairs of units they pass. That
is all there is only where no other cover exists and nothing else costs time; this module looks for
each exception. It returns reasons, in words that follow "not proven the cheapest: ".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aot.ir.deferred_import import ir
from aot.ir.layout import PLAIN, Layout
from aot.partition.annotate import PORTABLE, mark_of
from aot.partition.cost_model import Costs
from aot.partition.covering import MOST_TRIED
from aot.vendor.backend import Backend, Pattern
from aot.vendor.match import Match
from aot.vendor.pattern import Results, root_ops

#: Backend and the id() of every node of a match.
Key = tuple[str, frozenset[int]]
#: A way to cover the nodes of a unit.
Covering = frozenset[Key]
#: Ways to cover one unit that are compared with those the choice knew.
MOST_WAYS = 64

ENTERING = "entering a region is no part of the choice"
CROSSING = "values are charged for each reader on their way into a vendor's memory"
LAYOUTS = "layouts depend on the neighbours chosen"
OVERLAP = "matches overlap, and not every way to cover the nodes was compared"
ASKED = "the user decided for some nodes"
CYCLE = "a match would have closed a cycle"
GIVEN_BACK = "regions were given back to portable C afterwards"
LIMITED = "--offload-limit"
SEVERAL_FORMS = "the other form of the model was not proven either"


def doubts(
    graph: ir.Graph,
    backends: Sequence[Backend],
    layouts: Sequence[Mapping[str, Layout]],
    units: Sequence[Sequence[ir.Node]],
    known: Sequence[Sequence[Mapping[Key, float]]],
    costs: Costs,
) -> list[str]:
    """Why the cheapest labels of `units` need not be the cheapest partition; empty if they are.

    `backends` are those that the choice compared. `known` holds for each unit the ways that the
    choice compared, each with the nanoseconds of its matches; `layouts` are those of every match in
    every cover.
    """
    vendors = [b for b in backends if b.name != PORTABLE]
    speeds = [costs.speed(b) for b in vendors]
    found = []
    if any(s.enter_ns for s in speeds):
        found.append(ENTERING)
    if any(s.border_bytes_per_ns for s in speeds):
        found.append(CROSSING)
    if any(layout != PLAIN for named in layouts for layout in named.values()):
        found.append(LAYOUTS)
    if any(mark_of(n).backend for n in graph):
        found.append(ASKED)
    elif not found and not _all_known(graph, backends, units, known, costs):
        found.append(OVERLAP)
    return found


def _all_known(
    graph: ir.Graph,
    backends: Sequence[Backend],
    units: Sequence[Sequence[ir.Node]],
    known: Sequence[Sequence[Mapping[Key, float]]],
    costs: Costs,
) -> bool:
    """Whether every way to cover every unit was compared, at its least cost."""
    possible: dict[Key, float] = {}
    for backend in backends:
        for pattern, match in _matches(graph, backend):
            if match is None:
                return False
            key = backend.name, frozenset(id(n.ir) for n in match.nodes)
            cost = costs.of(backend, pattern, match)[0]
            possible[key] = min(cost, possible.get(key, cost))
    by_node: dict[int, list[Key]] = {}
    for key in possible:
        for node in key[1]:
            by_node.setdefault(node, []).append(key)
    for nodes, compared in zip(units, known, strict=True):
        least = all(cost <= possible.get(k, cost) + 1e-9 for w in compared for k, cost in w.items())
        ways = _coverings([id(n) for n in nodes], by_node)
        if not least or ways is None or not ways <= {frozenset(w) for w in compared}:
            return False
    return True


def _matches(graph: ir.Graph, backend: Backend) -> Iterator[tuple[Pattern, Match | None]]:
    """Every match that the checks accept; None where there are too many ways to try.

    Matches with several results count as too many: which of them go together depends on cycles.
    """
    by_kind: dict[tuple[str, str], list[ir.Node]] = {}
    for node in graph:
        by_kind.setdefault((node.domain, node.op_type), []).append(node)
    for pattern in backend.patterns:
        for node in (n for kind in root_ops(pattern.graph) for n in by_kind.get(kind, ())):
            for tried, match in enumerate(pattern.matches(node)):
                if tried == MOST_TRIED or isinstance(pattern.graph, Results):
                    yield pattern, None
                    return
                if not pattern.refusals(match):
                    yield pattern, match


def _coverings(nodes: Sequence[int], by_node: Mapping[int, Sequence[Key]]) -> set[Covering] | None:
    """Every exact cover of `nodes` by matches; None if there are too many, or one reaches out."""
    inside = frozenset(nodes)
    if any(not key[1] <= inside for node in nodes for key in by_node.get(node, ())):
        return None
    found: set[Covering] = set()
    stack: list[tuple[frozenset[int], Covering]] = [(inside, frozenset())]
    while stack:
        left, way = stack.pop()
        if not left:
            found.add(way)
        else:
            first = next(n for n in nodes if n in left)
            fitting = [key for key in by_node.get(first, ()) if key[1] <= left]
            stack += [(left - key[1], way | {key}) for key in fitting]
        if len(found) + len(stack) > MOST_WAYS:
            return None
    return found
