# SPDX-License-Identifier: Apache-2.0
"""Bodies are scheduled and planned before the program around them, which gives each its arena.

The bodies of an If share one arena: only one of them runs.
"""

from __future__ import annotations

from dataclasses import replace

from aot.ir.check_program import check_program
from aot.ir.program import Body, Call, Program
from aot.plan.memory.plan import plan_memory
from aot.plan.overread import readable
from aot.plan.schedule import schedule
from aot.target import Target


def plan_subprograms(program: Program, target: Target, effort: int) -> Program:
    """`program` with every body in its best order and planned, spending `effort` on each plan.

    The scratch tensor of each call that has bodies is as large as the largest of their arenas.
    Programs are checked here, plans with the plan around them.
    """
    tensors = dict(program.tensors)
    calls = []
    for call in program.calls:
        if call.bodies:
            call = replace(call, bodies=tuple(_planned(b, target, effort) for b in call.bodies))
            need, align = arena_of(call)
            name = call.args[call.bodies[0].arena].tensor  # type: ignore[union-attr]
            tensors[name] = replace(tensors[name], shape=(max(1, need),), align=align)
        calls.append(call)
    return replace(program, tensors=tensors, calls=tuple(calls))


def arena_of(call: Call) -> tuple[int, int]:
    """Bytes and alignment of the arena that the bodies of a call need."""
    plans = [b.plan for b in call.bodies if b.plan is not None]
    return max(p.arena_bytes for p in plans), max(p.alignment for p in plans)


def _planned(body: Body, target: Target, effort: int) -> Body:
    program = plan_subprograms(body.program, target, effort)
    program = schedule(readable(program))
    check_program(program, part=True)
    plan = plan_memory(program, target, effort=effort)
    return replace(body, program=program, plan=plan)
