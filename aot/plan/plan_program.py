# SPDX-License-Identifier: Apache-2.0
"""The back half of a compilation: lower, schedule and plan, for each width of vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from aot.errors import UnsupportedError
from aot.ir.check_plan import check_plan
from aot.ir.check_program import check_program
from aot.ir.check_rows import check_rows
from aot.ir.deferred_import import ir
from aot.ir.plan import Plan
from aot.ir.program import Program, Role
from aot.ir.rows import STREAMED
from aot.ir.stages import Stages
from aot.lower.lower import lower
from aot.lower.persistent_tensors import stage_outputs
from aot.options import Options
from aot.partition.result import Partition
from aot.plan.async_overlap import overlap
from aot.plan.board_memory import io_bytes, rooms
from aot.plan.control_flow import plan_subprograms
from aot.plan.fetch.choose import fetched
from aot.plan.memory.plan import plan_memory
from aot.plan.memory.split import split_arena
from aot.plan.overread import readable
from aot.plan.schedule import schedule
from aot.plan.slices import apart
from aot.plan.stack.declare import declared
from aot.plan.statics import static_bytes, vendor_bytes
from aot.plan.streaming.cached import cached
from aot.plan.streaming.choose import choose
from aot.plan.streaming.placed import place_rows
from aot.plan.streaming.pushed import check_pushed, push
from aot.plan.streaming.runs import in_batches, want_several
from aot.plan.threads import threaded
from aot.target import Target

#: Parts of the arena that a budget leaves which are tried in turn: what is estimated packs into a
#: little more, and calls by rows take more stack.
SHARES = (1.0, 0.97, 0.92, 0.85, 0.7, 0.0)
#: Bytes of an arena, to those of the smallest one, for which steps make several rows: of all calls
#: that want this, or of a share of them.
MORE, SOME_MORE = 1.2, 1.08
#: How many numbers of such calls are tried.
TRIES = 3


def plan_programs(
    name: str,
    graph: ir.Graph,
    partition: Partition,
    chips: Iterable[Target],
    options: Options,
    stage: Stages,
) -> Iterator[tuple[Target, Program, Plan]]:
    """(target, program, plan) for each width of vectors in `chips`, until one wastes little arena.

    Channels are padded to whole vectors, so the width decides how much of the arena is padding.
    `stage` runs each step under its name and may show its result; programs are checked after
    lowering and after scheduling.
    """
    for chip in chips:
        begin = partial(lower, name, graph, partition, chip, options)
        program = stage("lower", begin, Program.text)
        program = push(program, options.push) if options.push else program
        program = threaded(program, options.threads, bool(options.slice_macs))
        program = apart(program, options.slice_macs)
        check_program(program)
        fetching = fetched(program, chip, options)
        made, plan = _finished(fetching, chip, options, stage)
        if fetching is not program and _excess(made, plan, chip, options):
            made, plan = _finished(program, chip, options, stage)
            made, plan = _fetching_too(program, made, plan, chip, options, stage)
        yield chip, made, plan
        if plan.pads_little(_scratch(made)):
            return


def _fetching_too(
    program: Program, whole: Program, plan: Plan, chip: Target, options: Options, stage: Stages
) -> tuple[Program, Plan]:
    """`whole`, which is `program` in order, with its plan; if some of its calls fit `--ram` by
    rows, and the others still do so with weights that come by blocks, the program of both.
    """
    rows, _ = within_ram(whole, plan, chip, options)
    inside = {c.writes()[0] for c in rows.calls if c.region == STREAMED}
    apart = [replace(c, region=STREAMED) if inside & {*c.writes()} else c for c in program.calls]
    fetching = fetched(replace(program, calls=tuple(apart)), chip, options)
    calls = (replace(c, region=-1) if c.region == STREAMED else c for c in fetching.calls)
    if not inside or not any(c.fetches for c in fetching.calls):
        return whole, plan
    both = _finished(replace(fetching, calls=tuple(calls)), chip, options, stage)
    both = within_ram(*both, chip, options)
    return (whole, plan) if _excess(*both, chip, options) else both


def _finished(
    program: Program, chip: Target, options: Options, stage: Stages
) -> tuple[Program, Plan]:
    """The program in its best order with the plan of its memory."""
    effort = options.plan_effort
    # The arenas of bodies are scratch of the calls that run them, so they come first.
    program = stage("bodies", partial(plan_subprograms, program, chip, effort))
    order = _overlapped if options.objective in ("latency", "energy") else schedule
    program = stage("schedule", partial(order, readable(stage_outputs(program))), Program.text)
    check_program(program)
    by_rows = options.objective == "ram" or bool(options.push)
    # Threads and slices share whole calls, --ram decides on rows itself, and scalars wait for no
    # cache.
    whole = options.threads > 1 or options.slice_macs or options.ram or chip.vlen == 1
    cache = chip.cache if options.objective == "latency" and not whole else 0
    return stage("plan", partial(_planned, program, chip, effort, by_rows, cache), _text)


def _scratch(program: Program) -> int:
    """Bytes of scratch of the call that has most."""
    own = ({a.tensor for a in call.pointers()} for call in program.calls)
    tensors = program.tensors
    sizes = (sum(tensors[n].nbytes for n in c if tensors[n].role is Role.SCRATCH) for c in own)
    return max(sizes, default=0)


def _planned(
    program: Program, chip: Target, effort: int, by_rows: bool, cache: int
) -> tuple[Program, Plan]:
    """The program with its plan; `by_rows` with calls made row by row where that needs less, else
    where what they hand on stays in a `cache` of so many bytes.
    """
    plan = plan_memory(program, chip, effort=effort)
    check_plan(program, plan)
    if not by_rows:
        return in_rows(cached(program, cache), program, plan, effort) if cache else (program, plan)
    return streamed(program, plan, effort)


def _text(planned: tuple[Program, Plan]) -> str:
    """The segments, if there are any, and the plan."""
    program, plan = planned
    return "".join(f"{s.text()}\n" for s in program.segments) + plan.text()


def streamed(program: Program, plan: Plan, effort: int, budget: int = 0) -> tuple[Program, Plan]:
    """The program with calls made row by row, if that needs a smaller arena than `plan`.

    Without a budget the arena is the smallest; with one, in bytes, as few calls as fit it are.
    """
    made = choose(program, budget)
    if program.pushed:
        check_pushed(made)
    return in_rows(made, program, plan, effort, budget)


def in_rows(
    made: Program, program: Program, plan: Plan, effort: int, budget: int = 0
) -> tuple[Program, Plan]:
    """`made`, which is `program` with segments, and its plan, if that arena is smaller than
    `plan`'s, else the program with its plan; `effort` and `budget` as `streamed` takes them.
    """
    if not made.segments:
        return program, plan
    found = place_rows(made, effort)
    made, found = _several_rows(made, found, effort, budget)
    check_rows(made, found)
    less = found.arena_bytes < plan.arena_bytes or program.pushed
    return (made, found) if less else (program, plan)


def _several_rows(program: Program, plan: Plan, effort: int, budget: int) -> tuple[Program, Plan]:
    """The program with steps of several rows, whose kernels make these faster than one by one, if
    that fits the budget in bytes, or without one if it needs at most a fifth more than `plan`.

    Otherwise as many calls have such steps as fit the budget, or need a twelfth more.
    """
    least, most, best = 0, len(want_several(program)), (program, plan)
    asked, limit = most, MORE
    for _ in range(1 + TRIES):
        if asked == least:
            break
        made = in_batches(program, asked)
        found = place_rows(made, effort)
        if found.arena_bytes <= max(budget, plan.arena_bytes * limit):
            least, best = asked, (made, found)
        else:
            most = asked
        asked, limit = (least + most) // 2, SOME_MORE
    return best


def within_ram(
    program: Program, plan: Plan, target: Target, options: Options
) -> tuple[Program, Plan]:
    """The fastest plan that fits `--ram`: whole tensors, else as few calls by rows as do.

    If nothing fits, the plan is the smallest.
    """
    if program.segments or not _excess(program, plan, target, options):
        return program, plan
    arena = plan.arena_bytes - _excess(program, plan, target, options)
    found = program, plan
    for share in SHARES:
        budget = max(1, int(arena * share))
        found = streamed(program, plan, options.plan_effort, budget)
        if not _excess(*found, target, options):
            break
    return found


def in_memories(program: Program, plan: Plan, target: Target, options: Options) -> Plan:
    """`plan`, with `--arena split` in several memories of the board where the fastest one is too
    small. Values apart take more bytes: where `--ram` allows only those of `plan`, it stays whole.

    UnsupportedError for a target whose arena cannot be split.
    """
    if options.arena == "one":
        return plan
    constants = sum(program.tensors[n].nbytes for n in program.consts)
    own = io_bytes(program) + vendor_bytes(program, options)
    found = rooms(target, own, constants) if target.board else []
    if len(found) < 2:
        what = f"--arena split: target {target.name} has one memory for the arena"
        hint = 'a target file with several [[memory]] tables that say use = ["arena"]'
        raise UnsupportedError(what, hint=hint)
    made = split_arena(program, plan, found, target.pointer_bits // 8, options.plan_effort)
    fits = any(plan.arena_bytes <= room.bytes for room in found)
    if fits and _excess(program, made, target, options):
        return plan
    if made.parts:
        check_plan(program, made)
    return made


def _excess(program: Program, plan: Plan, target: Target, options: Options) -> int:
    """Bytes that arena, variables and declared stack are above `--ram`; 0 without it, or if the
    stack is unknown."""
    stack = declared(program, target).bytes
    if stack is None or options.ram is None:
        return 0
    static = static_bytes(program, target.pointer_bits // 8, len(plan.parts))
    taken = plan.arena_bytes + static + vendor_bytes(program, options) + stack
    return max(0, taken - options.ram)


def _overlapped(program: Program) -> Program:
    """`program` in its best order, with other calls between the start and the end of a region."""
    return overlap(schedule(program))
