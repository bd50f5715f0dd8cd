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

import heapq
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aot.ir.plan import Sharing
from aot.ir.program import Call, Program, Role, Tensor
from aot.packing.problem import Buffer
from aot.plan.memory.live import ARENA_ROLES, Uses, size_profile, uses_of

#: Combinations of one call's permissions that are compared at most.
MOST_COMBINATIONS = 64


@dataclass(frozen=True, slots=True)
class Group:
    """Roots that share a buffer of `size` bytes, live in steps [start, end).

    `members` are (root, byte offset in the buffer), `align` fits them all. `size_profile` are the
    bytes from the buffer's start that are live, one entry per step, rounded up to `align`.
    """

    members: tuple[tuple[str, int], ...]
    size: int
    start: int
    end: int
    align: int
    size_profile: tuple[int, ...]

    @property
    def buffer(self) -> Buffer:
        """The group as the packer sees it, under the name of its first root."""
        size = max(self.size_profile)
        varying = self.size_profile if min(self.size_profile) < size else ()
        return Buffer(
            self.members[0][0], size, self.start, self.end, self.align, size_profile=varying
        )


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
    """The permission (result `out`, operand `inp` of `call`) as a sharing of roots, or None if it
    is ruled out.

    The operand must end at this call, the result must not be larger, and nothing may touch the
    bytes of the operand as parts of the result before.
    """
    own = uses.root_of[step]
    if out not in own or inp not in own:
        return None
    (above, o), (below, i) = own[out], own[inp]
    roles = {program.tensors[above].role, program.tensors[below].role}
    # Equal roots would alias themselves; only temporaries have bytes that the planner may merge.
    if above == below or roles != {Role.TEMP} or o.end - o.begin > i.end - i.begin:
        return None
    shift = o.begin - i.begin
    # An operand that is read later must keep its bytes, at the shifted place too.
    if uses.live_range(below, step)[1] > step or _other_ranges_overlap(
        program, uses, above, below, step, shift
    ):
        return None
    if not _replaces(uses, step, call, out, inp):
        return None
    end = shift + program.tensors[below].nbytes
    # Uses of the result before this call would see bytes of the operand that are still needed.
    born = uses.live_range(above, step)[0]
    for use in uses.by_root[above]:
        if use.call > step:
            break
        if use.call < born:
            continue
        if not (use.call == step and use.arg == out) and use.meets(shift, end):
            return None
    return Sharing(step, out, inp, above, below, shift)


def _replaces(uses: Uses, step: int, call: Call, out: int, inp: int) -> bool:
    """Whether argument `out` may take the place of all that the call reads of the operand."""
    below, i = uses.root_of[step][inp]
    permitted = {k for w, k in call.inplace if w == out}
    return all(
        use.begin == i.begin and index in permitted and not use.writes
        for index, (root, use) in uses.root_of[step].items()
        if root == below
    )


def _other_ranges_overlap(
    program: Program, uses: Uses, above: str, below: str, step: int, shift: int
) -> bool:
    """Whether other live ranges of two roots than those that meet at `step` overlap in time.

    They may where one begins on the other by a permission of its own, at the same distance.
    """
    if above not in uses.idle and below not in uses.idle:
        return False
    pair = uses.live_range(above, step), uses.live_range(below, step)
    for a in uses.live_ranges(above):
        for b in uses.live_ranges(below):
            if (a, b) == pair or a[0] > b[1] or b[0] > a[1]:
                continue
            if a[1] == b[0] and _handed_over(program, uses, b[0], below, above, -shift):
                continue
            if b[1] == a[0] and _handed_over(program, uses, a[0], above, below, shift):
                continue
            return True
    return False


def _handed_over(program: Program, uses: Uses, step: int, new: str, old: str, shift: int) -> bool:
    """Whether call `step` permits its result in root `new` on its operand in root `old`.

    `shift` is how many bytes the operand lies above the start of the result's root.
    """
    own = uses.root_of[step]
    call = program.calls[step]
    return any(
        (own[o][0], own[i][0]) == (new, old)
        and own[o][1].begin - own[i][1].begin == shift
        and own[o][1].end - own[o][1].begin <= own[i][1].end - own[i][1].begin
        and _replaces(uses, step, call, o, i)
        for o, i in call.inplace
        if o in own and i in own
    )


