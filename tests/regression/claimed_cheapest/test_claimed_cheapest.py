# SPDX-License-Identifier: Apache-2.0
"""`--partition cost` said "the cheapest possible" of partitions that a cheaper one exists for.

Each of these is found now, and proven.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import onnx_ir as ir
import pytest

from aot.ir.layout import blocked
from aot.partition.cost.costs import Costs
from aot.partition.select import Partition, select
from aot.vendor.backend import Backend
from aot.vendor.limits import Speed
from partition_graphs import typed_graph, vendor

CLAIM = "the cheapest possible"


def chain(*operators: str) -> ir.Graph:
    """The operators in a row on 16 elements."""
    rows = [(o, f"v{i}" if i else "x", f"v{i + 1}") for i, o in enumerate(operators)]
    return typed_graph(rows, [16], f"v{len(operators)}")


def costing(backend: Backend, **nanoseconds: float) -> Backend:
    for pattern in backend.patterns:
        pattern.cost(lambda m, _ns=nanoseconds[pattern.name]: _ns)
    return backend


def portable(ns: float) -> Backend:
    names = ("Tanh", "Neg", "Abs", "Relu")
    return costing(vendor("c", *names), **{n.lower(): ns for n in names})


def said(partition: Partition) -> str:
    return partition.text().splitlines()[-1]


def test_a_region_pays_together_with_a_node_that_does_not() -> None:
    """One region of all three takes 281 ns, two regions without Neg 340, portable C 300."""
    acme = costing(vendor("acme", "Tanh", "Neg"), tanh=60.0, neg=101.0)
    acme.speed = Speed(1, 1, enter_ns=60)
    found = select(chain("Tanh", "Neg", "Tanh"), [acme, portable(100.0)], costs=Costs())
    assert len(found.regions) == 1
    assert found.pricing.total == pytest.approx(60.0 + 101.0 + 60.0 + 60.0)
    assert CLAIM in said(found)


def pairs() -> Backend:
    """Takes neighbours two at a time, and two of them share Neg."""
    acme = Backend("acme")
    for first, second in itertools.pairwise(("Relu", "Neg", "Abs", "Tanh")):
        made = acme.pattern(lambda op, x, _a=first, _b=second: getattr(op, _b)(getattr(op, _a)(x)))
        made.name = f"{first}_{second}".lower()
        made.priority = 1 if first == "Neg" else 0
    return costing(acme, relu_neg=10.0, neg_abs=10.0, abs_tanh=10.0)


def test_a_greedy_cover_is_not_the_only_one() -> None:
    """By priority Neg and Abs are taken first; two other matches cover all four for 20 ns."""
    found = select(chain("Relu", "Neg", "Abs", "Tanh"), [pairs(), portable(100.0)], costs=Costs())
    assert found.pricing.total == pytest.approx(20.0)
    assert CLAIM in said(found)


def test_a_value_read_twice_crosses_once() -> None:
    """`a` goes into the vendor's memory once, for Neg and for Abs, and y comes out."""
    rows = [("Tanh", "x", "a"), ("Neg", "a", "b"), ("Abs", "a", "c"), ("Add", "b c", "y")]
    acme = costing(vendor("acme", "Neg", "Abs", "Add"), neg=10.0, abs=10.0, add=10.0)
    acme.speed = Speed(1, 1, border_bytes_per_ns=64 / 30)
    host = costing(vendor("c", "Tanh", "Neg", "Abs", "Add"), tanh=1.0, neg=40, abs=40, add=40)
    found = select(typed_graph(rows, [16], "y"), [acme, host], costs=Costs())
    assert found.pricing.total == pytest.approx(1 + 30 + 3 * 10 + 30)
    assert CLAIM in said(found)


def test_layouts_depend_on_neighbours() -> None:
    """Tanh in blocks takes 10 ns and two conversions of 64."""
    acme = costing(vendor("acme", "Tanh"), tanh=10.0)
    acme.patterns[0].layouts(lambda m, incoming, v: {n: blocked(v) for n in m.values})
    graph = typed_graph([("Tanh", "x", "a"), ("Neg", "a", "y")], [1, 16, 2, 2], "y")
    found = select(graph, [acme, portable(100.0)], costs=Costs(16))
    assert found.pricing.total == pytest.approx(200.0)
    assert CLAIM in said(found)
    acme.patterns[0].cost(lambda m: 1.0)
    found = select(
        graph, [acme, costing(vendor("c", "Tanh", "Neg"), tanh=150, neg=1)], costs=Costs(16)
    )
    assert found.pricing.total == pytest.approx(1 + 64 + 64 + 1)


def test_one_vendors_pattern_for_nodes_that_another_takes_singly() -> None:
    """Both ways to cover Relu and Neg are compared, so the claim stands and is true."""
    acme = Backend("acme")
    acme.pattern(lambda op, x: op.Neg(op.Relu(x))).name = "both"
    costing(acme, both=50.0)
    found = select(chain("Relu", "Neg"), [acme, portable(100.0)], costs=Costs())
    assert CLAIM in said(found)
    acme.pattern(lambda op, x: op.Neg(x)).name = "neg"
    costing(acme, both=50.0, neg=1.0)
    found = select(chain("Relu", "Neg"), [acme, portable(30.0)], costs=Costs())
    assert found.pricing.total == pytest.approx(31.0)  # Relu in C and Neg at the vendor


def cheapest_of(graph: ir.Graph, backends: list[Backend]) -> float:
    """The least sum of costs of matches that cover the graph, by trying all."""
    nodes = [id(n) for n in graph]
    ways: list[tuple[frozenset[int], float]] = []
    for backend, node in itertools.product(backends, graph):
        for pattern in backend.patterns:
            for m in pattern.matches(node):
                covered = frozenset(id(n.ir) for n in m.nodes)
                ways.append((covered, Costs().of(backend, pattern, m)[0]))

    def least(left: frozenset[int]) -> float:
        if not left:
            return 0.0
        first = next(n for n in nodes if n in left)
        fitting = [(c, ns) for c, ns in ways if first in c and c <= left]
        return min((ns + least(left - c) for c, ns in fitting), default=float("inf"))

    return least(frozenset(nodes))


def random_case(dice: Callable[[int], int]) -> tuple[ir.Graph, list[Backend]]:
    names = ("Relu", "Neg", "Abs", "Tanh")
    graph = chain(*(names[dice(4)] for _ in range(2 + dice(5))))
    vendors = []
    for name in ("one", "two"):
        made = Backend(name)
        for k in range(1 + dice(2)):
            picked = [names[dice(4)] for _ in range(1 + dice(2))]

            def build(op, x, _picked=tuple(picked)):
                for o in _picked:
                    x = getattr(op, o)(x)
                return x

            pattern = made.pattern(build)
            pattern.name = f"p{k}"
            time = float(1 + dice(200))
            pattern.cost(lambda m, _ns=time: _ns)
        vendors.append(made)
    return graph, [*vendors, portable(50.0)]


def test_what_is_claimed_is_true() -> None:
    """The claim is made of every random chain, and holds against all partitions."""
    import random

    r = random.Random(3)
    for _ in range(200):
        graph, backends = random_case(r.randrange)
        found = select(graph, backends, costs=Costs())
        assert CLAIM in said(found)
        assert found.pricing.total == pytest.approx(cheapest_of(graph, backends))
