# SPDX-License-Identifier: Apache-2.0
"""A region that the user gives to a backend was held to the limits of a later backend that computes
nothing, and given back for it."""

from __future__ import annotations

from aot.partition.select import select
from aot.vendor.limits import Limits
from partition_graphs import host, typed_graph, vendor


def test_a_region_of_one_backend_is_within_its_own_limits_only() -> None:
    graph = typed_graph([("Exp", "x", "e"), ("Neg", "e", "y")], [4], "y")
    for node in graph:
        node.metadata_props["aot.backend"] = "free"
        node.metadata_props["aot.region"] = "all"
    idle = vendor("idle", "Sin")
    idle.limits = Limits(nodes=1)
    found = select(graph, [vendor("free", "Exp", "Neg"), idle, host()])
    assert [r.nodes for r in found.regions] == [("n0_Exp", "n1_Neg")]
