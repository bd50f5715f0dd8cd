# SPDX-License-Identifier: Apache-2.0
"""Which tensors share memory: views always, in-place results where that lowers the need.

A call's `inplace` pairs are permissions. Using one puts the root of the result and the root of the
operand into one group at a fixed distance, so that both arguments are the same address. That is
legal when the operand's root dies at the call, the result is no larger, and no live byte of one
root lies on a live byte of the other. Permissions that compete are decided together: per call all
combinations are compared by (peak, sum over time) of the live bytes. A group is live up to its
highest live byte, so a concatenation grows with its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aot.memory.live import ARENA_ROLES, Uses, heights, uses_of
from aot.memory.problem import Buffer
from aot.program import Call, Program, Role

#: Combinations of one call's permissions that are compared at most.
MOST_COMBINATIONS = 64


@dataclass(frozen=True, slots=True)
class Group:
    """Roots that share a buffer of `size` bytes, live in steps [start, end).

    `members` are (root, byte offset in the buffer), `align` fits them all. `heights` are the live
    bytes from the buffer's start, one entry per step, rounded up to `align`.
    """

    members: tuple[tuple[str, int], ...]
    size: int
    start: int
    end: int
    align: int
    heights: tuple[int, ...]

    @property
    def buffer(self) -> Buffer:
        """The group as the packer sees it, under the name of its first root."""
        size = max(self.heights)
        varying = self.heights if min(self.heights) < size else ()
        return Buffer(self.members[0][0], size, self.start, self.end, self.align, heights=varying)


@dataclass(frozen=True, slots=True)
class Sharing:
    """One used permission: argument `out` of call `call` lies on argument `inp`.

    Byte 0 of root `below` lies `shift` bytes after byte 0 of root `above`, the result's.
    """

    call: int
    out: int
    inp: int
    above: str
    below: str
    shift: int


@dataclass(frozen=True, slots=True)
class Aliases:
    """The groups in order of their first use, and the permissions used."""

    groups: tuple[Group, ...]
    inplace: tuple[Sharing, ...]


def decide(program: Program, even: bool = False) -> Aliases:
    """Groups and in-place decisions of `program` that keep the fewest bytes live.

    `even` only lets roots of one size share: the groups are then easier to pack.
    """
    uses = uses_of(program)
    options = list(_options(program, uses))
    if even:
        size = {root: program.tensors[root].nbytes for root in uses.by_root}
        options = [[s for s in o if size[s.above] == size[s.below]] for o in options]
    best = _decide(program, uses, options)
    return Aliases(tuple(best.groups()), tuple(best.used))


def _options(program: Program, uses: Uses) -> Iterator[list[Sharing]]:
    """The usable permissions of each call that has any."""
    for step, call in enumerate(program.calls):
        found = [_sharing(program, uses, step, call, o, i) for o, i in call.inplace]
        if any(found):
            yield [s for s in found if s is not None]


def _sharing(
    program: Program, uses: Uses, step: int, call: Call, out: int, inp: int
) -> Sharing | None:
    """The permission as a sharing of roots; None if the program rules it out."""
    own = uses.root_of[step]
    if out not in own or inp not in own:
        return None
    (above, o), (below, i) = own[out], own[inp]
    roles = {program.tensors[above].role, program.tensors[below].role}
    if above == below or roles != {Role.TEMP} or o.end - o.begin > i.end - i.begin:
        return None
    if uses.by_root[below][-1].call > step:
        return None
    permitted = {k for w, k in call.inplace if w == out}
    for index, (root, use) in own.items():
        same = use.begin == i.begin and index in permitted and not use.writes
        if root == below and not same:
            return None
    shift = o.begin - i.begin
    end = shift + program.tensors[below].nbytes
    for use in uses.by_root[above]:
        if use.call > step:
            break
        if not (use.call == step and use.arg == out) and use.meets(shift, end):
            return None
    return Sharing(step, out, inp, above, below, shift)


def _decide(program: Program, uses: Uses, options: Sequence[Sequence[Sharing]]) -> _Decision:
    """Decide call by call; `options` are the permissions of one call each."""
    state = _Decision(program, uses)
    for choices in options:
        best: tuple[Sharing, ...] = ()
        best_cost = state.cost()
        for combination in _combinations(choices):
            parts = state.apply(combination)
            if len(parts) == len(combination) and state.cost() < best_cost:
                best, best_cost = combination, state.cost()
            state.undo(parts)
        state.apply(best)
    return state


def _combinations(choices: Sequence[Sharing]) -> Iterator[tuple[Sharing, ...]]:
    """Sets of sharings in which every result and every operand occurs once, at most 64 of them."""
    found: list[tuple[Sharing, ...]] = [()]
    for s in choices:
        free = [c for c in found if all(s.above != o.above and s.below != o.below for o in c)]
        found += [(*c, s) for c in free[: MOST_COMBINATIONS - len(found)]]
    yield from found[1:]


class _Decision:
    """Groups under construction and the live bytes of every step."""

    def __init__(self, program: Program, uses: Uses) -> None:
        self.tensors = program.tensors
        self.used: list[Sharing] = []
        self.live = [0] * len(program.calls)
        self.group_of: dict[str, Group] = {}
        self.heights: dict[str, list[int]] = {}
        self.ranges = {r: (u[0].call, u[-1].call + 1) for r, u in uses.by_root.items()}
        for root, (start, end) in self.ranges.items():
            tensor = self.tensors[root]
            if tensor.role in ARENA_ROLES:
                own = heights(uses.by_root[root], tensor.nbytes)
                self.heights[root] = own
                size, align = tensor.nbytes, tensor.align
                high = tuple([-(-h // align) * align for h in own])
                self._add(Group(((root, 0),), size, start, end, align, high))

    def _add(self, group: Group, sign: int = 1) -> None:
        live = self.live
        for t, height in enumerate(group.heights, group.start):
            live[t] += sign * height
        if sign > 0:
            for root, _ in group.members:
                self.group_of[root] = group

    def cost(self) -> tuple[int, int]:
        """Peak and sum over time of the live bytes."""
        return max(self.live, default=0), sum(self.live)

    def apply(self, sharings: Sequence[Sharing]) -> list[tuple[Group, Group]]:
        """Merge as many of `sharings` as go before the first clash: the groups they united."""
        parts = []
        for s in sharings:
            found = self._merge(s)
            if found is None:
                break
            parts.append(found)
        return parts

    def undo(self, parts: Sequence[tuple[Group, Group]]) -> None:
        """Take the merges that `apply` returned back."""
        for a, b in reversed(parts):
            self._add(self.group_of[a.members[0][0]], -1)
            self._add(a)
            self._add(b)
            self.used.pop()

    def _merge(self, s: Sharing) -> tuple[Group, Group] | None:
        a, b = self.group_of[s.above], self.group_of[s.below]
        if a is b:
            return None
        shift = dict(a.members)[s.above] + s.shift - dict(b.members)[s.below]
        united = None if self._clash(a, b, shift, s) else self._united(a, b, shift)
        if united is None:
            return None
        self._add(a, -1)
        self._add(b, -1)
        self._add(united)
        self.used.append(s)
        return a, b

    def _clash(self, a: Group, b: Group, shift: int, s: Sharing) -> bool:
        """Whether two roots, the shared pair apart, would be live on the same bytes."""
        if a.end <= b.start or b.end <= a.start:
            return False
        for root, begin, end, start, stop in self._spans(b, shift):
            for other, begin2, end2, start2, stop2 in self._spans(a, 0):
                if (other, root) == (s.above, s.below):
                    continue
                if start < stop2 and start2 < stop and begin < end2 and begin2 < end:
                    return True
        return False

    def _spans(self, g: Group, shift: int) -> list[tuple[str, int, int, int, int]]:
        """(root, first byte, end byte, first step, end step) of the members."""
        tensors, ranges = self.tensors, self.ranges
        return [(r, o + shift, o + shift + tensors[r].nbytes, *ranges[r]) for r, o in g.members]

    def _united(self, a: Group, b: Group, shift: int) -> Group | None:
        """`b` laid over `a`, `shift` bytes up; None if an alignment would be lost."""
        lowest = min(0, shift)
        members = tuple((r, o - lowest) for r, o in a.members)
        members += tuple((r, o + shift - lowest) for r, o in b.members)
        if any(o % self.tensors[r].align for r, o in members):
            return None
        size = max(a.size, b.size + shift) - lowest
        start, end = min(a.start, b.start), max(a.end, b.end)
        align = max(a.align, b.align)
        high = [0] * (end - start)
        for root, offset in members:
            for t, height in enumerate(self.heights[root], self.ranges[root][0] - start):
                high[t] = max(high[t], offset + height)
        stored = tuple([-(-h // align) * align for h in high])
        return Group(members, size, start, end, align, stored)

    def groups(self) -> list[Group]:
        """All groups, each once, in the order their first root is first used."""
        seen: dict[int, Group] = {}
        for group in self.group_of.values():
            seen.setdefault(id(group), group)
        return list(seen.values())
