# SPDX-License-Identifier: Apache-2.0
"""The arena split over several memories: values that move most bytes go to the fastest one.

A value costs the bytes that calls read and write there, times what an access takes in the memory it
is placed in. For each memory, fastest first, the values are chosen that save most and are live
together within its size: a sweep over time keeps, for every set of chosen values that are live, the
best way to it, which is exact where few such sets exist. What was chosen is then packed.

All places count in one space, in which the memories follow each other (`Part.begin`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest

from aot.ir.plan import Part, Place, Plan
from aot.ir.program import Access, Program, Role
from aot.packing.pack import EFFORT, Packing, pack
from aot.packing.problem import Problem, problem_of
from aot.plan.memory.alias import Group
from aot.plan.memory.frame import framed
from aot.plan.memory.live import uses_of
from aot.plan.memory.plan import smallest

#: Sets of live values kept at one time; networks without wide branches have fewer.
MOST_SETS = 2048


@dataclass(frozen=True, slots=True)
class Room:
    """`bytes` that the arena may take of a memory; an access costs `cost`."""

    memory: str
    bytes: int
    cost: float


#: Chooses from groups with their savings those that are live together within so many bytes, while
#: others are live together within the second number of bytes.
Choose = Callable[[Sequence[Group], Sequence[float], int, int], list[Group]]


def moved_bytes(program: Program, groups: Iterable[Group]) -> list[int]:
    """The bytes of each group that the calls of one run read and write.

    An operand counts once per call that names it; scratch is written and read.
    """
    found = dict.fromkeys(program.tensors, 0)
    for root, uses in uses_of(program).by_root.items():
        scratch = program.tensors[root].role is Role.SCRATCH
        for use in uses:
            both = scratch or use.access is Access.READ_WRITE
            found[root] += (use.end - use.begin) * (1 + both)
    return [sum(found[root] for root, _ in group.members) for group in groups]


def split_arena(
    program: Program,
    plan: Plan,
    rooms: Sequence[Room],
    word: int,
    effort: int = EFFORT,
    choose: Choose | None = None,
) -> Plan:
    """`plan` with every value in the memory of `rooms` where the bytes that are moved cost least.

    A plan that fits the fastest room, or has rows, is returned as it is. Pointers have `word`
    bytes: the first memory begins with the addresses of the others. What fits nowhere is in the
    last memory, beyond its size. `choose` replaces the choice, for comparisons.
    """
    rooms = sorted(rooms, key=lambda room: room.cost)
    if plan.rows is not None or len(rooms) < 2 or plan.arena_bytes <= rooms[0].bytes:
        return plan
    cyclic = framed(program)
    aliases, _ = smallest(cyclic, effort)
    moved = dict(zip(aliases.groups, moved_bytes(program, aliases.groups), strict=True))
    align, beyond = plan.alignment, max(c.beyond for c in program.calls)
    left, roots, parts = list(aliases.groups), dict[str, Place](), list[Part]()
    begin, head = 0, _up(word * len(rooms), align)
    for number, room in enumerate(rooms):
        later = rooms[number + 1 :]
        own = 0 if parts else head
        size = (room.bytes - own - beyond) // align * align
        if later:
            gain = later[0].cost - room.cost
            gains = [moved[g] * gain for g in left]
            rest = sum(r.bytes - beyond for r in later)
            packing, inside = _fitting(left, gains, size, rest, effort, choose or best)
        else:
            packing, inside = pack([g.buffer for g in left], effort), left
        if not inside:
            continue
        for group in inside:
            at = begin + own + packing.offsets[group.members[0][0]]
            roots.update((r, Place(room.memory, at + o)) for r, o in group.members)
        taken, traffic = own + packing.height + beyond, sum(moved[g] for g in inside)
        parts.append(Part(room.memory, begin, taken, own, room.cost, traffic))
        begin = _up(begin + taken, align)
        left = [g for g in left if g not in inside]
    if len(parts) < 2:
        return plan
    placements = {
        name: Place(roots[root].memory, roots[root].offset + offset)
        for name in program.tensors
        for root, offset in (program.base(name),)
        if root in roots
    }
    shift = len(cyclic.calls) > len(program.calls)
    return replace(
        plan,
        placements=placements,
        arena_bytes=parts[-1].begin + parts[-1].bytes,
        optimal=False,
        inplace=tuple(replace(s, call=s.call - shift) for s in aliases.inplace),
        parts=tuple(parts),
    )


def _up(size: int, align: int) -> int:
    return -(-size // align) * align


def _fitting(
    groups: Sequence[Group],
    gains: Sequence[float],
    size: int,
    rest: int,
    effort: int,
    choose: Choose,
) -> tuple[Packing, list[Group]]:
    """What `choose` takes of `groups` for `size` bytes, and where it is there."""
    room, step = size, 1
    while True:
        picked = choose(groups, gains, room, rest)
        packing = pack([g.buffer for g in picked], effort)
        if packing.height <= size or not picked:
            return packing, picked
        # Values that are live within the size may still have no places there; ever fewer do.
        room, step = room - step * (packing.height - size), 2 * step


def best(groups: Sequence[Group], gains: Sequence[float], size: int, rest: int) -> list[Group]:
    """The groups that save most: see `Choose`. Where the others cannot keep within `rest`, the
    choice is made as if they could.
    """
    problem = problem_of([g.buffer for g in groups])
    for limit in (rest, None):
        found = _swept(problem, gains, size // problem.unit, limit and limit // problem.unit)
        if found is not None:
            return [groups[i] for i in sorted(found)]
    return []


#: The savings of a set of values, the units that they take at the moment, and which were chosen on
#: the way: pairs of the last one and those before.
_Way = tuple[float, int, tuple[int, object] | None]


def _swept(
    problem: Problem, gains: Sequence[float], size: int, rest: int | None
) -> set[int] | None:
    """The buffers that save most and are live within `size` units, the others within `rest`.

    None if no choice keeps both. A set of live chosen buffers is a mask of bits.
    """
    ways: dict[int, _Way] = {0: (0.0, 0, None)}
    for t, live in enumerate(problem.live):
        height = {i: _height(problem, i, t) for i in live}
        old = [i for i in live if problem.first[i] < t]
        ways = {
            mask: (gain, sum(height[i] for i in old if mask >> i & 1), chain)
            for mask, (gain, _, chain) in ways.items()
        }
        for i in live:
            if problem.first[i] == t and gains[i] > 0:
                ways |= {
                    mask | 1 << i: (gain + gains[i], used + height[i], (i, chain))
                    for mask, (gain, used, chain) in ways.items()
                    if used + height[i] <= size
                }
                ways = _few(ways)
        least = 0 if rest is None else problem.totals[t] - rest
        ways = {mask: way for mask, way in ways.items() if least <= way[1] <= size}
        if not ways:
            return None
        ending = sum(1 << i for i in live if problem.last[i] == t + 1)
        ended: dict[int, _Way] = {}
        for mask, way in ways.items():
            kept = mask & ~ending
            if kept not in ended or ended[kept][0] < way[0]:
                ended[kept] = way
        ways = ended
    chain = max(ways.values(), key=lambda way: way[0])[2]
    found = set[int]()
    while chain is not None:
        found.add(chain[0])
        chain = chain[1]  # type: ignore[assignment]
    return found


def _height(problem: Problem, buffer: int, section: int) -> int:
    profile = problem.profile[buffer]
    return problem.size[buffer] if profile is None else profile[section - problem.first[buffer]]


def _few(ways: dict[int, _Way]) -> dict[int, _Way]:
    """The ways that save most, and those that fill most, where there are too many."""
    if len(ways) <= MOST_SETS:
        return ways
    saving = nlargest(MOST_SETS // 2, ways.items(), key=lambda item: (item[1][0], -item[0]))
    filling = nlargest(MOST_SETS // 2, ways.items(), key=lambda item: (item[1][1], -item[0]))
    return dict([*saving, *filling])
