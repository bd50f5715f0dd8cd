# SPDX-License-Identifier: Apache-2.0
"""The independent checker of slices: played in order they make every part of every call once."""

from __future__ import annotations

from aot.errors import InternalError
from aot.ir.check_splits import check_split
from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.ir.splits import ROWS


def check_slices(program: Program, plan: Plan) -> None:
    """Raise InternalError, naming the slice, unless slices make each call once and in order.

    A call of a vendor's region and one whose kernel takes no range of rows and has no split must be
    whole, and so must a call whose result lies in place of an operand, unless a row or part of the
    operand is read for that of the result only.
    """
    call, row = 0, 0
    over = {s.call: (s.out, s.inp) for s in plan.inplace}
    for part in program.slices:
        if part.call != call or part.first != row or part.last < part.call:
            raise InternalError(f"{part.text()}: call {call}, row {row} is next")
        if not part.end:
            call = part.last + 1
            continue
        own = program.calls[call]
        pairs, split = [over[call]] if call in over else [], next(iter(own.splits), None)
        rows: object = dict(own.params.fields).get("y1") if own.params else None
        if split and split.fields != ROWS:
            check_split(program, own, split, pairs, part.text())
            rows, line = split.units, split.line
            if line and part.first // line != (part.end - 1) // line:
                raise InternalError(f"{part.text()}: the call is cut in lines of {line}")
        elif pairs and not (own.rowwise and over[call][1] in own.rowwise.single):
            raise InternalError(f"{part.text()}: the result lies in place of rows still to be read")
        if part.last != call or own.region != -1 or not isinstance(rows, int):
            raise InternalError(f"{part.text()}: the call must be made as a whole")
        if not part.first < part.end <= rows:
            raise InternalError(f"{part.text()}: the call makes {rows} rows")
        # The slice with the last row ends the call.
        row = part.end % rows
        call += row == 0
    if program.slices and (call, row) != (len(program.calls), 0):
        raise InternalError(f"slices end before call {call}, row {row}")