def _decide(program: Program, uses: Uses, options: Sequence[Sequence[Sharing]]) -> _Decision:
    """Decide call by call which sharings to use: of each call's combinations the one of least cost.

    `options` are the sharings that one call each permits. A combination is applied only if all of
    it can be.
    """
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


class _Cluster:
    """A group under construction, in a frame of its own: byte 0 of the buffer is `low` there.

    `members` are (root, first byte). By step: `high` is the end of the highest live byte, `at` are
    the roots in use as (root, first byte, end byte). `unit` is a multiple of every alignment.
    """

    __slots__ = ("align", "at", "high", "low", "members", "top", "unit")

    def __init__(
        self, root: str, tensor: Tensor, start: int, size_profile: Sequence[int], idle: range
    ) -> None:
        """A cluster of one root from byte 0 on.

        `size_profile` are the bytes that the root needs at each step from `start` on; in `idle`
        steps it needs none.
        """
        span = (root, 0, tensor.nbytes)
        self.members = deque([(root, 0)])
        self.low, self.top = 0, tensor.nbytes
        self.align = self.unit = tensor.align
        self.high = {t: h for t, h in enumerate(size_profile, start) if t not in idle}
        self.at = {t: [span] for t in self.high}

    def stored(self, step: int) -> int:
        """Bytes live from the buffer's start in step `step`, in whole alignments."""
        return -(-(self.high[step] - self.low) // self.align) * self.align

    def group(self) -> Group:
        """The finished group."""
        start, end = min(self.high), max(self.high) + 1
        members = tuple((r, o - self.low) for r, o in self.members)
        size_profile = tuple([self.stored(t) if t in self.high else 0 for t in range(start, end)])
        return Group(members, self.top - self.low, start, end, self.align, size_profile)


@dataclass(frozen=True, slots=True)
class _Merge:
    """What takes a merge back: `small` went into `big`, at its left end if `left`.

    `before` are low, top, align and unit of `big`; `highs` its live bytes in the steps of `small`
    (None: it was not live); `live` the live bytes of all steps that changed.
    """

    big: _Cluster
    small: _Cluster
    left: bool
    before: tuple[int, int, int, int]
    highs: list[tuple[int, int | None]]
    live: list[tuple[int, int]]


class _Decision:
    """Groups under construction and the live bytes of every step.

    A merge moves the group of fewer steps into the other and visits only the steps whose live
    bytes change, so that a chain of n calls takes about n of them, not n squared.
    """

    def __init__(self, program: Program, uses: Uses) -> None:
        """Put every root in the arena (temporaries and scratch) into a cluster of its own, at byte
        0 of it.

        `live[t]` are the bytes that are live during call t, `total` is their sum. `peaks` is a heap
        of (-bytes, call), whose outdated entries `cost` drops. `offset[root]` is the first byte of
        the root in the frame of its cluster, `used` lists the sharings that were applied, `visits`
        counts the steps compared. In idle steps of a root its bytes hold nothing and are not
        counted.
        """
        self.used: list[Sharing] = []
        self.visits = 0
        self.live = [0] * len(program.calls)
        self.group_of: dict[str, _Cluster] = {}
        self.offset: dict[str, int] = {}
        for root, found in uses.by_root.items():
            tensor = program.tensors[root]
            if tensor.role in ARENA_ROLES:
                own = size_profile(found, tensor.nbytes)
                idle = uses.idle.get(root, range(0))
                self.group_of[root] = cluster = _Cluster(root, tensor, found[0].call, own, idle)
                self.offset[root] = 0
                for t in cluster.high:
                    self.live[t] += cluster.stored(t)
        self.total = sum(self.live)
        # A heap with outdated entries is cheaper than one that is updated: `cost` skips them.
        self.peaks = [(-n, t) for t, n in enumerate(self.live)]
        heapq.heapify(self.peaks)

    def _set_live(self, step: int, nbytes: int) -> None:
        """Set the bytes live at a step, in the sum and in the heap of peaks, too."""
        self.total += nbytes - self.live[step]
        self.live[step] = nbytes
        heapq.heappush(self.peaks, (-nbytes, step))

    def cost(self) -> tuple[int, int]:
        """Peak and sum over time of the live bytes; the heap sheds what no longer holds."""
        peaks = self.peaks
        while peaks and self.live[peaks[0][1]] != -peaks[0][0]:
            heapq.heappop(peaks)
        return -peaks[0][0] if peaks else 0, self.total

    def apply(self, sharings: Sequence[Sharing]) -> list[_Merge]:
        """Merge as many of `sharings` as go before the first clash: what takes them back."""
        parts = []
        for s in sharings:
            found = self._merge(s)
            if found is None:
                break
            parts.append(found)
        return parts

    def undo(self, parts: Sequence[_Merge]) -> None:
        """Take back the merges that `apply` returned, the last first."""
        # The last merge first: each one saved what the ones before it had left.
        for m in reversed(parts):
            big, small = m.big, m.small
            for t, nbytes in m.live:
                self._set_live(t, nbytes)
            for t, high in m.highs:
                if high is None:
                    del big.high[t], big.at[t]
                else:
                    big.high[t] = high
                    del big.at[t][-len(small.at[t]) :]
            big.low, big.top, big.align, big.unit = m.before
            for root, offset in small.members:
                self.group_of[root], self.offset[root] = small, offset
                if m.left:
                    big.members.popleft()
                else:
                    big.members.pop()
            self.used.pop()

    def _merge(self, sharing: Sharing) -> _Merge | None:
        """Join the clusters of the two roots of `sharing`; None if they are one, clash, or lose an
        alignment.
        """
        a, b = self.group_of[sharing.above], self.group_of[sharing.below]
        if a is b:
            return None
        shift = self.offset[sharing.above] + sharing.shift - self.offset[sharing.below]
        if self._clash(a, b, shift, sharing):
            return None
        low = min(a.low, b.low + shift)
        if (a.low - low) % a.unit or (b.low + shift - low) % b.unit:
            return None  # an alignment would be lost
        self.used.append(sharing)
        if len(a.high) < len(b.high):
            return self._union(b, a, -shift, True)
        return self._union(a, b, shift, False)

    def _clash(self, a: _Cluster, b: _Cluster, shift: int, sharing: Sharing) -> bool:
        """Whether two roots but the shared pair would be live on the same bytes.

        `shift` is the distance in bytes from the frame of `b` to that of `a`.
        """
        few, many = (a, b) if len(a.high) < len(b.high) else (b, a)
        for t in few.high:
            self.visits += 1
            if t not in many.high:
                continue
            for root, begin, end in b.at[t]:
                for other, begin2, end2 in a.at[t]:
                    meet = begin + shift < end2 and begin2 < end + shift
                    if meet and (other, root) != (sharing.above, sharing.below):
                        return True
        return False

    def _union(self, big: _Cluster, small: _Cluster, shift: int, left: bool) -> _Merge:
        """Lay the cluster `small` over `big`, `shift` bytes up in its frame; returned is how to
        undo it.

        With `left` the members of `small` go to the front of the list.
        """
        before = big.low, big.top, big.align, big.unit
        low, align = min(big.low, small.low + shift), max(big.align, small.align)
        # Where the frame stays as it was, only the smaller cluster's steps can have changed.
        same = low == big.low and align == big.align
        steps = list(small.high if same else {**big.high, **small.high})
        live = [(t, self.live[t]) for t in steps]
        rest = [n - sum(c.stored(t) for c in (big, small) if t in c.high) for t, n in live]
        self.visits += len(steps)
        highs = [(t, big.high.get(t)) for t in small.high]
        # `highs` keeps what was there, so that `undo` need not copy whole clusters.
        for t, high in highs:
            own = small.high[t] + shift
            big.high[t] = own if high is None else max(high, own)
            spans = [(r, begin + shift, end + shift) for r, begin, end in small.at[t]]
            big.at.setdefault(t, []).extend(spans)
        big.low, big.top = low, max(big.top, small.top + shift)
        # Sizes are multiples of both units from here on.
        big.align, big.unit = align, math.lcm(big.unit, small.unit)
        for t, others in zip(steps, rest, strict=True):
            self._set_live(t, others + big.stored(t))
        moved = [(r, o + shift) for r, o in small.members]
        for root, offset in moved:
            self.group_of[root], self.offset[root] = big, offset
        if left:
            big.members.extendleft(reversed(moved))
        else:
            big.members.extend(moved)
        return _Merge(big, small, left, before, highs, live)

    def groups(self) -> list[Group]:
        """All groups, each once, in the order their first root is first used."""
        seen: dict[int, _Cluster] = {}
        for group in self.group_of.values():
            seen.setdefault(id(group), group)
        return [c.group() for c in seen.values()]
