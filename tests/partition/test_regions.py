# SPDX-License-Identifier: Apache-2.0
"""Regions: the fewest, never cyclic, certified; compared with brute force and TVM's two rules."""

from __future__ import annotations

import itertools
import os
import random
import time
from dataclasses import replace

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from aot.errors import InternalError
from aot.options import Options
from aot.partition.check import check_partition
from aot.partition.graph import dependencies
from aot.partition.region_search import condensed
from aot.partition.regions import merge_regions, quotient_order
from aot.partition.result import Partition
from aot.partition.select import select
from aot.pipeline import partition_model
from aot.vendor.backend import Backend
from graphs import model
from partition_graphs import densenet, host, table, tangle, typed_graph, vendor
from region_rules import (
    NAMED,
    Graph,
    fewest_by_groupings,
    fewest_by_orders,
    is_acyclic,
    offloaded,
    random_graph,
    relax_rule,
    relay_rule,
)

FULL = bool(os.environ.get("AOT_FULL"))
GRAPHS = 100_000 if FULL else 2_000
SLOW = 4  # how much slower than ours a machine may be before a time limit fails


def proven(graph: Graph) -> int:
    """The number of regions, after every claim about them was tested."""
    preds, colours = graph
    found = merge_regions(preds, colours)
    inside = {(r, c) for c, r in zip(colours, found.region, strict=True) if r >= 0 or c >= 0}
    assert all(r >= 0 and c >= 0 for r, c in inside) and len(inside) == len(dict(inside))
    group = [r if r >= 0 else len(preds) + v for v, r in enumerate(found.region)]
    assert is_acyclic(preds, group)
    place = {v: i for i, v in enumerate(found.certificate.order)}
    assert sorted(place) == list(range(len(preds)))
    assert all(place[p] < place[v] for v, before in enumerate(preds) for p in before)
    runs = [group[v] for v in found.certificate.order]
    assert len(set(runs)) == 1 + sum(a != b for a, b in itertools.pairwise(runs))
    count = offloaded(group, colours)
    assert found.certificate.count == count >= found.certificate.lower_bound
    assert found.certificate.optimal == (count == found.certificate.lower_bound)
    return count


def test_the_case_tvm_gets_wrong() -> None:
    preds, _ = NAMED
    assert not is_acyclic(preds, relax_rule(NAMED))
    assert proven(NAMED) == fewest_by_groupings(NAMED) == 3
    assert merge_regions(*NAMED).certificate.optimal


def test_random_graphs_are_acyclic_and_never_worse_than_tvm() -> None:
    cyclic = {relax_rule: 0, relay_rule: 0}
    for seed in range(GRAPHS):
        graph = random_graph(seed)
        count = proven(graph)
        for rule in cyclic:
            theirs = rule(graph)
            if is_acyclic(graph[0], theirs):
                assert count <= offloaded(theirs, graph[1]), f"seed {seed}"
            else:
                cyclic[rule] += 1
    assert all(cyclic.values()), "the graphs are too easy: TVM's rules make no cycle"


