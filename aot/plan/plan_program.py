# SPDX-License-Identifier: Apache-2.0
"""The back half of a compilation: lower, schedule and plan, for each width of vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from aot.ir.check_plan import check_plan
from aot.ir.check_program import check_program
from aot.ir.deferred_import import ir
from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.ir.stages import Stages
from aot.lower.lower import lower
from aot.lower.persistent_tensors import stage_outputs
from aot.options import Options
from aot.partition.result import Partition
from aot.plan.async_overlap import overlap
from aot.plan.control_flow import plan_subprograms
from aot.plan.memory.plan import plan_memory
from aot.plan.schedule import schedule
from aot.target import Target


def plan_programs(
    name: str,
    graph: ir.Graph,
    partition: Partition,
    chips: Iterable[Target],
    options: Options,
    stage: Stages,
) -> Iterator[tuple[Target, Program, Plan]]:
    """The program and its plan for each width of vectors, until one wastes little of the arena."""
    effort = options.plan_effort
    for chip in chips:
        begin = partial(lower, name, graph, partition, chip, options)
        program = stage("lower", begin, Program.text)
        check_program(program)
        program = stage("bodies", partial(plan_subprograms, program, chip, effort))
        order = _overlapped if options.objective in ("latency", "energy") else schedule
        program = stage("schedule", partial(order, stage_outputs(program)), Program.text)
        check_program(program)
        plan = stage("plan", partial(plan_memory, program, chip, effort=effort), Plan.text)
        check_plan(program, plan)
        yield chip, program, plan
        if plan.pads_little():
            return


def _overlapped(program: Program) -> Program:
    """`program` in its best order, with other calls between the start and the end of a region."""
    return overlap(schedule(program))
