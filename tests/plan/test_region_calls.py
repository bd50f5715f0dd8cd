# SPDX-License-Identifier: Apache-2.0
"""The calls of a vendor's region follow in a row: when lowered, when reordered, when checked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from test_schedule import orders

from aot.errors import InternalError
from aot.ir.check_program import check_program
from aot.ir.layout import blocked
from aot.ir.program import Program
from aot.lower.lower import lower
from aot.options import Options
from aot.partition.select import select
from aot.plan.memory.plan import plan_memory
from aot.plan.schedule import schedule
from aot.target import load_target
from aot.vendor.backend import Backend
from memory_programs import execute, random_program
from partition_graphs import typed_graph


def with_regions(program: Program, seed: int) -> Program:
    """Some neighbouring calls made regions of a vendor."""
    r = random.Random(seed)
    calls, region, open_ = [], -1, False
    for call in program.calls:
        if not open_ or r.random() < 0.4:
            open_ = r.random() < 0.6
            region += open_
        number, backend = (region, "acme") if open_ else (-1, "c")
        calls.append(replace(call, region=number, backend=backend))
    return replace(program, calls=tuple(calls))


def in_a_row(program: Program) -> bool:
    seen: list[int] = []
    for call in program.calls:
        if call.region >= 0 and (not seen or seen[-1] != call.region):
            seen.append(call.region)
        elif call.region < 0:
            seen.append(-1)
    numbers = [r for r in seen if r >= 0]
    return len(numbers) == len(set(numbers))


def contiguous(program: Program) -> Iterator[Program]:
    return (p for p in orders(program) if in_a_row(p))


def test_the_best_order_keeps_regions_in_a_row() -> None:
    proven = better = 0
    for seed in range(60):
        program = with_regions(random_program(seed, 5, seed % 2 == 0), seed)
        check_program(program)
        ordered = schedule(program)
        check_program(ordered)
        assert in_a_row(ordered)
        assert execute(ordered, None, 0) == execute(program, None, 0)
        need = plan_memory(ordered).lower_bound_bytes
        better += need < plan_memory(program).lower_bound_bytes
        if ordered.schedule_optimal:
            proven += 1
            least = min(plan_memory(p).lower_bound_bytes for p in contiguous(program))
            assert need == least, seed
    assert proven > 20
    assert better


def test_a_beam_keeps_regions_in_a_row() -> None:
    for seed in range(8):
        program = with_regions(random_program(seed, 40, True), seed)
        ordered = schedule(program, effort=50)
        check_program(ordered)
        assert in_a_row(ordered)


def test_the_checker_rejects_calls_apart_and_two_vendors_in_a_region() -> None:
    program = random_program(1, 4, False)
    calls = list(program.calls)
    apart = [replace(c, region=0, backend="acme") for c in calls]
    apart[1] = calls[1]
    with pytest.raises(InternalError, match="is not next to the others"):
        check_program(replace(program, calls=tuple(apart)))
    mixed = [replace(c, region=0, backend="acme") for c in calls]
    mixed[1] = replace(mixed[1], backend="other")
    with pytest.raises(InternalError, match="calls of acme and other"):
        check_program(replace(program, calls=tuple(mixed)))
    stray = [replace(calls[0], region=0), *calls[1:]]
    with pytest.raises(InternalError, match="call 0 of c is in region 0"):
        check_program(replace(program, calls=tuple(stray)))


def test_what_enters_a_region_is_converted_before_its_first_call() -> None:
    """a = Exp(x); b = Neg(x); then the vendor: p = Sin(a), q = Add(p, b), blocked."""
    chip, portable = Backend("acme"), Backend("c")
    chip.pattern(lambda op, x: op.Sin(x)).name = "sin"
    chip.pattern(lambda op, x, z: op.Add(x, z)).name = "add"
    portable.pattern(lambda op, x: op.Exp(x)).name = "exp"
    portable.pattern(lambda op, x: op.Neg(x)).name = "neg"
    for p in chip.patterns:
        p.layouts(lambda m, incoming, v: {n: blocked(v) for n in m.values})
        p.lower(lambda c, m: c.call("aot_v", m.y, m.x, c.params(n=1)))
    chip.patterns[1].lower(lambda c, m: c.call("aot_w", m.y, m.x, m.z, c.params(n=1)))
    for p in portable.patterns:
        p.lower(lambda c, m: c.call("aot_k", m.y, m.x, c.params(n=1)))
    rows = [("Exp", "x", "a"), ("Neg", "x", "b"), ("Sin", "a", "p"), ("Add", "p b", "q")]
    graph = typed_graph(rows, [1, 16, 4, 4], "q")
    target = load_target("x86-64-v4")
    program = lower("net", graph, select(graph, [chip, portable]), target, Options())
    check_program(program)
    assert [(c.kernel, c.region) for c in program.calls] == [
        ("aot_k", -1),
        ("aot_k", -1),
        ("aot_to_blocked", -1),
        ("aot_to_blocked", -1),
        ("aot_v", 0),
        ("aot_w", 0),
        ("aot_from_blocked_32", -1),
    ]
