# SPDX-License-Identifier: Apache-2.0
"""Limits on regions: never exceeded, the fewest regions within them, reasons for what goes back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from aot.errors import BackendError, InternalError, ModelError, UnsupportedError
from aot.partition.check import check_partition
from aot.partition.regions import merge_regions
from aot.partition.result import Partition
from aot.partition.select import select
from aot.vendor.backend import Backend, RegionView
from aot.vendor.limits import Limits
from graphs import model
from limited_graphs import best_by_brute_force, outcome, random_problem, violations
from partition_graphs import host, typed_graph, vendor

FULL = bool(os.environ.get("AOT_FULL"))
GRAPHS, SMALL_GRAPHS = (10_000, 3_000) if FULL else (500, 300)


def test_random_graphs_stay_within_random_limits_and_have_no_cycle() -> None:
    bound = given_back = 0
    for seed in range(GRAPHS):
        problem = random_problem(seed)
        found = merge_regions(problem.preds, problem.colours, rules=problem.rules)
        assert not violations(problem, found.region), f"seed {seed}"
        back, count = outcome(found.region, problem.colours)
        assert found.certificate.count == count >= found.certificate.lower_bound, f"seed {seed}"
        assert len(found.given_back) == back
        assert all(found.given_back.values())
        bound += found.certificate.optimal
        given_back += back
    assert bound > GRAPHS // 3
    assert given_back > GRAPHS


def test_up_to_ten_vertices_the_best_regions_are_found() -> None:
    for seed in range(SMALL_GRAPHS):
        problem = random_problem(seed, 2 + seed % 9)
        found = merge_regions(problem.preds, problem.colours, rules=problem.rules)
        assert outcome(found.region, problem.colours) == best_by_brute_force(problem), seed
        assert found.certificate.optimal


def test_a_thousand_vertices_state_their_gap() -> None:
    problem = random_problem(0, 1000)
    found = merge_regions(problem.preds, problem.colours, rules=problem.rules)
    assert not violations(problem, found.region)
    assert found.certificate.count > found.certificate.lower_bound
    assert f"at least {found.certificate.lower_bound} are needed" in found.certificate.text()


def acme(limits: Limits, *operators: str) -> Backend:
    made = vendor("acme", *(operators or ("Exp", "Add", "Neg")))
    made.limits = limits
    return made


def tree() -> ir.Graph:
    """Four inputs' worth of reads: e = exp(x), n = neg(x), s = e + n, t = s + x, y = t + s."""
    rows = [
        ("Exp", "x", "e"),
        ("Neg", "x", "n"),
        ("Add", "e n", "s"),
        ("Add", "s x", "t"),
        ("Add", "t s", "y"),
    ]
    return typed_graph(rows, [4], "y")


def regions(partition: Partition) -> list[tuple[str, ...]]:
    return [r.nodes for r in partition.regions]


def test_limits_cut_a_region_where_they_must() -> None:
    free = select(tree(), [acme(Limits()), host()])
    assert len(regions(free)) == 1
    two = select(tree(), [acme(Limits(nodes=3)), host()])
    assert [len(r) for r in regions(two)] in ([2, 3], [3, 2])
    assert "2 regions (the fewest possible)" in two.text()
    one_result = select(tree(), [acme(Limits(outputs=1, nodes=3)), host()])
    assert regions(one_result)[0] == ("n0_Exp", "n1_Neg", "n2_Add")


def test_live_bytes_count_inputs_and_what_is_still_read() -> None:
    assert len(regions(select(tree(), [acme(Limits(live_bytes=64)), host()]))) == 1
    tight = select(tree(), [acme(Limits(live_bytes=32)), host()])
    assert "n2_Add" not in [n for r in regions(tight) for n in r]
    said = [r.reason for r in tight.refusals]
    assert "a region that holds 48 bytes (acme holds at most 32)" in said


def test_connected_regions_have_one_part() -> None:
    rows = [("Neg", f"x{i}", f"y{i}") for i in range(3)]
    proto = model(rows, {f"x{i}": [4] for i in range(3)}, {f"y{i}": [4] for i in range(3)})
    graph = ir.from_proto(proto).graph
    assert len(regions(select(graph, [acme(Limits()), host()]))) == 1
    assert len(regions(select(graph, [acme(Limits(connected=True)), host()]))) == 3


