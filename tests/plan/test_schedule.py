# SPDX-License-Identifier: Apache-2.0
"""Orders: optimal among all topological orders, dependences kept, the own order wins ties."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from aot.ir.check_program import check_program
from aot.ir.program import Access, Arg, Call, Program, Role
from aot.plan.memory.plan import plan_memory
from aot.plan.schedule import schedule
from memory_programs import Maker, chain, execute, random_program


def orders(program: Program) -> Iterator[Program]:
    """Every order of the calls that reads what it read before: all topological orders."""
    n = len(program.calls)

    def touched(call: Call) -> list[tuple[str, int, int, bool]]:
        found = []
        for a in call.pointers():
            root, offset = program.base(a.tensor)
            end = offset + program.tensors[a.tensor].nbytes
            found.append((root, offset, end, a.access is not Access.READ))
        return found

    uses = [touched(c) for c in program.calls]

    def tied(i: int, j: int) -> bool:
        return any(
            r == s and (w or v) and b < f and d < e
            for r, b, e, w in uses[i]
            for s, d, f, v in uses[j]
        )

    before = [{i for i in range(j) if tied(i, j)} for j in range(n)]

    def extend(done: list[int]) -> Iterator[list[int]]:
        if len(done) == n:
            yield done
        for j in range(n):
            if j not in done and before[j] <= set(done):
                yield from extend([*done, j])

    for order in extend([]):
        yield replace(program, calls=tuple(program.calls[k] for k in order))


def need(program: Program) -> int:
    return plan_memory(program).lower_bound_bytes


@pytest.mark.parametrize("views", [False, True])
def test_optimal_among_all_orders(views: bool) -> None:
    proven = better = 0
    for seed in range(40):
        program = random_program(seed, 5, views)
        ordered = schedule(program)
        check_program(ordered)
        assert execute(ordered, None, 0) == execute(program, None, 0)
        if ordered.schedule_optimal:
            proven += 1
            assert need(ordered) == min(map(need, orders(program))), seed
        better += need(ordered) < need(program)
    assert proven > 20
    assert better


def wide(branches: int) -> Program:
    """x → big_k → small_k for many k, all big ones first in the program's own order."""
    m = Maker()
    m.tensor("x", 64, Role.INPUT)
    for k in range(branches):
        m.call(m.tensor(f"big{k}", 6400), "x")
    for k in range(branches):
        m.call(m.tensor(f"small{k}", 64), f"big{k}")
    smalls = [f"small{k}" for k in range(branches)]
    m.call(m.tensor("y", 64, Role.OUTPUT), smalls)
    return m.program()


def test_branches_are_finished_one_by_one() -> None:
    program = wide(8)
    ordered = schedule(program)
    check_program(ordered)
    assert need(program) == 8 * 6400 + 64
    assert need(ordered) == 6400 + 8 * 64
    assert ordered.schedule_optimal


def test_many_branches_get_a_good_order_without_proof() -> None:
    ordered = schedule(wide(150), effort=5000)
    check_program(ordered)
    assert need(ordered) == 6400 + 150 * 64
    assert not ordered.schedule_optimal


def test_an_optimal_order_is_left_alone() -> None:
    program = chain([640, 64, 1280, 64], inplace=False)
    ordered = schedule(program)
    assert ordered.calls == program.calls
    assert ordered.schedule_optimal


def test_in_place_counts() -> None:
    """Beside its dying operand the result takes no space: the peak is the two long-lived ones."""
    program = chain([640] * 5, inplace=True)
    ordered = schedule(program)
    assert ordered.schedule_optimal
    assert need(ordered) == 640


def test_updates_keep_their_order() -> None:
    """Calls that write the same bytes, and readers between them, are not exchanged."""
    m = Maker()
    m.tensor("x", 64, Role.INPUT)
    m.call(m.tensor("a", 64), "x")
    m.call(m.tensor("big", 6400), "a")
    m.call(m.tensor("y0", 64, Role.OUTPUT), "big")
    program = m.program()
    update = replace(program.calls[1], args=(Arg("a", Access.READ_WRITE),))
    calls = (program.calls[0], program.calls[1], update, program.calls[2])
    ordered = schedule(replace(program, calls=calls))
    assert ordered.calls == calls


def cell(seed: int, nodes: int) -> Program:
    """A randomly wired cell: ring lattice with rewired edges, every node sums what it reads."""
    r = random.Random(seed)
    edges = set()
    for v in range(nodes):
        for step in (1, 2):
            w = (v + step) % nodes if r.random() > 0.75 else r.randrange(nodes)
            if v != w:
                edges.add((min(v, w), max(v, w)))
    m = Maker()
    m.tensor("x", 64, Role.INPUT)
    for v in range(nodes):
        ins = [f"t{u}" for u in range(v) if (u, v) in edges] or ["x"]
        m.call(m.tensor(f"t{v}", 64 * r.choice([1, 2, 4])), ins)
    read = {u for u, _ in edges}
    ends = [f"t{v}" for v in range(nodes) if v not in read]
    m.call(m.tensor("y", 64, Role.OUTPUT), ends)
    return m.program()


@pytest.mark.parametrize("seed", range(4))
def test_random_cells_get_proven_orders(seed: int) -> None:
    program = cell(seed, 24)
    ordered = schedule(program)
    check_program(ordered)
    assert ordered.schedule_optimal
    assert need(ordered) <= need(program)


def test_without_effort_the_order_is_still_no_worse() -> None:
    for seed in range(10):
        program = cell(seed, 40)
        ordered = schedule(program, effort=0)
        check_program(ordered)
        assert need(ordered) <= need(program)


def test_same_program_same_order() -> None:
    program = cell(3, 40)
    assert schedule(program).text() == schedule(program).text()
