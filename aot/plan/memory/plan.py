# SPDX-License-Identifier: Apache-2.0
"""Planning the arena of a program: aliases first, then exact offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aot.ir.plan import ARENA, Place, Plan
from aot.ir.program import Program, Role
from aot.packing.pack import EFFORT, Packing, pack
from aot.plan.memory.alias import Aliases, decide
from aot.plan.memory.frame import framed, in_arena
from aot.plan.memory.live import uses_of
from aot.plan.memory.states import states_last
from aot.plan.overread import end_of_reads
from aot.target import Target


def plan_memory(program: Program, target: Target | None = None, effort: int = EFFORT) -> Plan:
    """Place every temporary and scratch tensor of `program`, spending `effort` search steps.

    Bodies are planned already: their arena is a scratch tensor of the call.
    """
    inputs, outputs = in_arena(program)
    arena = {*inputs, *outputs}.difference(program.held)
    caller = [n for n in (*program.inputs, *program.outputs) if n not in arena]
    # Outputs that are held count as arena; those of the caller have no place in it.
    own, program = program, framed(program)
    aliases, packing = smallest(program, effort)
    if program.carried:
        packing = states_last(aliases, packing, program.carried, effort)
    shift = len(program.calls) > len(own.calls)
    roots = {
        root: packing.offsets[group.members[0][0]] + offset
        for group in aliases.groups
        for root, offset in group.members
    }
    placements = _placements(program, roots)
    # Kernels may read a few bytes behind a tensor: the arena ends behind them.
    height = max(packing.height, end_of_reads(program, placements))
    return Plan(
        placements,
        height,
        packing.lower_bound,
        logical_bound(program, aliases),
        # Bytes added for such reads are outside of the proof.
        packing.optimal and height == packing.height,
        max((g.align for g in aliases.groups), default=64),
        sum(program.tensors[n].nbytes for n in caller),
        program.schedule_optimal,
        tuple(replace(s, call=s.call - shift) for s in aliases.inplace),
        {r: (u[0].call, u[-1].call + 1) for r, u in uses_of(own).by_root.items()},
    )


def smallest(program: Program, effort: int) -> tuple[Aliases, Packing]:
    """Aliases that keep the fewest bytes live; simpler ones if those pack into less."""
    aliases = decide(program)
    packing = pack([g.buffer for g in aliases.groups], effort)
    if packing.height > packing.lower_bound:
        simple = decide(program, even=True)
        if simple == aliases:
            return aliases, packing
        other = pack([g.buffer for g in simple.groups], effort)
        if (other.height, not other.optimal) < (packing.height, not packing.optimal):
            return simple, other
    return aliases, packing


def _placements(program: Program, roots: Mapping[str, int]) -> dict[str, Place]:
    """Places of roots and of the views of them, in the order of the program's tensors."""
    found: dict[str, Place] = {}
    for name in program.tensors:
        root, offset = program.base(name)
        if root in roots:
            found[name] = Place(ARENA, roots[root] + offset)
    return found


def logical_bound(program: Program, aliases: Aliases) -> int:
    """The most bytes of elements live at one time: see `Plan`.

    Tensors that hold the same ONNX value in several layouts count once, as do the members of one
    in-place group; at every step the largest counts, at most to its highest live byte.
    """
    spans: dict[str, dict[int, int]] = {}
    leader: dict[str, str] = {}
    for group in aliases.groups:
        roots = [r for r, _ in group.members if program.tensors[r].role is Role.TEMP]
        if not roots:
            continue
        # One ONNX value in two layouts is one value to a user, so it counts once.
        keys = [program.tensors[r].onnx_name or f"\0{r}" for r in roots]
        size = max(program.tensors[r].logical_nbytes for r in roots)
        span = {t: min(size, h) for t, h in enumerate(group.size_profile, group.start)}
        # Groups that share a value are one: the larger counts at each step.
        merged = dict.fromkeys(_leader(leader, k) for k in keys)
        first = next(iter(merged))
        for key in merged:
            for t, size in spans.pop(key, {}).items():
                span[t] = max(span.get(t, 0), size)
            leader[key] = first
        spans[first] = span
    live = [0] * (len(program.calls) + 1)
    for span in spans.values():
        for t, size in span.items():
            live[t] += size
    return max(live)


def _leader(leader: dict[str, str], key: str) -> str:
    """The name at the end of the chain that begins at `key`."""
    while leader.get(key, key) != key:
        key = leader[key]
    return key
