# SPDX-License-Identifier: Apache-2.0
"""States in the arena: what lies with them, so that they can be moved where other models that share
the arena leave them alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.packing.pack import Packing, pack
from aot.plan.memory.alias import Aliases


def states_last(
    aliases: Aliases, packing: Packing, carried: Collection[str], effort: int
) -> Packing:
    """A packing with the groups of the `carried` tensors behind all others, if that needs no more
    bytes than `packing`; else `packing`."""
    own = [g for g in aliases.groups if any(root in carried for root, _ in g.members)]
    rest = pack([g.buffer for g in aliases.groups if g not in own], effort)
    offsets, top = dict(rest.offsets), rest.height
    for group in own:
        offsets[group.buffer.name] = top = -(-top // group.align) * group.align
        top += max(group.size_profile)
    if not own or top > packing.height:
        return packing
    optimal = packing.optimal or top <= packing.lower_bound
    return replace(packing, offsets=offsets, height=top, optimal=optimal)


@dataclass(frozen=True, slots=True)
class StatePlace:
    """Bytes of the arena that hold a state between runs: `offset`, `bytes`, and the tensors that
    are never elsewhere, which move with it."""

    offset: int
    bytes: int
    tensors: frozenset[str]


def state_places(program: Program, plan: Plan) -> tuple[StatePlace, ...] | None:
    """Where states lie in the arena, in the order of `program.carried`.

    None where a state cannot be moved without the values around it: it shares bytes with another
    value that holds between runs, or the plan has rows or several memories.
    """
    # Rows have places of their own, which cannot move together with a state.
    if plan.rows is not None or plan.parts:
        return None if program.carried else ()
    near: dict[str, set[str]] = {}
    for sharing in plan.inplace:
        near.setdefault(sharing.above, set()).add(sharing.below)
        near.setdefault(sharing.below, set()).add(sharing.above)
    held = {*program.inputs, *program.outputs, *program.kept, *(s.tensor for s in program.shapes)}
    held.difference_update(program.carried)
    found: list[StatePlace] = []
    seen: set[str] = set()
    for name in program.carried:
        # Values that share bytes in place move together: they are gathered first.
        roots, waiting = set[str](), [name]
        while waiting:
            root = waiting.pop()
            roots.add(root)
            waiting += near.get(root, set()) - roots
        # One of them also holds between runs for another reason, so the state is not alone there.
        if roots & held:
            return None
        if name in seen or name not in plan.placements:
            continue
        seen |= roots
        ends = [(plan.placements[r].offset, program.tensors[r].nbytes) for r in roots]
        low = min(offset for offset, _ in ends)
        tensors = frozenset(n for n in plan.placements if program.base(n)[0] in roots)
        found.append(StatePlace(low, max(o + n for o, n in ends) - low, tensors))
    return tuple(found)


def scratch_bytes(program: Program, plan: Plan, states: Sequence[StatePlace]) -> int:
    """Bytes from the start of the arena that anything but `states` needs."""
    if not states:
        return plan.arena_bytes
    moved = frozenset[str]().union(*(s.tensors for s in states))
    places = ((n, p.offset) for n, p in plan.placements.items() if n not in moved)
    return max((offset + program.tensors[n].nbytes for n, offset in places), default=0)
