# SPDX-License-Identifier: Apache-2.0
"""Cut a run into slices of at most so many multiplications.

Kernels of convolutions and pools compute a range of the rows of their result: the parameters `y0`
and `y1` say which. Such a call becomes slices of equally many rows. All other calls are one slice
each, as are a vendor's region, the calls that are made row by row, and control flow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from aot.ir.check_slices import check_slices
from aot.ir.plan import Plan
from aot.ir.program import Call, Program
from aot.ir.slices import Slice

#: The most neighbouring pixels that kernels of microcontrollers make in one go.
PIXELS = 4


def sliced(program: Program, plan: Plan, bound: int) -> Program:
    """The program with slices of `bound` MACs at most where calls can be cut so; 0 cuts nothing."""
    if not bound:
        return program
    made = replace(program, slices=tuple(_slices(program, plan, bound)))
    check_slices(made, plan)
    return made


def note(program: Program, bound: int) -> list[str]:
    """The sentence for a bound that the longest slice exceeds, in a list; none if all meet it."""
    longest = max(program.slices, key=lambda s: s.macs, default=None)
    if longest is None or longest.macs <= bound:
        return []
    call = program.calls[longest.call]
    node = (*(call.origin.onnx_names or call.origin.nodes), call.kernel)[0]
    of = "one row of its result" if longest.end else "its call, which cannot be cut into rows,"
    return [
        f"--slice-macs {bound}: node {node} needs {longest.macs} multiplications at a time: {of} "
        "is the longest slice"
    ]


def record(program: Program, bound: int) -> dict[str, Any]:
    """The key `slices` of the manifest: the bound and the longest slice in multiplications, and
    each slice.
    """
    longest = max(s.macs for s in program.slices)
    parts = [
        {"call": s.call, "last": s.last, "first_row": s.first, "end_row": s.end, "macs": s.macs}
        for s in program.slices
    ]
    return {
        "bound_macs": bound,
        "longest_macs": longest,
        "count": len(parts),
        "slices": parts,
    }


def _slices(program: Program, plan: Plan, bound: int) -> Iterator[Slice]:
    """Yield the slices of a program in order, each of at most `bound` multiplications where that is
    possible.

    A call that can make rows is cut into runs of rows; calls of a region, a segment or a body stay
    whole, and so does a call whose operand moves while it runs.
    """
    index, moved = 0, _read_later(program, plan)
    while index < len(program.calls):
        call, last = program.calls[index], _last(program, index)
        rows = _rows(call) if call.region == -1 and index not in moved else 0
        if rows > 1 and call.macs > bound:
            yield from _by_rows(call, index, rows, bound)
        else:
            macs = sum(_macs(c) for c in program.calls[index : last + 1])
            yield Slice(index, last, 0, 0, macs)
        index = last + 1


def _read_later(program: Program, plan: Plan) -> set[int]:
    """Calls whose result lies in place of an operand of which a row may be read after that row of
    the result was made: the next slice would read a row of the result."""
    found = set()
    for sharing in plan.inplace:
        rowwise = program.calls[sharing.call].rowwise
        if rowwise is None or sharing.inp not in rowwise.single:
            found.add(sharing.call)
    return found


def _last(program: Program, index: int) -> int:
    """The last call that is made with the call `index`: of its region, or of its segment."""
    region = program.calls[index].region
    ends = [s.last for s in program.segments if s.first == index]
    if ends or region < 0:
        return ends[0] if ends else index
    calls = enumerate(program.calls[index:], index)
    return max(i for i, c in calls if c.region == region)


def _rows(call: Call) -> int:
    """The rows of a result that is made by ranges of rows, 0 if it is not."""
    fields = dict(call.params.fields) if call.params else {}
    end = fields.get("y1", 0)
    return end if fields.get("y0") == 0 and isinstance(end, int) else 0


def _macs(call: Call) -> int:
    """Multiplications of a call, those of the longest body of control flow times its steps."""
    inner = [sum(map(_macs, b.program.calls)) for b in call.bodies]
    steps = max(1, call.steps.most) if call.steps else 1
    return call.macs + steps * max(inner, default=0)


def _by_rows(call: Call, index: int, rows: int, bound: int) -> Iterator[Slice]:
    """Slices of the call `index`, of as many rows each as the bound allows, one at least."""
    tile = _tile(call, rows, bound)
    tiles = -(-rows // tile)
    fit = max(1, bound * rows // (call.macs * tile))
    count = -(-tiles // fit)
    ends = [min(rows, tile * (tiles * (k + 1) // count)) for k in range(count)]
    for first, end in zip([0, *ends], ends, strict=False):
        yield Slice(index, index, first, end, call.macs * (end - first) // rows)


def _tile(call: Call, rows: int, bound: int) -> int:
    """The number of rows of which a slice has a multiple.

    The constant `M` of a kernel with rows is the height of its tiles (Winograd's algorithm): sums
    of a slice that began within a tile would be rounded in another order. Other kernels make
    PIXELS or 2 neighbouring pixels in one go, and what is left over takes longer.
    """
    if "M" in (fixed := dict(call.instance)):
        return fixed["M"]
    fields = dict(call.params.fields) if call.params else {}
    width = fields.get("ow", 1)
    if not isinstance(width, int):
        return 1
    even = (pixels // math.gcd(pixels, width) for pixels in (PIXELS, 2))
    return next((n for n in even if n * call.macs <= bound * rows), 1)
