# SPDX-License-Identifier: Apache-2.0
"""What a node reads, what a match needs: edges of the graph and of its quotient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aot.ir.deferred_import import ir
from aot.ir.node_traits import moves_no_byte
from aot.vendor.match import Match


def read_by(node: ir.Node) -> Iterator[ir.Value]:
    """Values a node reads, those that its sub-graphs take from around them included."""
    for value in node.inputs:
        if value is not None:
            yield value
    for attribute in node.attributes.values():
        kind = attribute.type.name
        graphs = (attribute.value,) if kind == "GRAPH" else attribute.value
        if kind in ("GRAPH", "GRAPHS"):
            for graph in graphs:
                yield from graph.outputs
                for inner in graph:
                    yield from read_by(inner)


def is_view(match: Match) -> bool:
    """Whether a match is a view alone, which no backend computes."""
    return moves_no_byte([n.ir for n in match.nodes])


def node_dependencies(nodes: Sequence[ir.Node]) -> list[list[int]]:
    """For each node, the indices of the nodes whose values it reads, ascending."""
    position = {id(n): i for i, n in enumerate(nodes)}
    needs = []
    for node in nodes:
        found = {position.get(id(v.producer()), -1) for v in read_by(node)}
        needs.append(sorted(found - {-1}))
    return needs


def dependencies(matches: Sequence[Match]) -> list[list[int]]:
    """For each match, the ascending indices of the other matches whose results it reads."""
    owner = {id(n.ir): i for i, m in enumerate(matches) for n in m.nodes}
    needs = []
    for i, match in enumerate(matches):
        found = set()
        for node in match.nodes:
            for value in read_by(node.ir):
                producer = value.producer()
                found.add(owner.get(id(producer), i) if producer is not None else i)
        needs.append(sorted(found - {i}))
    return needs
