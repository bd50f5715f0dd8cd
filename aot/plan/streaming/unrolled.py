# SPDX-License-Identifier: Apache-2.0
"""A program in which every row of a segment is a tensor and every step a call.

The planner of whole tensors plans it: rows have lifetimes of their own, and what is scratch in a
step may lie where a row was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from aot.ir.dtypes import F32, U8
from aot.ir.program import Access, Arg, Call, Program, Role, Tensor, View
from aot.ir.rows import Segment
from aot.plan.streaming.order import Run

#: What a row begins at a multiple of, in bytes.
ROW_ALIGN = 4
#: How the name of a call's own memory ends.
SUMS = "@sums"


def row_name(tensor: str, row: int) -> str:
    """The tensor of the unrolled program that is row `row`; no tensor of a program is called so."""
    return f"{tensor}@{row}"


def sums_name(program: Program, call: Call) -> str:
    """The memory in which a call keeps its sums from its first row to its last."""
    return program.base(call.writes()[0])[0] + SUMS


def unrolled(program: Program) -> Program:
    """`program` with every step of its segments as a call of its own, without segments."""
    made = _Unrolled(program)
    for segment in program.segments:
        made.upto(segment.first)
        made.segment(segment)
    made.upto(len(program.calls))
    return replace(program, tensors=made.tensors, calls=tuple(made.calls), segments=())


def steps_of(program: Program) -> list[int]:
    """The call of `program` that each call of `unrolled(program)` is a step of."""
    found: list[int] = []
    at = 0
    for segment in program.segments:
        found += [*range(at, segment.first), *segment.steps]
        at = segment.last + 1
    return [*found, *range(at, len(program.calls))]


class _Unrolled:
    def __init__(self, program: Program) -> None:
        """Start with the tensors that no segment keeps by rows."""
        self.program = program
        gone = {n for s in program.segments for n in s.tensors}
        self.gone = gone
        bases = {n: program.base(n)[0] for n in program.tensors}
        self.tensors = {n: t for n, t in program.tensors.items() if bases[n] not in gone}
        self.calls: list[Call] = []
        self.at = 0

    def upto(self, end: int) -> None:
        """The calls before call `end` that are not there yet, as they are."""
        self.calls += self.program.calls[self.at : end]
        self.at = end

    def segment(self, segment: Segment) -> None:
        """Every step of a segment."""
        run = Run(self.program, segment.first, segment.last)
        made = dict.fromkeys(range(segment.first, segment.last + 1), 0)
        for index in segment.steps:
            self.calls.append(self.call(run, index, made[index]))
            made[index] += 1
        self.at = segment.last + 1

    def call(self, run: Run, index: int, step: int) -> Call:
        """Step `step` of call `index`: a call on tensors that are one row each.

        Rows of its window, of those read one by one and of the result have names by root and
        number; scratch is its own in every step, constants and arguments read as a whole are as
        they were. A call that sums rows keeps its sums in a tensor from its first step on and makes
        its result in the last.
        """
        call = self.program.calls[index]
        rowwise = call.by_rows
        needs = {arg: (root, rows) for arg, root, rows in run.needs(index, step)}
        place: dict[int, int] = {}
        args: list[Arg] = []
        for i, arg in enumerate(call.args):
            if not isinstance(arg, Arg):
                continue
            place[i] = len(args)
            # Only the last step of a sum makes a result; all before it add to the sums.
            if i == 0 and not (rowwise.sums and step + 1 < rowwise.steps):
                height = rowwise.height
                row = 0 if rowwise.sums else step
                made = [row] if rowwise.batch == 1 else rowwise.made(step)
                args.append(self.rows(arg, made, height, rowwise.pieces(0)))
            elif i in needs:
                window = rowwise.window
                height = window.height if window and window.arg == i else rowwise.height
                args += [self.row(arg, r, height, rowwise.pieces(i)) for r in needs[i][1]]
            elif run.role(arg) is Role.SCRATCH:
                args.append(self.piece(arg, step))
            elif run.role(arg) is Role.CONST or i in rowwise.whole:
                args.append(arg)
        if rowwise.sums:
            args.append(self.sums(call, step))
        # In-place permissions hold for rows where both sides have exactly one row in this step.
        single = {i for i in rowwise.single if i in place and self.alone(call, i)}
        pairs = tuple((place[w], place[r]) for w, r in call.inplace if {w, r} <= single)
        return replace(call, args=tuple(args), inplace=pairs, rowwise=None)

    def alone(self, call: Call, index: int) -> bool:
        """Whether a row of argument `index` touches nothing but that row."""
        arg = call.tensor(index)
        return call.by_rows.pieces(index) == 1 or self.program.base(arg.tensor)[0] in self.gone

    def row(self, arg: Arg, row: int, height: int, pieces: int) -> Arg:
        """A row of a tensor: of a streamed one a tensor, of a whole one a view.

        With several pieces it is a view of all, in which other rows stay as they are; a row of a
        part is a view of the row, or of the part of a whole tensor.
        """
        root, offset = self.program.base(arg.tensor)
        tensor, nbytes = self.program.tensors[root], self.program.tensors[arg.tensor].nbytes
        made, size = row_name(root, row), tensor.nbytes // height
        stays = row and pieces > 1 and root not in self.gone and arg.access is Access.WRITE
        if root in self.gone:
            align = math.gcd(size, tensor.align) if tensor.dtype is F32 else ROW_ALIGN
            self.add(made, size, Role.TEMP, None, align)
            if nbytes < tensor.nbytes:
                view = View(made, offset // height)
                made = self.add(f"{made}+{view.offset}", nbytes // height, Role.TEMP, view)
        else:
            made += f"+{offset}" if nbytes < tensor.nbytes else ""
            own = nbytes if pieces > 1 else nbytes // height
            view = View(root, offset + (0 if pieces > 1 else row * own))
            self.add(made, own, tensor.role, view)
        return Arg(made, Access.READ_WRITE if stays else arg.access, arg.offset, arg.back)

    def add(self, name: str, nbytes: int, role: Role, view: View | None, align: int = 1) -> str:
        """The name of a tensor of `nbytes`, which is added if it is not there."""
        if name not in self.tensors:
            self.tensors[name] = Tensor(
                name, (nbytes,), U8, role, onnx_name=name, view=view, align=align
            )
        return name

    def rows(self, arg: Arg, rows: Sequence[int], height: int, pieces: int) -> Arg:
        """Rows of a result that follow each other: a tensor, of which each row is a view."""
        if len(rows) == 1:
            return self.row(arg, rows[0], height, pieces)
        root, _ = self.program.base(arg.tensor)
        tensor = self.program.tensors[root]
        size = tensor.nbytes // height
        # Rows that follow each other are one tensor, so that a kernel can write them in one go.
        made = f"{root}@{rows[0]}-{rows[-1]}"
        view = None if root in self.gone else View(root, rows[0] * size)
        role = Role.TEMP if view is None else tensor.role
        self.add(made, len(rows) * size, role, view, ROW_ALIGN)
        for k, row in enumerate(rows):
            self.add(row_name(root, row), size, role, View(made, k * size))
        return Arg(made, arg.access)

    def piece(self, arg: Arg, step: int) -> Arg:
        """The scratch argument `arg` of a call for one step: a tensor of its own with the same
        bytes.

        It is added to `tensors` under the name of row `step`.
        """
        made = row_name(arg.tensor, step)
        own = self.program.tensors[arg.tensor]
        self.tensors[made] = replace(own, name=made)
        return Arg(made, arg.access)

    def sums(self, call: Call, step: int) -> Arg:
        """The memory of a call that sums."""
        made = sums_name(self.program, call)
        self.add(made, call.by_rows.sums, Role.TEMP, None, 4)
        return Arg(made, Access.READ_WRITE if step else Access.WRITE)
