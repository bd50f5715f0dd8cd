# SPDX-License-Identifier: Apache-2.0
"""In which order the rows of a run of calls are made: each as late as its first reader allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aot.ir.program import Access, Arg, Call, Program, Role
from aot.ir.rows import Rowwise


@dataclass(frozen=True, slots=True)
class Reads:
    """Argument `arg` of a call reads rows of the tensor `root`."""

    arg: int
    root: str


#: (argument, root, rows) that a step reads.
Need = tuple[int, str, tuple[int, ...]]


@dataclass(slots=True)
class Run:
    """Calls `first` to `last` of a program; `made` are their results, `sources` what they read.

    `producer` is the call that makes a root, `apart` are roots whose rows have several pieces.
    `known` is what steps need, by (call, step): runs of one program may share it.
    """

    program: Program
    first: int
    last: int
    producer: dict[str, int] = field(default_factory=dict)
    sources: dict[int, list[Reads]] = field(default_factory=dict)
    apart: set[str] = field(default_factory=set)
    known: dict[tuple[int, int], tuple[Need, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note, by call, which roots it reads by rows, and by root, which call makes it."""
        for index, call in self.calls():
            assert call.rowwise is not None
            self.producer[self.program.base(call.writes()[0])[0]] = index
            own = [*call.rowwise.single[1:]]
            own += [call.rowwise.window.arg] if call.rowwise.window else []
            self.apart.update(r for _, r in self.planes(call))
            found = [(a, call.args[a]) for a in own]
            self.sources[index] = [
                Reads(a, self.program.base(arg.tensor)[0])
                for a, arg in found
                if isinstance(arg, Arg) and self.role(arg) is not Role.CONST
            ]

    def role(self, arg: Arg) -> Role:
        """The role of what owns an argument's memory."""
        return self.program.tensors[self.program.base(arg.tensor)[0]].role

    def planes(self, call: Call) -> Iterator[tuple[str, str]]:
        """(parameter, root) of what a call takes with rows of several pieces."""
        for planes in call.rowwise.planes if call.rowwise else ():
            arg = call.args[planes.arg]
            if planes.count > 1 and isinstance(arg, Arg):
                yield planes.member, self.program.base(arg.tensor)[0]

    def calls(self) -> Iterator[tuple[int, Call]]:
        """The calls with their numbers."""
        for index in range(self.first, self.last + 1):
            yield index, self.program.calls[index]

    def needs(self, index: int, step: int) -> tuple[Need, ...]:
        """What step `step` of a call reads."""
        found = self.known.get((index, step))
        if found is None:
            found = self.known[index, step] = tuple(self._needs(index, step))
        return found

    def _needs(self, index: int, step: int) -> Iterator[Need]:
        """What step `step` of a call reads, argument by argument."""
        rowwise = self.program.calls[index].rowwise
        assert rowwise is not None
        for reads in self.sources[index]:
            if rowwise.window is not None and reads.arg == rowwise.window.arg:
                rows = [rowwise.window.rows(r) for r in self.made(rowwise, step)]
                yield reads.arg, reads.root, tuple(sorted(set().union(*rows)))
            else:
                yield reads.arg, reads.root, (step,)

    def made(self, rowwise: Rowwise, step: int) -> Sequence[int]:
        """The rows of the result that a step makes, or of the operand that it sums."""
        return (step,) if rowwise.sums else rowwise.made(step)

    def ends(self) -> list[int]:
        """Calls whose result no other call of the run reads."""
        read = {r.root for own in self.sources.values() for r in own}
        return [i for root, i in self.producer.items() if root not in read]

    def steps(self) -> tuple[int, ...]:
        """Indices of calls in the order in which they make their rows.

        Of the calls at the end of the run, the one that has made the smallest share of its rows
        comes next; each call before it makes just the rows that are lacking. The rows that nobody
        needs come last.
        """
        calls = dict(self.calls())
        count = {i: c.rowwise.steps for i, c in calls.items() if c.rowwise}
        made = dict.fromkeys(calls, 0)
        found: list[int] = []
        ends = self.ends()
        while unfinished := [i for i in ends if made[i] < count[i]]:
            stack = [min(unfinished, key=lambda i: ((made[i] + 1) / count[i], i))]
            while stack:
                behind = self._behind(stack[-1], made)
                if behind is None:
                    made[stack[-1]] += 1
                    found.append(stack.pop())
                else:
                    stack.append(behind)
        return (*found, *self._rest(made, count))

    def _behind(self, index: int, made: Mapping[int, int]) -> int | None:
        """A call that has to make a row before call `index` can make its next one."""
        for _, root, rows in self.needs(index, made[index]):
            source = self.producer.get(root)
            if source is None or not rows:
                continue
            own = self.program.calls[source].rowwise
            if own is not None and made[source] * own.batch - own.lead <= rows[-1]:
                return source
        return None

    def _rest(self, made: Mapping[int, int], count: Mapping[int, int]) -> Iterator[int]:
        """Rows that nobody reads, as those below the last window of a pooling."""
        for index in sorted(made):
            yield from [index] * (count[index] - made[index])


def of_scratch(program: Program, call: Call) -> Sequence[str]:
    """The scratch tensors of a call."""
    return [a.tensor for a in call.pointers() if program.tensors[a.tensor].role is Role.SCRATCH]


def writes_once(call: Call) -> bool:
    """Whether the call has one result, its first argument, and updates nothing."""
    access = [a.access for a in call.pointers()]
    first = call.args[0] if call.args else None
    return (
        isinstance(first, Arg) and first.access is Access.WRITE and Access.READ_WRITE not in access
    )
