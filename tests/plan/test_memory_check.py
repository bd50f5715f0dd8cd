# SPDX-License-Identifier: Apache-2.0
"""The plan checker rejects every kind of wrong plan; mutations of right ones are caught."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aot.errors import InternalError
from aot.ir.check_plan import check_plan
from aot.ir.plan import Place, Plan
from aot.ir.program import Access, Program, Role
from aot.plan.memory.plan import plan_memory
from memory_programs import Maker, chain, execute, random_program


def moved(plan: Plan, **offsets: int) -> Plan:
    """`plan` with some tensors elsewhere, in an arena large enough."""
    places = dict(plan.placements)
    for name, offset in offsets.items():
        places[name] = Place("arena", offset)
    return replace(plan, placements=places, arena_bytes=max(plan.arena_bytes, 1 << 16))


def two_live() -> Program:
    m = Maker()
    m.call(m.tensor("a", 640), m.tensor("x", 64, Role.INPUT))
    m.call(m.tensor("b", 640), "x", scratch=64)
    m.call(m.tensor("c", 640), "a b")
    m.call(m.tensor("y", 640, Role.OUTPUT), "c")
    return m.program()


@pytest.mark.parametrize("shift", [0, 64, -64, 576])
def test_overlap_of_live_buffers(shift: int) -> None:
    program = two_live()
    plan = moved(plan_memory(program), a=1024, b=1024 + shift, c=4096, s1=8192)
    with pytest.raises(InternalError, match="reads a, which was overwritten by b"):
        check_plan(program, plan)


def test_result_on_an_operand_without_permission() -> None:
    program = two_live()
    plan = moved(plan_memory(program), a=0, b=1024, c=0, s1=8192)
    with pytest.raises(InternalError, match=r"call 2 \(k\) writes c on a"):
        check_plan(program, plan)


def test_scratch_on_a_result_of_the_same_call() -> None:
    program = two_live()
    plan = moved(plan_memory(program), a=0, b=1024, c=2048, s1=1088)
    with pytest.raises(InternalError, match=r"writes (b on s1|s1 on b)"):
        check_plan(program, plan)


def test_in_place_but_not_at_the_same_address() -> None:
    program = chain([640, 640], inplace=True)
    plan = moved(plan_memory(program), t0=0, t1=64)
    with pytest.raises(InternalError, match="writes t1 on t0"):
        check_plan(program, plan)


def test_in_place_result_larger_than_its_operand() -> None:
    program = chain([640, 704], inplace=True)
    plan = moved(plan_memory(program), t0=0, t1=0)
    with pytest.raises(InternalError, match="writes t1 on t0"):
        check_plan(program, plan)


def test_misaligned_missing_outside() -> None:
    program = two_live()
    plan = plan_memory(program)
    with pytest.raises(InternalError, match="a at 32 is not aligned to 64"):
        check_plan(program, moved(plan, a=32))
    gone = {n: p for n, p in plan.placements.items() if n != "b"}
    with pytest.raises(InternalError, match="b has no place"):
        check_plan(program, replace(plan, placements=gone))
    with pytest.raises(InternalError, match="leaves the arena"):
        check_plan(program, moved(plan, c=1 << 16))
    with pytest.raises(InternalError, match="below its bound"):
        check_plan(program, replace(plan, arena_bytes=plan.lower_bound_bytes - 64))
    with pytest.raises(InternalError, match="does not exist"):
        check_plan(program, moved(plan, ghost=0))


def test_caller_memory_in_the_arena() -> None:
    program = two_live()
    with pytest.raises(InternalError, match=r"x \(input\) is placed in arena"):
        check_plan(program, moved(plan_memory(program), x=0))


def test_view_away_from_its_base() -> None:
    m = Maker()
    m.call(m.tensor("a", 640), m.tensor("x", 64, Role.INPUT))
    m.view("v", 64, "a", 128)
    m.call(m.tensor("y", 64, Role.OUTPUT), "v")
    program = m.program()
    plan = plan_memory(program)
    check_plan(program, plan)
    with pytest.raises(InternalError, match="view v at 192 is not 128 bytes into a"):
        check_plan(program, moved(plan, v=192))


def test_read_of_bytes_never_written() -> None:
    program = two_live()
    call = program.calls[1]
    reads = replace(call.args[0], access=Access.READ)  # type: ignore[arg-type]
    calls = (program.calls[0], replace(call, args=(reads, *call.args[1:])), *program.calls[2:])
    with pytest.raises(InternalError, match="reads b, which was never written"):
        check_plan(replace(program, calls=calls), plan_memory(program))


def clash(program: Program, plan: Plan) -> bool:
    """Whether the outputs differ when the program runs in this plan."""
    places = {n: p.offset for n, p in plan.placements.items()}
    return execute(program, places, plan.arena_bytes) != execute(program, None, 0)


def test_every_move_that_changes_results_is_rejected() -> None:
    """Each root is moved over each other one; what the checker accepts must compute the same."""
    rejected = accepted = 0
    for seed in range(40):
        program = random_program(seed, 12)
        plan = plan_memory(program)
        roots = [n for n in plan.placements if program.base(n)[0] == n]
        for name in roots:
            for other in roots:
                target = plan.placements[other].offset
                at = plan.placements[name].offset
                if target == at:
                    continue
                shifted = {
                    n: p.offset - at + target
                    for n, p in plan.placements.items()
                    if program.base(n)[0] == name
                }
                mutant = moved(plan, **shifted)
                try:
                    check_plan(program, mutant)
                    accepted += 1
                    assert not clash(program, mutant), (seed, name, other)
                except InternalError:
                    rejected += 1
    assert rejected > 500
    assert accepted > 50
