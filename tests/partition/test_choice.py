# SPDX-License-Identifier: Apache-2.0
"""The cheapest labels: against brute force, with two labels and with more."""

from __future__ import annotations

import random
from itertools import product

import pytest

from aot.partition.min_cut import Edges, Unary, choose, total_of


def problem(seed: int, units: int, labels: int) -> tuple[list[Unary], Edges]:
    r = random.Random(seed)
    costs: list[Unary] = []
    for _ in range(units):
        known = [a for a in range(labels) if r.random() < 0.8] or [0]
        costs.append({a: float(r.randrange(100)) for a in known})
    edges = {
        (i, j): {
            (a, b): float(r.randrange(40)) for a in range(labels) for b in range(labels) if a != b
        }
        for j in range(units)
        for i in range(max(0, j - 3), j)
        if r.random() < 0.6
    }
    return costs, edges


@pytest.mark.parametrize("labels", [1, 2, 3, 4])
def test_the_choice_is_the_best_of_all(labels: int) -> None:
    for seed in range(60):
        units, edges = problem(seed, 7, labels)
        found = choose(units, edges)
        least = min(total_of(c, units, edges) for c in product(*(list(u) for u in units)))
        assert found.total == pytest.approx(least), seed
        assert found.optimal
        assert total_of(found.labels, units, edges) == pytest.approx(found.total)


def test_a_large_problem_has_a_bound() -> None:
    units, edges = problem(3, 200, 3)
    found = choose(units, edges)
    assert found.bound <= found.total
    assert not found.optimal
    units, edges = problem(3, 400, 2)
    assert choose(units, edges).optimal
