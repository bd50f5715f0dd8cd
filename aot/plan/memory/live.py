# SPDX-License-Identifier: Apache-2.0
"""Who touches which bytes when: the uses of every root (a tensor that owns its memory)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from aot.ir.program import Access, Arg, Program, Role
from aot.plan.memory.frame import is_framed

ARENA_ROLES = (Role.TEMP, Role.SCRATCH)


@dataclass(frozen=True, slots=True)
class Use:
    """Argument `arg` of call `call` touches bytes [begin, end) of its root."""

    call: int
    arg: int
    begin: int
    end: int
    access: Access

    @property
    def writes(self) -> bool:
        """Whether the bytes are written."""
        return self.access is not Access.READ

    def meets(self, begin: int, end: int) -> bool:
        """Whether the use touches a byte of [begin, end)."""
        return self.begin < end and begin < self.end


@dataclass(frozen=True, slots=True)
class Uses:
    """`by_root`: uses in call order; `root_of[call][arg]`: root and use of a pointer argument.

    `idle` are steps between two uses of a root (perhaps none) in which its bytes hold nothing: what
    is kept between runs is dead from its last read until it is written anew.
    """

    by_root: dict[str, list[Use]]
    root_of: list[dict[int, tuple[str, Use]]]
    idle: dict[str, range] = field(default_factory=dict)

    def live_ranges(self, root: str) -> list[tuple[int, int]]:
        """Live ranges of `root`, as (first step, last step): one, or two around its idle steps."""
        found = self.by_root[root]
        first, last = found[0].call, found[-1].call
        hole = self.idle.get(root)
        return [(first, last)] if hole is None else [(first, hole.start - 1), (hole.stop, last)]

    def live_range(self, root: str, step: int) -> tuple[int, int]:
        """The live range of `root` that contains `step`, as (first step, last step)."""
        return next(v for v in self.live_ranges(root) if v[0] <= step <= v[1])


def uses_of(program: Program) -> Uses:
    """All uses of tensors by calls, by root and by call; those of constants are left out.

    A use is a range of bytes of the root, with the number of the call and of the argument. Roots
    are in the order of their first use.
    """
    bases: dict[str, tuple[str, int]] = {}
    by_root: dict[str, list[Use]] = {}
    root_of: list[dict[int, tuple[str, Use]]] = []
    for step, call in enumerate(program.calls):
        own: dict[int, tuple[str, Use]] = {}
        for index, arg in enumerate(call.args):
            if not isinstance(arg, Arg):
                continue
            tensor = program.tensors[arg.tensor]
            # Views of views are resolved once per tensor: calls name the same tensors again and
            # again.
            if arg.tensor not in bases:
                bases[arg.tensor] = program.base(arg.tensor)
            root, offset = bases[arg.tensor]
            if program.tensors[root].role is Role.CONST:
                continue
            use = Use(step, index, offset + arg.begin, offset + tensor.nbytes, arg.access)
            by_root.setdefault(root, []).append(use)
            own[index] = root, use
        root_of.append(own)
    return Uses(by_root, root_of, _idle(by_root) if is_framed(program) else {})


def _idle(by_root: dict[str, list[Use]]) -> dict[str, range]:
    """The calls during which the bytes of a root hold nothing, by root.

    Only roots that the opening call of the frame (call 0) uses are asked: they live between runs.
    The calls are between two that use the root, where every byte that is read from the second one
    on is written before; the first such pair is taken.
    """
    found = {}
    for root, uses in by_root.items():
        if uses[0].call != 0:
            continue
        calls = sorted({u.call for u in uses})
        for before, after in pairwise(calls):
            rest = [u for u in uses if u.call > before]
            if _overwritten(rest):
                found[root] = range(before + 1, after)
                break
    return found


def _overwritten(uses: Sequence[Use]) -> bool:
    """Whether `uses` write every byte before they read it; False where they write none."""
    written: list[tuple[int, int]] = []
    for use in uses:
        if use.access is Access.WRITE:
            written.append((use.begin, use.end))
        elif not _covered(use, sorted(written)):
            return False
    return bool(written)


def _covered(use: Use, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether the sorted `spans` (begin, end) of bytes cover all that `use` touches."""
    at = use.begin
    for begin, end in spans:
        if begin <= at < end:
            at = end
    return at >= use.end


def segments(uses: Sequence[Use], nbytes: int) -> list[tuple[int, int, int, int]]:
    """The bytes of one root cut where its uses begin and end: (begin, end, first, last call).

    A segment is live from the first call that touches it to the last; bytes that no call touches
    are in none.
    """
    if all(u.begin == 0 and u.end == nbytes for u in uses):
        return [(0, nbytes, uses[0].call, uses[-1].call)]
    cuts = sorted({u.begin for u in uses} | {u.end for u in uses})
    place = {cut: i for i, cut in enumerate(cuts)}
    span: dict[int, tuple[int, int]] = {}
    for use in uses:
        for i in range(place[use.begin], place[use.end]):
            span[i] = (span[i][0] if i in span else use.call, use.call)
    return [(cuts[i], cuts[i + 1], *span[i]) for i in sorted(span)]


def total_live_steps(program: Program) -> int:
    """Steps that the arena's tensors live, added up: what planning takes time and memory for."""
    uses = uses_of(program).by_root
    kept = [found for root, found in uses.items() if program.tensors[root].role in ARENA_ROLES]
    return sum(found[-1].call - found[0].call + 1 for found in kept)


def size_profile(uses: Sequence[Use], nbytes: int) -> list[int]:
    """For every call from a root's first use to its last, the end of its highest live segment."""
    first = uses[0].call
    found = [0] * (uses[-1].call + 1 - first)
    for _, end, start, stop in segments(uses, nbytes):
        for t in range(start - first, stop + 1 - first):
            found[t] = max(found[t], end)
    return found if max(found) == nbytes else [nbytes] * len(found)
