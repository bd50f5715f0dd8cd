# SPDX-License-Identifier: Apache-2.0
"""Who touches which bytes when: the uses of every root (a tensor that owns its memory)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from aot.program import Access, Arg, Program, Role

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
    """`by_root`: uses in call order; `root_of[call][arg]`: root and use of a pointer argument."""

    by_root: dict[str, list[Use]]
    root_of: list[dict[int, tuple[str, Use]]]


def uses_of(program: Program) -> Uses:
    """All uses, constants left out; roots in the order of their first use."""
    bases: dict[str, tuple[str, int]] = {}
    by_root: dict[str, list[Use]] = {}
    root_of: list[dict[int, tuple[str, Use]]] = []
    for step, call in enumerate(program.calls):
        own: dict[int, tuple[str, Use]] = {}
        for index, arg in enumerate(call.args):
            if not isinstance(arg, Arg):
                continue
            tensor = program.tensors[arg.tensor]
            if arg.tensor not in bases:
                bases[arg.tensor] = program.base(arg.tensor)
            root, offset = bases[arg.tensor]
            if program.tensors[root].role is Role.CONST:
                continue
            use = Use(step, index, offset + arg.offset, offset + tensor.nbytes, arg.access)
            by_root.setdefault(root, []).append(use)
            own[index] = root, use
        root_of.append(own)
    return Uses(by_root, root_of)


def segments(uses: Sequence[Use], nbytes: int) -> list[tuple[int, int, int, int]]:
    """The bytes of one root cut where its uses begin and end: (begin, end, first, last call).

    A segment is live from the first call that touches it to the last; bytes that no call touches
    are in none.
    """
    if all(u.begin == 0 and u.end == nbytes for u in uses):
        return [(0, nbytes, uses[0].call, uses[-1].call)]
    cuts = sorted({u.begin for u in uses} | {u.end for u in uses})
    found = []
    for begin, end in pairwise(cuts):
        calls = [u.call for u in uses if u.meets(begin, end)]
        if calls:
            found.append((begin, end, calls[0], calls[-1]))
    return found


def heights(uses: Sequence[Use], nbytes: int) -> list[int]:
    """For every call from a root's first use to its last, the end of its highest live segment."""
    first = uses[0].call
    found = [0] * (uses[-1].call + 1 - first)
    for _, end, start, stop in segments(uses, nbytes):
        for t in range(start - first, stop + 1 - first):
            found[t] = max(found[t], end)
    return found if max(found) == nbytes else [nbytes] * len(found)
