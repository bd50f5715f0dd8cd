# SPDX-License-Identifier: Apache-2.0
"""Partitioning: random graphs against TVM's two rules, limits, large graphs, and matching speed.

python benchmarks/partition.py [GRAPHS]      # default 2000; 100000 for the published figure
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests")]

from aot.partition.regions import merge_regions  # noqa: E402
from aot.partition.select import select  # noqa: E402
from limited_graphs import (  # noqa: E402
    best_by_brute_force,
    outcome,
    random_problem,
    violations,
)
from partition_graphs import densenet, host, table, tangle, vendor  # noqa: E402
from region_rules import (  # noqa: E402
    fewest_by_orders,
    is_acyclic,
    offloaded,
    random_graph,
    relax_rule,
    relay_rule,
)

#: Operators up to which every order is tried.
BRUTE = 12


def quotient(region: tuple[int, ...]) -> list[int]:
    """The group of every vertex: its region, or itself where it is portable."""
    return [len(region) + v if r < 0 else r for v, r in enumerate(region)]


def fuzz(graphs: int) -> None:
    gaps: Counter[int] = Counter()
    cyclic = Counter[str]()
    fewer, more, took = 0, 0, 0.0
    tried, equal, cycles = 0, 0, 0
    for seed in range(graphs):
        preds, colours = random_graph(seed)
        began = time.process_time()
        found = merge_regions(preds, colours)
        took += time.process_time() - began
        count = found.certificate.count
        cycles += not is_acyclic(preds, quotient(found.region))
        if len(preds) <= BRUTE:
            tried += 1
            equal += count == fewest_by_orders((preds, colours))
        gaps[found.certificate.count - found.certificate.lower_bound] += 1
        for name, rule in (("relax", relax_rule), ("relay", relay_rule)):
            grouped = rule((preds, colours))
            if not is_acyclic(preds, grouped):
                cyclic[name] += 1
                continue
            fewer += count < offloaded(grouped, colours)
            more += count > offloaded(grouped, colours)
    print(
        f"{graphs} random graphs (1-4 backends, 5-100 operators), {1e3 * took / graphs:.2f} ms each"
    )
    theirs = f"TVM Relax rule {cyclic['relax']}, TVM Relay rule {cyclic['relay']}"
    print(f"  cyclic: ours {cycles}, {theirs}")
    print(f"  fewer regions than an acyclic TVM result: {fewer} times, more: {more} times")
    print(f"  gap to the proven bound: {dict(sorted(gaps.items()))}")
    print(f"  up to {BRUTE} operators: {equal} of {tried} as few as the best of every order")


def large(nodes: int = 10_000) -> None:
    print(f"{nodes} nodes, whole selection with matching, regions and the checker, CPU seconds")
    for count in (1, 2, 4):
        graph = tangle(nodes, random.Random(count))
        names = ("Exp", "Sin", "Abs", "Cos")
        vendors = [vendor(f"v{i}", "Add" if i == 0 else names[i]) for i in range(count)]
        began = time.process_time()
        partition = select(graph, [*vendors, host()])
        took = time.process_time() - began
        print(f"  {count} backends: {took:.2f} s, {partition.certificate.text()}")


def limited(graphs: int) -> None:
    """Random graphs with random limits: what exceeds them, small ones beside brute force."""
    wrong = optimal = equal = 0
    small = graphs // 5
    began = time.process_time()
    for seed in range(graphs):
        problem = random_problem(seed)
        found = merge_regions(problem.preds, problem.colours, rules=problem.rules)
        wrong += bool(violations(problem, found.region))
        optimal += found.certificate.optimal
    took = time.process_time() - began
    for seed in range(small):
        problem = random_problem(seed, 2 + seed % 9)
        found = merge_regions(problem.preds, problem.colours, rules=problem.rules)
        equal += outcome(found.region, problem.colours) == best_by_brute_force(problem)
    print(f"{graphs} random graphs with random limits, {1e3 * took / graphs:.2f} ms each")
    print(f"  beyond a limit or cyclic: {wrong}; proven the fewest: {optimal}")
    print(f"  up to 10 operators: {equal} of {small} as good as the best of all groupings")
    for nodes in (1000, 10_000):
        for seed in range(6):
            problem = random_problem(seed, nodes)
            began = time.process_time()
            found = merge_regions(problem.preds, problem.colours, rules=problem.rules)
            took, text = time.process_time() - began, found.certificate.text()
            back = len(found.given_back)
            print(f"  {nodes} operators: {took:.1f} s CPU, {text}, {back} given back")


def matching() -> None:
    graph, backends = densenet(), [table(145), host()]
    times = []
    for _ in range(5):
        began = time.process_time()
        select(graph, backends)
        times.append(time.process_time() - began)
    print(f"696 nodes x 150 patterns: {sorted(times)[2]:.3f} s CPU")


if __name__ == "__main__":
    fuzz(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
    limited(10_000)
    large()
    matching()
