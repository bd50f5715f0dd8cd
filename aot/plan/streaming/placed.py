# SPDX-License-Identifier: Apache-2.0
"""The plan of a program with segments: a place for every row.

Rows are read from the first to the last, so a whole tensor that a segment reads is free from its
low end on; the packer knows buffers that are free from their high end. The rows are therefore
packed upside down, and the result is turned over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aot.ir.plan import ARENA, Place, Plan
from aot.ir.program import Program, Role
from aot.packing.pack import EFFORT, Buffer, Packing
from aot.plan.memory.alias import Aliases, Group, decide
from aot.plan.memory.frame import framed, in_arena
from aot.plan.memory.live import Use, segments, uses_of
from aot.plan.memory.plan import logical_bound
from aot.plan.overread import end_of_reads
from aot.plan.streaming.repair import pack_rows
from aot.plan.streaming.unrolled import SUMS, row_name, unrolled


def place_rows(program: Program, effort: int = EFFORT) -> Plan:
    """The plan of a program with segments: rows, sums and whole tensors in one packing.

    `effort` are steps of the exact search.
    """
    whole = framed(unrolled(program))
    uses = uses_of(whole).by_root
    aliases = decide(whole)
    buffers = [_buffer(whole, group, uses) for group in aliases.groups]
    packing = pack_rows(buffers, effort)
    align = max(b.align for b in buffers)
    top = -(-packing.height // align) * align  # so that what is turned over stays aligned
    places: dict[str, int] = {}
    for group, buffer in zip(aliases.groups, buffers, strict=True):
        # The packing is turned upside down: an input's rows, which drain first, come lowest.
        start = top - packing.offsets[buffer.name] - buffer.size
        places |= {root: start + offset for root, offset in group.members}
    return _plan(program, whole, places, replace(packing, height=top), align, aliases)


def _buffer(program: Program, group: Group, uses: Mapping[str, list[Use]]) -> Buffer:
    """A group as the packer sees it, upside down."""
    name = group.members[0][0]
    size = -(-group.size // group.align) * group.align
    size_profile: tuple[int, ...] = ()
    if len(group.members) == 1 and program.tensors[name].role is Role.TEMP:
        size_profile = _left(uses[name], size, group.end - group.start)
    return Buffer(name, size, group.start, group.end, group.align, size_profile=size_profile)


def _left(uses: list[Use], size: int, steps: int) -> tuple[int, ...]:
    """Per step the bytes from the lowest one in use to the end; () where that never changes."""
    first = uses[0].call
    low = [size] * steps
    for begin, _, start, stop in segments(uses, max(u.end for u in uses)):
        for t in range(start - first, min(stop + 1 - first, steps)):
            low[t] = min(low[t], begin)
    found = tuple(size - n for n in low)
    return found if max(found) == size and min(found) < size else ()


def _plan(
    program: Program,
    whole: Program,
    places: Mapping[str, int],
    packing: Packing,
    align: int,
    aliases: Aliases,
) -> Plan:
    """The plan of a program that runs by rows, from the places of its rows and whole tensors.

    `places` are offsets in bytes by name: of tensors, of rows (`row_name`) and of sums. `whole` is
    the same program without segments, `aliases` what shares memory in it; `packing` says the height
    and its proof; `align` is the alignment of the arena in bytes.
    """
    found: dict[str, list[int]] = {n: [] for s in program.segments for n in s.tensors}
    for segment in program.segments:
        for name in segment.tensors:
            while (made := row_name(name, len(found[name]))) in whole.tensors:
                # Rows are numbered without gaps: the first name that is missing ends the list.
                root, offset = whole.base(made)
                found[name].append(places[root] + offset)
    rows = {name: tuple(offsets) for name, offsets in found.items()}
    rows |= {n: (offset,) for n, offset in places.items() if n.endswith(SUMS)}
    placements = {}
    for name in program.tensors:
        root, offset = program.base(name)
        if root in places:
            placements[name] = Place(ARENA, places[root] + offset)
    inputs, outputs = in_arena(program)
    arena = {*inputs, *outputs}.difference(program.held)
    caller = [n for n in (*program.inputs, *program.outputs) if n not in arena]
    plan = Plan(
        placements,
        max(packing.height, end_of_reads(program, placements)),
        packing.lower_bound,
        logical_bound(whole, aliases),
        packing.optimal,
        align,
        sum(program.tensors[n].nbytes for n in caller),
        program.schedule_optimal,
    )
    return replace(plan, rows=rows)
