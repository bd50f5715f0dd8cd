# SPDX-License-Identifier: Apache-2.0
"""In which order the rows of a run of calls are made: each as late as its first reader allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from aot.ir.program import Access, Arg, Call, Program, Role
from aot.ir.rows import Rowwise
from aot.plan.streaming.parts import Part, part_of


@dataclass(frozen=True, slots=True)
class Reads:
    """Argument `arg` of a call reads rows of the tensor `root`, which calls `makers` make."""

    arg: int
    root: str
    makers: tuple[int, ...]


#: What a call makes, (argument, part) that it reads by rows, and `Run.planes` of it.
Touched = tuple[Part, tuple[tuple[int, Part], ...], tuple[tuple[str, str], ...]]
#: (argument, root, rows) that a step reads.
Need = tuple[int, str, tuple[int, ...]]
#: Step by step of a call (source, steps that this has to have made before).
Waits = list[tuple[tuple[int, int], ...]]


@dataclass
class Run:
    """Calls `first` to `last` of a program.

    `known` is what steps need, by (call, step), `touched` what calls touch, `spans` the first and
    last call that touch a root: runs of one program may share them, and those of one beginning
    `before`, what steps wait for.
    """

    program: Program
    first: int
    last: int
    known: dict[tuple[int, int], tuple[Need, ...]] = field(default_factory=dict)
    touched: dict[int, Touched] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    before: dict[int, Waits] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note what each call touches."""
        for index, call in self.calls():
            if index not in self.touched:
                self.touched[index] = self._touches(call)

    @property
    def made(self) -> list[str]:
        """The roots that the calls make, in their order."""
        return [*dict.fromkeys(self.touched[i][0].root for i, _ in self.calls())]

    @cached_property
    def sources(self) -> dict[int, list[Reads]]:
        """By call the roots that it reads by rows, and the calls that make these, each a part of it
        if they are several.
        """
        producers: defaultdict[str, list[int]] = defaultdict(list)
        found = {}
        for index, _ in self.calls():
            made, reads, _ = self.touched[index]
            found[index] = [
                Reads(
                    at,
                    part.root,
                    tuple(i for i in producers[part.root] if part.meets(self.touched[i][0])),
                )
                for at, part in reads
            ]
            producers[made.root].append(index)
        return found

    @property
    def apart(self) -> set[str]:
        """The roots whose rows have several pieces."""
        touched = [self.touched[i] for i, _ in self.calls()]
        parts = [p for made, reads, _ in touched for p in (made, *(part for _, part in reads))]
        found = {part.root for part in parts if part.proper}
        return found.union(root for _, _, planes in touched for _, root in planes)

    def _touches(self, call: Call) -> Touched:
        """What a call touches, constants left out."""
        own = [*call.by_rows.single[1:]]
        own += [call.by_rows.window.arg] if call.by_rows.window else []
        args = ((at, call.args[at]) for at in own)
        read = [n for n, a in args if isinstance(a, Arg) and self.role(a) is not Role.CONST]
        parts = tuple((at, part_of(self.program, call, at)) for at in read)
        return part_of(self.program, call, 0), parts, tuple(self.planes(call))

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
        rowwise = self.program.calls[index].by_rows
        for reads in self.sources[index]:
            if rowwise.window is not None and reads.arg == rowwise.window.arg:
                rows = [rowwise.window.rows(r) for r in self.rows(rowwise, step)]
                yield reads.arg, reads.root, tuple(sorted(set().union(*rows)))
            else:
                yield reads.arg, reads.root, (step,)

    def rows(self, rowwise: Rowwise, step: int) -> Sequence[int]:
        """The rows of the result that a step makes, or of the operand that it sums."""
        return (step,) if rowwise.sums else rowwise.made(step)

    def ends(self) -> list[int]:
        """Calls whose result no other call of the run reads."""
        read = {i for own in self.sources.values() for r in own for i in r.makers}
        return [i for i in self.sources if i not in read]

    def steps(self) -> tuple[int, ...]:
        """Indices of calls in the order in which they make their rows.

        Of the calls at the end of the run, the one that has made the smallest share of its rows
        comes next; each call before it makes just the rows that are lacking. The rows that nobody
        needs come last.
        """
        calls = dict(self.calls())
        count = {i: c.rowwise.steps for i, c in calls.items() if c.rowwise}
        made = dict.fromkeys(calls, 0)
        waits = {i: self.waits(i) for i in calls}
        found: list[int] = []
        ends = self.ends()
        while unfinished := [i for i in ends if made[i] < count[i]]:
            stack = [min(unfinished, key=lambda i: ((made[i] + 1) / count[i], i))]
            while stack:
                top = stack[-1]
                for source, least in waits[top][made[top]]:
                    if made[source] < least:
                        stack.append(source)
                        break
                else:
                    made[top] += 1
                    found.append(stack.pop())
        return (*found, *self._rest(made, count))

    def waits(self, index: int) -> Waits:
        """For each step of a call (source, steps that this has to have made before it)."""
        found = self.before.get(index)
        if found is None:
            rowwise = self.program.calls[index].by_rows
            found = [tuple(self._waits(index, step)) for step in range(rowwise.steps)]
            self.before[index] = found
        return found

    def _waits(self, index: int, step: int) -> Iterator[tuple[int, int]]:
        """What step `step` of a call waits for, operand by operand."""
        needed = self.needs(index, step)
        for reads, (_, _, rows) in zip(self.sources[index], needed, strict=True):
            for source in reads.makers if rows else ():
                own = self.program.calls[source].by_rows
                there = rows[-1] + own.lead + 1
                # A sum is there with its last step.
                yield source, there * own.steps if own.sums else -(-there // own.batch)

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
