# SPDX-License-Identifier: Apache-2.0
"""The choice for a graph and for the bodies of its control flow, each a graph of its own.

A body has its own cover, regions, certificate and check; the numbers of regions go on from the
graph around it, so that each is unique in the model.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from aot.ir.deferred_import import ir
from aot.partition.cost.costs import Costs
from aot.partition.result import BodyPart, Partition
from aot.partition.select import select
from aot.shapes.control_flow_isolated import BRANCHES, isolated_nodes
from aot.vendor.backend import Backend


def select_all(
    graph: ir.Graph,
    backends: Sequence[Backend],
    offload_limit: int | None = None,
    survey: bool = False,
    marked_only: Collection[str] = (),
    costs: Costs | None = None,
) -> Partition:
    """`select` for `graph`, then for the bodies in the order of their nodes.

    `offload_limit` counts the regions of all. Raises what `select` raises.
    """
    own = select(graph, backends, offload_limit, survey, marked_only, costs)
    used = len(own.regions)
    parts = []
    for node in isolated_nodes(graph):
        for label in BRANCHES if node.op_type == "If" else ("body",):
            body: ir.Graph = node.attributes[label].as_graph()
            left = None if offload_limit is None else max(0, offload_limit - used)
            found = select_all(body, backends, left, survey, marked_only, costs)
            parts.append(BodyPart(str(node.name), label, body, shifted(found, used)))
            used += region_count(found)
    return replace(own, bodies=tuple(parts))


def region_count(partition: Partition) -> int:
    """Regions of a partition and all within."""
    return len(partition.regions) + sum(region_count(b.partition) for b in partition.bodies)


def shifted(partition: Partition, by: int) -> Partition:
    """The same with region numbers `by` higher."""
    items = tuple(s if s.region < 0 else replace(s, region=s.region + by) for s in partition.items)
    inner = tuple(replace(b, partition=shifted(b.partition, by)) for b in partition.bodies)
    return replace(partition, items=items, bodies=inner)
