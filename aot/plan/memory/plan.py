# SPDX-License-Identifier: Apache-2.0
"""The Plan: where every tensor of the arena lives, how small that is, and whether it is optimal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aot.ir.program import Program, Role
from aot.plan.memory.alias import Aliases, Sharing, decide
from aot.plan.memory.frame import framed, residents
from aot.plan.memory.live import uses_of
from aot.plan.memory.pack import EFFORT, Packing, pack
from aot.target import Target

ARENA = "arena"


@dataclass(frozen=True, slots=True)
class Place:
    """`offset` bytes into the memory called `memory`."""

    memory: str
    offset: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The arena of one program. All sizes in bytes.

    `placements` holds every tensor of the arena that a call touches, views of them included.
    `lower_bound_bytes` is the most that is live at one time given the order and the aliases, sizes
    rounded up to the alignment; `logical_bound_bytes` the same in elements × dtype, without
    scratch and layout padding, a tensor and its copy in another layout counted once. `optimal`
    says that no smaller arena exists for this order and these aliases; `schedule_optimal` that no
    order needs less. `inplace` are the permissions used. Inputs and outputs that are not in the
    arena are the caller's memory (`io_bytes`), constants are in no plan.
    """

    placements: Mapping[str, Place]
    arena_bytes: int
    lower_bound_bytes: int
    logical_bound_bytes: int
    optimal: bool
    alignment: int
    io_bytes: int = 0
    schedule_optimal: bool = False
    inplace: tuple[Sharing, ...] = ()
    live: Mapping[str, tuple[int, int]] | None = None

    def text(self) -> str:
        """The plan in lines, lowest address first; equal plans give equal text."""
        proof = "optimal" if self.optimal else "not proven optimal"
        order = "optimal" if self.schedule_optimal else "not proven optimal"
        lines = [
            f"plan arena={self.arena_bytes} lower_bound={self.lower_bound_bytes} ({proof}) "
            f"logical_bound={self.logical_bound_bytes} io={self.io_bytes} align={self.alignment} "
            f"order {order}"
        ]
        places = sorted(self.placements.items(), key=lambda item: (item[1].offset, item[0]))
        for name, place in places:
            steps = (self.live or {}).get(name)
            life = f" steps {steps[0]}..{steps[1] - 1}" if steps else ""
            lines.append(f"  {place.memory}+{place.offset}: {name}{life}")
        lines += [f"  call {s.call}: {s.above} in place of {s.below}" for s in self.inplace]
        return "\n".join(lines) + "\n"


def plan_memory(program: Program, target: Target | None = None, effort: int = EFFORT) -> Plan:
    """Place every temporary and scratch tensor of `program`, spending `effort` search steps.

    Bodies are planned already: their arena is a scratch tensor of the call.
    """
    inputs, outputs = residents(program)
    arena = {*inputs, *outputs}.difference(program.held)
    caller = [n for n in (*program.inputs, *program.outputs) if n not in arena]
    own, program = program, framed(program)
    aliases, packing = _smallest(program, effort)
    shift = len(program.calls) > len(own.calls)
    roots = {
        root: packing.offsets[group.members[0][0]] + offset
        for group in aliases.groups
        for root, offset in group.members
    }
    return Plan(
        _placements(program, roots),
        packing.height,
        packing.lower_bound,
        logical_bound(program, aliases),
        packing.optimal,
        max((g.align for g in aliases.groups), default=64),
        sum(program.tensors[n].nbytes for n in caller),
        program.schedule_optimal,
        tuple(replace(s, call=s.call - shift) for s in aliases.inplace),
        {r: (u[0].call, u[-1].call + 1) for r, u in uses_of(own).by_root.items()},
    )


def _smallest(program: Program, effort: int) -> tuple[Aliases, Packing]:
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
        keys = [program.tensors[r].onnx_name or f"\0{r}" for r in roots]
        size = max(program.tensors[r].logical_nbytes for r in roots)
        span = {t: min(size, h) for t, h in enumerate(group.heights, group.start)}
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
    while leader.get(key, key) != key:
        key = leader[key]
    return key
