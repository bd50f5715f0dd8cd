# SPDX-License-Identifier: Apache-2.0
"""The least cost of tiles and regions: against brute force that shares no code with the search."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import pytest

from aot.partition.cost import search
from aot.partition.cost.problem import Content, Problem, Tile
from aot.partition.cost.search import solve
from limited_graphs import random_limits

FULL = bool(os.environ.get("AOT_FULL"))
GRAPHS = 1000 if FULL else 200
SLOW = 4  # how much slower than ours a machine may be before a time limit fails


def drawn(seed: int, most: int = 10, least: int = 2) -> Problem:
    """A random graph, with tiles of three vendors that overlap, entries and borders.

    Values 0 and 1 are inputs; node i makes value i + 2.
    """
    r = random.Random(seed)
    nodes = r.randint(least, most)
    reads = []
    for i in range(nodes):
        near = range(max(0, i - 4), i + 2)
        reads.append(tuple(sorted({r.choice(near) for _ in range(r.choice((1, 1, 2)))})))
    readers = [[i for i in range(nodes) if v in reads[i]] for v in range(nodes + 2)]
    outputs = {v for v in range(2, nodes + 2) if not readers[v] or r.random() < 0.15}
    tiles = []
    for owner in range(4):
        for root in range(nodes):
            if owner == 0 or r.random() < 0.6:
                tiles.append(tile(reads, (root,), owner, float(r.randint(5, 40))))
            for _ in range(r.choice((0, 1, 1, 2)) if r.random() < 0.7 else 0):
                inside = grown(r, reads, readers, outputs, root)
                if len(inside) > 1:
                    tiles.append(tile(reads, inside, owner, float(r.randint(8, 60))))
    kind = r.choice(("enter", "border", "both", "both", "none"))
    enter = [0.0] + [float(r.randint(5, 40)) if kind in ("enter", "both") else 0.0] * 3
    border = [0.0] + [r.choice((0.0, 0.5, 2.0)) if kind in ("border", "both") else 0.0] * 3
    if kind != "none" and r.random() < 0.5:
        enter[3] = border[3] = 0.0
    sizes = [r.randint(1, 12) for _ in range(nodes + 2)]
    return Problem(nodes, tiles, sizes, readers, (0, 1), frozenset(outputs), enter, border)


def tile(reads: list[tuple[int, ...]], inside: tuple[int, ...], owner: int, cost: float) -> Tile:
    entering = {v for n in inside for v in reads[n] if v - 2 not in inside}
    return Tile(inside, owner, cost, tuple(sorted(entering)), (inside[-1] + 2,))


def grown(
    r: random.Random,
    reads: list[tuple[int, ...]],
    readers: list[list[int]],
    outputs: set[int],
    root: int,
) -> tuple[int, ...]:
    """`root` and nodes before it whose values are read nowhere else."""
    inside = {root}
    for _ in range(3):
        near = {
            v - 2
            for n in inside
            for v in reads[n]
            if v >= 2 and v not in outputs and set(readers[v]) <= inside
        }
        if near - inside and r.random() < 0.8:
            inside.add(r.choice(sorted(near - inside)))
    return tuple(sorted(inside))


def with_limits(p: Problem, seed: int) -> Problem:
    """The same with random limits of two vendors and, for some, a check of regions."""
    r = random.Random(seed)
    constants = [tuple(sorted(set(r.choices(range(4), k=r.choice((0, 0, 1, 2)))))) for _ in p.tiles]
    of_node = {t.covers[0]: c for t, c in zip(p.tiles, constants, strict=True)}
    contents = [
        Content(
            len(t.covers),
            tuple(sorted({c for n in t.covers for c in of_node.get(n, ())})),
            t.covers[-1],
        )
        for t in p.tiles
    ]
    limits = {owner: random_limits(r) for owner in (1, 2)}
    checked = {1: odd_ones(p, contents)} if r.random() < 0.3 else {}
    return replace(
        p,
        limits=limits,
        checked=checked,
        contents=contents,
        constant_bytes=[r.choice((2, 8, 12)) for _ in range(4)],
    )


def odd_ones(p: Problem, contents: list[Content]) -> Callable[[Sequence[int]], str]:
    """A check that takes regions of an odd number of operators only."""
    return lambda tiles: "" if sum(contents[t].nodes for t in tiles) % 2 else "an even number"


def allowed(p: Problem, owner: int, tiles: tuple[int, ...]) -> bool:
    """Whether tiles may be a region of an owner, counted from the definition of limits."""
    limits = p.limits.get(owner)
    if limits is None:
        return True
    order = sorted(tiles, key=lambda t: p.contents[t].rank)
    nodes = {n for t in tiles for n in p.tiles[t].covers}
    made = {v for t in tiles for v in p.tiles[t].makes}
    entering = {v for t in tiles for v in p.tiles[t].reads} - made
    leaving = {v for v in made if v in p.outputs or not nodes.issuperset(p.readers[v])}
    constants = {c for t in tiles for c in p.contents[t].constants}
    held = []
    for step, t in enumerate(order):
        later = {v for u in order[step:] for v in p.tiles[u].reads}
        born = {v for u in order[: step + 1] for v in p.tiles[u].makes}
        now = (entering & later) | (born & (later | leaving)) | set(p.tiles[t].makes)
        held.append(sum(p.sizes[v] for v in now))
    counted = (
        (len(entering), limits.inputs),
        (len(leaving), limits.outputs),
        (sum(p.contents[t].nodes for t in tiles), limits.nodes),
        (sum(p.constant_bytes[c] for c in constants), limits.constant_bytes),
        (max(held), limits.live_bytes),
    )
    if any(most is not None and amount > most for amount, most in counted):
        return False
    parts = [{t} for t in tiles]
    for t in tiles:
        for u in tiles:
            if set(p.tiles[t].makes) & set(p.tiles[u].reads):
                one, two = (next(q for q in parts if x in q) for x in (t, u))
                if one is not two:
                    parts.remove(two)
                    one |= two
    check = p.checked.get(owner)
    return not (limits.connected and len(parts) > 1) and (check is None or not check(order))


def tilings(p: Problem, masks: list[int], left: int, owner: int) -> Iterator[tuple[int, ...]]:
    """Every cover of the set of nodes `left` by tiles of an owner; `masks` are tiles as sets."""
    if not left:
        yield ()
        return
    low = left & -left
    for i, t in enumerate(p.tiles):
        if t.owner == owner and masks[i] & low and not masks[i] & ~left:
            for others in tilings(p, masks, left & ~masks[i], owner):
                yield (i, *others)


def least_of_all(p: Problem) -> float:
    """The least cost, by trying every region, one after the other, at every set of nodes done."""
    full = (1 << p.nodes) - 1
    masks = [sum(1 << n for n in t.covers) for t in p.tiles]
    before = [0] * p.nodes
    read: list[set[int]] = [set() for _ in range(p.nodes)]
    for v, users in enumerate(p.readers):
        for n in users:
            read[n].add(v)
            before[n] |= 1 << (v - 2) if v >= 2 else 0

    @cache
    def tiled(left: int, owner: int) -> float:
        if not left:
            return 0.0
        low = left & -left
        return min(
            (
                t.cost + tiled(left & ~m, owner)
                for t, m in zip(p.tiles, masks, strict=True)
                if t.owner == owner and m & low and not m & ~left
            ),
            default=float("inf"),
        )

    def limited(part: int, owner: int) -> float:
        """The least cost of the tiles of a region of an owner that is within its limits."""
        if owner not in p.limits:
            return tiled(part, owner)
        fitting = [ts for ts in tilings(p, masks, part, owner) if allowed(p, owner, ts)]
        return min((sum(p.tiles[t].cost for t in ts) for ts in fitting), default=float("inf"))

    def border(region: int) -> int:
        inside = [n for n in range(p.nodes) if region >> n & 1]
        entering = {v for n in inside for v in read[n] if v < 2 or not region >> (v - 2) & 1}
        leaving = [
            n + 2
            for n in inside
            if n + 2 in p.outputs or any(not region >> u & 1 for u in p.readers[n + 2])
        ]
        return sum(p.sizes[v] for v in (*entering, *leaving))

    def next_sets(left: int) -> Iterator[int]:
        part = left
        while part:
            yield part
            part = (part - 1) & left

    @cache
    def rest(done: int) -> float:
        if done == full:
            return 0.0
        found = float("inf")
        for part in next_sets(full & ~done):
            needs = 0
            for n in range(p.nodes):
                needs |= before[n] if part >> n & 1 else 0
            if needs & ~(done | part):
                continue
            ways = [
                t.cost for t, m in zip(p.tiles, masks, strict=True) if not t.owner and m == part
            ]
            for owner in range(1, len(p.enter)):
                own = limited(part, owner)
                if own < found:
                    ways.append(own + p.enter[owner] + p.border[owner] * border(part))
            least = min(ways, default=float("inf"))
            if least < found:
                found = min(found, least + rest(done | part))
        return found

    return rest(0)


def priced(p: Problem, tiles: tuple[int, ...], regions: tuple[int, ...]) -> float:
    """What tiles and their regions cost, counted anew; they must cover all, without a cycle."""
    assert sorted(n for t in tiles for n in p.tiles[t].covers) == list(range(p.nodes))
    group = {
        n: (r if r >= 0 else -2 - t)
        for t, r in zip(tiles, regions, strict=True)
        for n in p.tiles[t].covers
    }
    total = sum(p.tiles[t].cost for t in tiles)
    owner = {r: p.tiles[t].owner for t, r in zip(tiles, regions, strict=True) if r >= 0}
    needs: dict[int, set[int]] = {g: set() for g in group.values()}
    for t, r in zip(tiles, regions, strict=True):
        assert r < 0 or owner[r] == p.tiles[t].owner
        for v in p.tiles[t].reads:
            if v >= 2 and group[v - 2] != group[p.tiles[t].covers[-1]]:
                needs[group[p.tiles[t].covers[-1]]].add(group[v - 2])
    while needs:
        free = [g for g, before in needs.items() if not before & needs.keys()]
        assert free, "the graph of regions has a cycle"
        for g in free:
            del needs[g]
    for r, o in owner.items():
        inside = tuple(t for t, q in zip(tiles, regions, strict=True) if q == r)
        assert allowed(p, o, inside), "a region beyond its limits"
        read = {v for t, q in zip(tiles, regions, strict=True) if q == r for v in p.tiles[t].reads}
        made = {p.tiles[t].makes[0] for t, q in zip(tiles, regions, strict=True) if q == r}
        out = {v for v in made if v in p.outputs or any(group[u] != r for u in p.readers[v])}
        total += p.enter[o] + p.border[o] * sum(p.sizes[v] for v in (read - made) | out)
    return total


def test_the_cost_is_the_least_of_all() -> None:
    for seed in range(GRAPHS):
        problem = drawn(seed)
        found = solve(problem)
        assert found is not None
        assert found.total == pytest.approx(priced(problem, found.tiles, found.regions)), seed
        assert found.total == pytest.approx(least_of_all(problem)), seed
        assert found.bound >= found.total * (1 - 1e-9), seed


def test_the_cost_within_limits_is_the_least_of_all() -> None:
    """Limits of all kinds and checks of regions, on top of all that the test above has."""
    dearer = 0
    for seed in range(GRAPHS):
        free = drawn(seed)
        problem = with_limits(free, seed)
        found, least = solve(problem), least_of_all(problem)
        assert found is not None
        assert found.total == pytest.approx(priced(problem, found.tiles, found.regions)), seed
        assert found.total == pytest.approx(least), seed
        assert found.bound >= found.total * (1 - 1e-9), seed
        dearer += least > least_of_all(free) * (1 + 1e-9)
    assert dearer > GRAPHS // 5


def test_a_search_that_is_cut_short_has_a_true_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    unproven = 0
    for most_sets in (256, 2):
        monkeypatch.setattr(search, "MOST_SETS", most_sets)
        for seed in range(40):
            problem = drawn(seed, 10, 8)
            found = solve(problem, effort=0)
            assert found is not None
            assert found.bound <= least_of_all(problem) * (1 + 1e-9) <= found.total * (1 + 2e-9)
            unproven += found.bound < found.total * (1 - 1e-9)
    assert unproven > 10


@pytest.mark.parametrize("most", [1, 2])
def test_regions_that_may_be_joined_are_forgotten_when_there_are_many(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(search, "MOST_OPEN", most)
    worse = 0
    for seed in range(60):
        problem = drawn(seed, 14, 8)
        found = solve(problem)
        assert found is not None
        assert found.total == pytest.approx(priced(problem, found.tiles, found.regions))
        worse += found.bound < found.total * (1 - 1e-9)
    assert worse, "one region is always enough"


def test_what_is_needed_through_a_forgotten_region_stays_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many regions that need each other, of graphs too large for brute force."""
    monkeypatch.setattr(search, "MOST_OPEN", 2)
    for seed in range(10):
        problem = drawn(seed, 60, 40)
        enter = [0.0, *[1.0] * (len(problem.enter) - 1)]
        problem = replace(
            problem, enter=enter, tiles=[t for t in problem.tiles if len(t.covers) == 1]
        )
        cheap = [t._replace(cost=t.cost / (8 if t.owner else 1)) for t in problem.tiles]
        found = solve(replace(problem, tiles=cheap), effort=50_000)
        assert found is not None
        total = priced(replace(problem, tiles=cheap), found.tiles, found.regions)
        assert found.total == pytest.approx(total)


def test_nodes_that_no_tiles_cover_have_no_solution() -> None:
    problem = drawn(1)
    assert solve(replace(problem, tiles=[t for t in problem.tiles if 0 not in t.covers])) is None


def test_larger_graphs_stay_within_limits() -> None:
    """`priced` counts the limits of every region from their definition, and finds cycles."""
    for seed in range(10_000 if FULL else 60):
        free = drawn(seed, 40, 11)
        problem = with_limits(free, seed)
        found = solve(problem, effort=100)
        assert found is not None, seed
        assert found.total == pytest.approx(priced(problem, found.tiles, found.regions)), seed
        assert found.bound <= found.total * (1 + 1e-9), seed


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("nodes", [1000, *([10_000] if FULL else [])])
def test_large_graphs_are_done_in_time(nodes: int, limited: bool) -> None:
    problem = drawn(0, nodes, nodes)
    problem = with_limits(problem, 1) if limited else problem
    began = time.process_time()
    found = solve(problem)
    assert time.process_time() - began < (5 if nodes == 1000 else 60) * SLOW
    assert found is not None
    assert 0 < found.bound <= found.total < 2 * found.bound