def test_up_to_twelve_operators_the_minimum_is_found() -> None:
    for seed in range(GRAPHS // 4):
        graph = random_graph(seed, ops=5 + seed % 8)
        least = proven(graph)
        assert merge_regions(*graph).certificate.optimal
        assert least == fewest_by_orders(graph), f"seed {seed}"
        if len(graph[0]) <= 7:
            assert least == fewest_by_groupings(graph), f"seed {seed}"


def chains(seed: int, colours: int, count: int, length: int) -> Graph:
    """Independent chains: the hard case, where greedy choices are wrong."""
    r = random.Random(seed)
    preds = [() if i % length == 0 else (i - 1,) for i in range(count * length)]
    return preds, [r.randrange(-1, colours) for _ in preds]


def test_chains_that_defeat_the_bound_are_solved_exactly() -> None:
    above = 0
    for seed in range(60):
        graph = chains(seed, 2 + seed % 3, 4, 5)
        count = proven(graph)
        assert count == fewest_by_orders(graph)
        found = merge_regions(*graph).certificate
        greedy = merge_regions(*graph, effort=0).certificate
        assert found.optimal
        above += greedy.count > count or greedy.lower_bound < count
    assert above, "no chain defeats the greedy choice"


def test_few_offloaded_vertices_in_a_large_graph_are_solved_exactly() -> None:
    """Two vendors in chains of portable work: 14 vertices among 8000, greedy is not enough."""
    r = random.Random(5)
    for _ in range(4):
        small = chains(r.randrange(1000), 3, 4, 4)
        preds: list[tuple[int, ...]] = [()]
        colours = [-1]
        place = {}
        for v, before in enumerate(small[0]):
            last = place[before[0]] if before else 0
            for _ in range(500 if small[1][v] < 0 else 1):
                preds.append((last,))
                colours.append(small[1][v])
                last = len(preds) - 1
            place[v] = last
        found = merge_regions(preds, colours).certificate
        assert found.optimal
        assert found.count == fewest_by_orders(small)


def test_portable_vertices_that_reach_much_are_not_condensed() -> None:
    """A chain of portable vertices, each after one more offloaded one and before another."""
    n = 300
    preds: list[tuple[int, ...]] = [() for _ in range(n)]
    preds += [(i, n + i - 1) if i else (0,) for i in range(n)]
    preds += [(n + i,) for i in range(n)]
    colours = [0] * n + [-1] * n + [1] * n
    assert len(condensed(preds, colours)[0]) == 3 * n
    assert proven((preds, colours)) == 2


def test_a_large_tangle_states_its_gap() -> None:
    graph = chains(0, 4, 30, 30)
    certificate = merge_regions(*graph).certificate
    proven(graph)
    assert not certificate.optimal
    assert 0 < certificate.count - certificate.lower_bound <= certificate.count // 4
    assert f"at least {certificate.lower_bound} are needed" in certificate.text()


def test_a_cyclic_graph_is_refused() -> None:
    with pytest.raises(InternalError, match="cycle"):
        merge_regions([(1,), (0,)], [0, 0])


def test_order_is_the_graphs_own_where_nothing_is_offloaded() -> None:
    preds, _ = random_graph(3, ops=40)
    assert quotient_order(preds, [-1] * 40) == list(range(40))


# Whole graphs


def line(*operators: str) -> ir.Graph:
    """A chain of unary operators."""
    rows = [(o, "x" if i == 0 else f"t{i}", f"t{i + 1}") for i, o in enumerate(operators)]
    return typed_graph(rows, [4], f"t{len(rows)}")


PORTABLE = host()


def test_regions_are_contiguous_and_numbered_in_order() -> None:
    rows = [
        ("Exp", "x", "a"),
        ("Neg", "x", "b"),
        ("Exp", "b", "c"),
        ("Neg", "a", "d"),
        ("Exp", "d", "e"),
    ]
    proto = model(rows, {"x": [4]}, {"c": [4], "e": [4]})
    graph = ir.from_proto(onnx.shape_inference.infer_shapes(proto)).graph
    partition = select(graph, [vendor("acme", "Exp"), PORTABLE])
    assert [r.nodes for r in partition.regions] == [("n0_Exp", "n2_Exp"), ("n4_Exp",)]
    assert [s.name for s in partition.items] == ["n1_Neg", "n0_Exp", "n2_Exp", "n3_Neg", "n4_Exp"]
    assert "2 regions (the fewest possible)" in partition.text()


def test_two_vendors_do_not_share_a_region() -> None:
    partition = select(
        line("Exp", "Neg", "Abs", "Exp"), [vendor("a", "Exp"), vendor("b", "Abs", "Neg")]
    )
    assert [(r.backend, len(r.items)) for r in partition.regions] == [("a", 1), ("b", 2), ("a", 1)]


def test_offload_limit_keeps_the_first_regions() -> None:
    graph = line("Exp", "Neg", "Exp", "Abs", "Exp")
    backends = [vendor("acme", "Exp"), PORTABLE]
    whole = select(graph, backends)
    assert [s.region for s in whole.items] == [0, -1, 1, -1, 2]
    limited = select(graph, backends, offload_limit=2)
    assert [s.backend for s in limited.items] == ["acme", "c", "acme", "c", "c"]
    assert [s.region for s in limited.items] == [0, -1, 1, -1, -1]
    assert "3 regions (the fewest possible), the first 2 offloaded" in limited.text()
    assert not select(graph, backends, offload_limit=0).regions
    assert select(graph, backends, offload_limit=3).text() == whole.text()


def test_offload_limit_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    backends = [vendor("acme", "Exp"), host()]
    monkeypatch.setattr("aot.vendor.find.backends_for", lambda *names, **_: backends)
    rows = [("Exp", "x", "a"), ("Neg", "a", "b"), ("Exp", "b", "y")]
    proto = model(rows, {"x": [4]}, {"y": [4]})
    for limit, kept in ((None, 2), (1, 1), (0, 0)):
        _, partition = partition_model(proto, Options(offload_limit=limit))
        assert len(partition.regions) == kept


def test_values_read_in_a_subgraph_are_edges() -> None:
    """Exp → If reads it in a branch → Exp: the two Exp must not be one region."""
    branch = [helper.make_node("Neg", ["a"], ["inner"], name="inner_neg")]
    out = [helper.make_tensor_value_info("inner", TensorProto.FLOAT, [4])]
    then = helper.make_graph(branch, "then", [], out)
    otherwise = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["other"], name="inner_abs")],
        "else",
        [],
        [helper.make_tensor_value_info("other", TensorProto.FLOAT, [4])],
    )
    rows = [
        ("Exp", "x", "a"),
        ("If", "p", "i", {"then_branch": then, "else_branch": otherwise}),
        ("Exp", "i", "y"),
    ]
    proto = model(rows, {"x": [4], "p": []}, {"y": [4]}, dtypes={"p": TensorProto.BOOL})
    graph = ir.from_proto(proto).graph
    host = vendor("c", "Exp", "If")
    partition = select(graph, [vendor("acme", "Exp"), host])
    assert [s.region for s in partition.items] == [0, -1, 1]
    assert dependencies([s.match for s in partition.items]) == [[], [0], [1]]
    # A pattern at the inner Neg must not reach the Exp outside.
    both = Backend("b")

    @both.pattern
    def exp_neg(op, x):
        return op.Neg(op.Exp(x))

    inner = list(graph)[1].attributes["then_branch"].value
    assert exp_neg.match(next(iter(inner))) is None


