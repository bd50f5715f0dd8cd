# SPDX-License-Identifier: Apache-2.0
"""Arenas in several memories: random programs compute the same, sizes are kept, costs are least."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations

import pytest

from aot.errors import InternalError
from aot.ir.check_plan import check_plan
from aot.ir.plan import Place, Plan
from aot.ir.program import Program, Role
from aot.packing.pack import pack
from aot.plan.memory.alias import decide
from aot.plan.memory.frame import framed
from aot.plan.memory.plan import plan_memory
from aot.plan.memory.split import Room, moved_bytes, split_arena
from memory_programs import Maker, arena_io, execute, random_program


def rooms(plan: Plan, *shares: float) -> list[Room]:
    """A memory per share of the arena, each three times as slow as the one before, and a large
    one."""
    sizes = [int(plan.arena_bytes * s) for s in shares] + [4 * plan.arena_bytes]
    return [Room(f"m{k}", size, 3.0**k) for k, size in enumerate(sizes)]


def cost(plan: Plan) -> float:
    return sum(p.cost * p.traffic for p in plan.parts)


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_compute_the_same_in_several_memories(seed: int) -> None:
    program = random_program(seed, 24)
    if seed % 2:
        program = arena_io(program)
    whole = plan_memory(program)
    given = rooms(whole, 0.4, 0.3) if seed % 3 else rooms(whole, 0.5)
    plan = split_arena(program, whole, given, 4)
    check_plan(program, plan)
    sizes = {r.memory: r.bytes for r in given}
    assert len(plan.parts) > 1
    assert all(p.bytes <= sizes[p.memory] for p in plan.parts)
    assert min(p.offset for p in plan.placements.values()) >= plan.parts[0].head >= 4 * len(given)
    places = {name: place.offset for name, place in plan.placements.items()}
    assert execute(program, places, plan.arena_bytes) == execute(program, None, 0)
    slowest = max(r.cost for r in given) * sum(p.traffic for p in plan.parts)
    assert cost(plan) < slowest


def least(program: Program, size: int) -> float:
    """The least cost of two memories by trying every set of values for the fast one."""
    groups = decide(framed(program)).groups
    moved = moved_bytes(program, groups)
    every = range(len(groups))
    best = max(
        sum(moved[i] for i in chosen)
        for n in range(len(groups) + 1)
        for chosen in combinations(every, n)
        if pack([groups[i].buffer for i in chosen]).height <= size
    )
    return 3.0 * sum(moved) - 2.0 * best


@pytest.mark.parametrize("seed", range(12))
def test_small_programs_cost_the_least_there_is(seed: int) -> None:
    program = random_program(100 + seed, 8)
    whole = plan_memory(program)
    given = rooms(whole, 0.6)
    plan = split_arena(program, whole, given, 4)
    size = (given[0].bytes - plan.parts[0].head) // plan.alignment * plan.alignment
    assert cost(plan) == least(program, size)


def test_the_others_must_fit_the_slow_memory() -> None:
    """The value that is moved most would leave too much for the slow memory."""
    m = Maker()
    m.call(m.tensor("hot", 640), m.tensor("x", 64, Role.INPUT))
    m.call(m.tensor("large", 1280), "hot")
    m.call(m.tensor("more", 512), "hot large")
    m.call(m.tensor("y", 1, Role.OUTPUT), "hot hot hot more")
    program = m.program()
    whole = plan_memory(program)
    fast = Room("fast", 1280 + 64, 1.0)
    plan = split_arena(program, whole, [fast, Room("slow", 1216, 2.0)], 8)
    check_plan(program, plan)
    assert plan.placements["large"].memory == "fast"
    roomy = split_arena(program, whole, [fast, Room("slow", 4096, 2.0)], 8)
    assert roomy.placements["hot"].memory == "fast"


def test_an_arena_that_fits_the_fast_memory_stays_whole() -> None:
    program = random_program(1, 24)
    whole = plan_memory(program)
    assert split_arena(program, whole, rooms(whole, 1.0), 4) is whole
    assert split_arena(program, whole, rooms(whole)[:1], 4) is whole


def test_wrong_parts_are_caught() -> None:
    program = random_program(3, 24)
    whole = plan_memory(program)
    plan = split_arena(program, whole, rooms(whole, 0.5), 4)
    first, second = plan.parts
    name = next(n for n, p in plan.placements.items() if p.memory == first.memory)
    for change, said in (
        ({name: Place(first.memory, 0)}, "leaves the arena"),
        ({name: Place(first.memory, first.bytes - 1)}, "leaves the arena"),
        ({name: Place(second.memory, first.head)}, "leaves the arena"),
        ({name: Place("other", first.head)}, "no part in other"),
    ):
        with pytest.raises(InternalError, match=said):
            check_plan(program, replace(plan, placements={**plan.placements, **change}))
    for parts in ((second, first), (first, replace(second, begin=first.head))):
        with pytest.raises(InternalError, match="out of place"):
            check_plan(program, replace(plan, parts=parts))
    with pytest.raises(InternalError, match="the arenas end at"):
        check_plan(program, replace(plan, arena_bytes=plan.arena_bytes + 64))


def test_a_large_program_takes_seconds() -> None:
    program = random_program(7, 600)
    whole = plan_memory(program, effort=1000)
    start = time.process_time()
    check_plan(program, split_arena(program, whole, rooms(whole, 0.3, 0.3), 4, 1000))
    assert time.process_time() - start < 20