def test_constants_are_counted_once_and_a_smaller_match_may_fit() -> None:
    consts = {"w": np.ones(4, np.float32), "v": np.ones(4, np.float32)}
    rows = [("Add", "x w", "a"), ("Add", "a w", "b"), ("Add", "b v", "y")]
    graph = typed_graph(rows, [4], "y", consts)
    shared = select(graph, [acme(Limits(constant_bytes=16)), host()])
    assert regions(shared) == [("n0_Add", "n1_Add"), ("n2_Add",)]
    both = acme(Limits(constant_bytes=16))
    both.pattern(lambda op, x, p, q: op.Add(op.Add(x, p), q)).name = "adds"
    assert [s.pattern.name for s in select(graph, [both, host()]).items] == ["adds", "add"]
    none = select(graph, [acme(Limits(constant_bytes=15)), host()])
    assert not none.regions
    said = "16 bytes of constants (a region takes at most 15)"
    assert {(r.backend, r.reason) for r in none.refusals} == {("acme", said)}


def test_what_a_backend_gives_back_goes_to_the_next_one() -> None:
    other = vendor("other", "Add")
    found = select(tree(), [acme(Limits(inputs=1)), other, host()])
    taken = {n: r.backend for r in found.regions for n in r.nodes}
    assert set(taken.values()) <= {"acme", "other"}
    found = select(tree(), [acme(Limits(inputs=0)), other, host()])
    assert {r.backend for r in found.regions} == {"other"}
    reasons = {(r.node, r.source, r.reason) for r in found.refusals}
    assert ("n0_Exp", "acme.exp", "a region of 1 inputs (acme takes at most 0)") in reasons


def test_the_whole_graph_or_nothing() -> None:
    whole = Limits(whole=True)
    assert len(select(tree(), [acme(whole), host()]).regions) == 1
    found = select(tree(), [acme(whole, "Exp", "Add"), host()])
    assert not found.regions
    assert "acme takes a graph as a whole, and n1_Neg (Neg) is another's" in found.text()
    assert not select(tree(), [acme(replace(whole, inputs=0)), host()]).regions


def test_a_backend_checks_candidates_itself() -> None:
    made = acme(Limits())

    @made.fits
    def no_sum_beside_an_exponential(region: RegionView) -> Iterator[tuple[bool, str]]:
        kinds = {m.root.op_type for _, m in region.matches}
        yield not {"Exp", "Add"} <= kinds, "an exponential and a sum in one region"

    found = select(tree(), [made, host()])
    assert regions(found) == [("n0_Exp", "n1_Neg"), ("n2_Add", "n3_Add", "n4_Add")]

    @made.fits
    def broken(region: RegionView) -> Iterator[tuple[bool, str]]:
        raise ValueError("no luck")

    with pytest.raises(BackendError, match="acme: its check of regions raised ValueError: no luck"):
        select(tree(), [made, host()])


def test_what_the_user_asks_for_beyond_the_limits_is_an_error() -> None:
    graph = tree()
    for node in graph:
        node.metadata_props["aot.backend"] = "acme"
        node.metadata_props["aot.region"] = "all"
    with pytest.raises(ModelError, match="a region of 5 operators"):
        select(graph, [acme(Limits(nodes=4)), host()])
    assert len(select(graph, [acme(Limits(nodes=5)), host()]).regions) == 1
    graph = tree()
    next(iter(graph)).metadata_props["aot.backend"] = "acme"
    with pytest.raises(UnsupportedError, match=r"given to acme, .* a region of 1 inputs"):
        select(graph, [acme(Limits(inputs=0)), host()])


def test_the_checker_counts_limits_for_itself() -> None:
    found = select(tree(), [acme(Limits()), host()])
    for limits, message in (
        (Limits(inputs=0), "has 1 inputs, not 0"),
        (Limits(outputs=0), "has 1 outputs, not 0"),
        (Limits(nodes=4), "has 5 operators, not 4"),
        (Limits(live_bytes=63), "has 64 bytes at a time, not 63"),
    ):
        with pytest.raises(InternalError, match=message):
            check_partition(tree_of(found), found, [acme(limits)])


def tree_of(partition: Partition) -> ir.Graph:
    graph = partition.items[0].match.root.ir.graph
    assert isinstance(graph, ir.Graph)
    return graph
