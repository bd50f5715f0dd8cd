# SPDX-License-Identifier: Apache-2.0
"""Exact packing: validity, proven optima against brute force, perfect packings, alignment."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from aot.packing.pack import Buffer, Packing, pack
from aot.packing.problem import problem_of
from aot.packing.search import feasible


def reach(b: Buffer, c: Buffer, unit: int = 1) -> int:
    """The most bytes, rounded up, of b that are live together with c; 0 if they never meet."""
    steps = range(max(b.start, c.start), min(b.end, c.end))
    return max(
        (
            -(-(b.size_profile[t - b.start] if b.size_profile else b.size) // unit) * unit
            for t in steps
        ),
        default=0,
    )


def check(buffers: list[Buffer], packing: Packing) -> None:
    """Aligned, inside the height, disjoint while live together."""
    for k, b in enumerate(buffers):
        at = packing.offsets[b.name]
        assert at % b.align == 0
        assert 0 <= at <= packing.height - b.size
        assert b.fixed is None or at == b.fixed
        for c in buffers[:k]:
            other = packing.offsets[c.name]
            if reach(b, c):
                assert at + reach(b, c) <= other or other + reach(c, b) <= at, (b, c)
    assert packing.height >= packing.lower_bound


def least_height(buffers: list[Buffer]) -> int:
    """By trying every order of dropping the buffers on each other."""
    unit = math.gcd(*(b.align for b in buffers))
    lift = [[reach(c, b, unit) for c in buffers] for b in buffers]
    tall = [-(-b.size // unit) * unit for b in buffers]
    best = 1 << 60

    def drop(placed: dict[int, int], height: int) -> None:
        nonlocal best
        if height >= best:
            return
        if len(placed) == len(buffers):
            best = height
            return
        for k, b in enumerate(buffers):
            if k in placed:
                continue
            at = max([placed[j] + lift[k][j] for j in placed if lift[k][j]], default=0)
            at = -(-at // b.align) * b.align
            drop({**placed, k: at}, max(height, at + tall[k]))

    drop({}, 0)
    return best


def some(seed: int, aligns: tuple[int, ...]) -> list[Buffer]:
    r = random.Random(seed)
    found = []
    for k in range(r.randint(2, 7)):
        start = r.randint(0, 6)
        end = start + r.randint(1, 5)
        found.append(Buffer(f"b{k}", r.randint(1, 9), start, end, r.choice(aligns)))
    return found


@pytest.mark.parametrize("aligns", [(1,), (4,), (1, 1, 2, 4)])
def test_optimal_as_brute_force(aligns: tuple[int, ...]) -> None:
    for seed in range(150):
        buffers = some(seed, aligns)
        packing = pack(buffers)
        check(buffers, packing)
        assert packing.optimal
        assert packing.height == least_height(buffers), seed


@pytest.mark.parametrize("aligns", [(1,), (2, 4)])
def test_varying_heights_are_optimal_as_brute_force(aligns: tuple[int, ...]) -> None:
    saved = 0
    for seed in range(150):
        r = random.Random(seed)
        buffers = []
        for b in some(seed, aligns):
            size_profile = [r.randint(1, b.size) for _ in range(b.end - b.start)]
            size_profile[r.randrange(len(size_profile))] = b.size
            buffers.append(replace(b, size_profile=tuple(size_profile)))
        packing = pack(buffers)
        check(buffers, packing)
        assert packing.optimal
        assert packing.height == least_height(buffers), seed
        saved += packing.height < pack([replace(b, size_profile=()) for b in buffers]).height
    assert saved > 10


def full(seed: int, units: int, steps: int) -> list[Buffer]:
    """Random live ranges with exactly `units` bytes live at every step."""
    r = random.Random(seed)
    live: list[tuple[int, int]] = []
    spans: list[tuple[int, int, int]] = []
    for step in range(steps):
        ends = [b for b in live if r.random() < 0.4] if step else []
        for b in ends:
            live.remove(b)
        spans += [(size, start, step) for size, start in ends]
        while (free := units - sum(size for size, _ in live)) > 0:
            live.append((r.randint(1, min(free, 4)), step))
    spans += [(size, start, steps) for size, start in live]
    return [Buffer(f"b{k}", *span, align=1) for k, span in enumerate(spans)]


def test_an_optimum_above_the_bound_is_proven() -> None:
    spans = [(3, 0, 1), (2, 0, 2), (1, 1, 3), (1, 2, 3), (2, 1, 4), (1, 2, 4), (2, 3, 5), (3, 4, 5)]
    buffers = [Buffer(f"b{k}", *span, align=1) for k, span in enumerate(spans)]
    packing = pack(buffers)
    check(buffers, packing)
    assert (packing.lower_bound, packing.height, packing.optimal) == (5, 6, True)
    assert least_height(buffers) == 6


def test_tight_instances_are_optimal_as_brute_force() -> None:
    tried = 0
    for seed in range(600):
        buffers = full(seed, 5 + seed % 2, 5)
        if len(buffers) > 9:
            continue
        tried += 1
        packing = pack(buffers)
        check(buffers, packing)
        assert packing.optimal
        if packing.height > packing.lower_bound or seed % 20 == 0:
            assert packing.height == least_height(buffers), seed
    assert tried > 80


def slabs(seed: int, side: int, times: int, cuts: int) -> list[Buffer]:
    """A rectangle of `side` bytes by `times` steps cut into buffers: its optimum is `side`."""
    r = random.Random(seed)
    parts = [(0, side, 0, times)]
    while len(parts) < cuts:
        k = max(range(len(parts)), key=lambda i: (parts[i][1] - parts[i][0]) * r.random())
        low, high, start, end = parts.pop(k)
        if (r.random() < 0.5 and end - start > 1) or high - low < 2:
            t = r.randint(start + 1, end - 1) if end - start > 1 else end
            parts += [p for p in ((low, high, start, t), (low, high, t, end)) if p[2] < p[3]]
        else:
            m = r.randint(low + 1, high - 1)
            parts += [(low, m, start, end), (m, high, start, end)]
    return [Buffer(f"b{k}", h - lo, s, e, 1) for k, (lo, h, s, e) in enumerate(parts)]


@pytest.mark.parametrize("seed", range(8))
def test_perfect_packings_are_found(seed: int) -> None:
    buffers = slabs(seed, 4096, 60, 60)
    packing = pack(buffers)
    check(buffers, packing)
    assert packing.height == packing.lower_bound == 4096
    assert packing.optimal


def test_size_is_rounded_to_the_common_alignment() -> None:
    packing = pack([Buffer("a", 1, 0, 2), Buffer("b", 65, 0, 2), Buffer("c", 0, 0, 9)])
    assert (packing.height, packing.lower_bound, packing.optimal) == (192, 192, True)
    assert packing.offsets["c"] == 0


def test_no_buffers() -> None:
    assert pack([]) == Packing({}, 0, 0, True)


def test_fixed_offsets_are_kept() -> None:
    buffers = [
        Buffer("f", 64, 2, 5, fixed=128),
        Buffer("a", 128, 0, 3),
        Buffer("b", 64, 4, 6),
        Buffer("c", 192, 5, 8),
    ]
    packing = pack(buffers)
    check(buffers, packing)
    assert packing.height == 256 == packing.lower_bound


def test_overlapping_fixed_buffers_are_refused() -> None:
    both = [Buffer("f", 128, 0, 2, fixed=0), Buffer("g", 64, 1, 3, fixed=64)]
    with pytest.raises(ValueError, match="overlap"):
        pack(both)


@pytest.mark.parametrize(
    "bad",
    [
        Buffer("b", 4, 3, 3),
        Buffer("b", 4, 0, 1, 0),
        Buffer("b", 4, 0, 1, 64, 32),
        Buffer("b", 4, 0, 2, size_profile=(4,)),
        Buffer("b", 4, 0, 2, size_profile=(3, 3)),
    ],
)
def test_malformed_buffers_are_refused(bad: Buffer) -> None:
    with pytest.raises(ValueError, match="buffer b"):
        pack([bad])


def test_without_effort_the_result_is_valid_and_claims_nothing() -> None:
    claims = 0
    for seed in range(25):
        buffers = full(seed, 64, 10)
        packing = pack(buffers, effort=0)
        check(buffers, packing)
        claims += packing.optimal
        assert packing.optimal == (packing.height == packing.lower_bound)
    assert claims < 25


def test_effort_is_a_limit() -> None:
    problem = problem_of(slabs(3, 1 << 20, 200, 300))
    answer = feasible(problem, problem.bound, 1200)
    assert answer.steps <= 1200 + 300


def test_same_input_same_offsets() -> None:
    buffers = slabs(5, 4096, 60, 60)
    assert pack(buffers) == pack(buffers)


def test_a_thousand_nested_buffers_do_not_overflow_the_stack() -> None:
    buffers = [Buffer(f"b{k}", 64 + 64 * (k % 7), k % 5, 2500 - k) for k in range(1000)]
    packing = pack(buffers, effort=2000)
    check(buffers[:50], packing)