def test_the_partition_checker_rejects_what_is_not_so() -> None:
    graph = line("Exp", "Neg", "Exp")
    good = select(graph, [vendor("acme", "Exp"), PORTABLE])
    check_partition(graph, good)

    def bad(**changes: object) -> Partition:
        return replace(good, **changes)

    a, b, c = good.items
    certificate = good.certificate
    wrong = {
        "cycle": bad(items=(a, b, replace(c, region=0))),
        "comes later": bad(items=(b, a, c)),
        "computed 0 times": bad(items=(a, b)),
        "computed 2 times": bad(items=(a, b, c, c)),
        "numbered": bad(items=(a, b, replace(c, region=5))),
        "certificate says": bad(certificate=replace(certificate, count=1)),
        "called the fewest": bad(certificate=replace(certificate, lower_bound=1)),
        "acme.exp in -1": bad(items=(replace(a, region=-1), b, c)),
    }
    for message, partition in wrong.items():
        with pytest.raises(InternalError, match=message):
            check_partition(graph, partition)
    refusing = vendor("acme", "Exp")
    fine = select(graph, [refusing, PORTABLE])
    refusing.patterns[0].check(lambda m: [(False, "not today")])
    with pytest.raises(InternalError, match="acme, which refuses: not today"):
        check_partition(graph, fine)


def test_matching_a_table_of_150_patterns_is_quick() -> None:
    graph = densenet()
    assert len(list(graph)) == 696
    backends = [table(145), host()]
    began = time.process_time()
    partition = select(graph, backends)
    assert time.process_time() - began < 0.15 * SLOW
    assert sum(s.backend == "acme" for s in partition.items) == 116
    assert partition.certificate.optimal


def test_ten_thousand_nodes_are_partitioned_in_seconds() -> None:
    graph = tangle(10_000, random.Random(1))
    backends = [vendor("a", "Add", "Mul"), vendor("b", "Exp"), vendor("d", "Abs", "Cos"), host()]
    began = time.process_time()
    partition = select(graph, backends)
    assert time.process_time() - began < 5 * SLOW
    assert partition.certificate.count == len(partition.regions) > 10
