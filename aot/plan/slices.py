# SPDX-License-Identifier: Apache-2.0
"""Cut a run into slices of at most so many multiplications.

Kernels of convolutions and pools compute a range of the rows of their result: the parameters `y0`
and `y1` say which. Such a call becomes slices of equally many rows. Where a row is longer than the
bound, and for calls without rows, the slices are other parts of the result (`Call.splits`), as
pixels of a row, or output channels (`Call.blocks`), of one row where there are rows. A vendor's
region, the calls that are made row by row, control flow, and a call that cannot be cut are one
slice each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from aot.ir.check_slices import check_slices
from aot.ir.node_traits import converts
from aot.ir.plan import Plan
from aot.ir.program import Call, Program, Role
from aot.ir.slices import Slice
from aot.ir.splits import ROWS, Split

#: The most neighbouring pixels that kernels of microcontrollers make in one go.
PIXELS = 4


def sliced(program: Program, plan: Plan, bound: int) -> Program:
    """The program with slices of `bound` MACs at most where calls can be cut so; 0 cuts nothing."""
    if not bound:
        return program
    calls, slices, index = list(program.calls), list[Slice](), 0
    while index < len(calls):
        last = _last(program, index)
        found = _cut(program, plan, index, bound) if last == index else None
        if found:
            calls[index] = replace(calls[index], splits=found.splits, blocks=None)
            slices += _parts(index, found, _work(program, calls[index]), bound)
        else:
            macs = sum(_work(program, c) for c in calls[index : last + 1])
            slices.append(Slice(index, last, 0, 0, macs))
        index = last + 1
    made = replace(program, calls=tuple(calls), slices=tuple(slices))
    check_slices(made, plan)
    return made


def apart(program: Program, bound: int) -> Program:
    """The program whose calls of more than `bound` multiplications may not write in place of what
    a later slice reads, if they can be cut into rows; with 0 it is unchanged."""

    def changed(call: Call) -> Call:
        cut = _rows(call) > 1 or any(s.line for s in call.splits)
        if not (bound and cut) or call.region != -1 or _work(program, call) <= bound:
            return call
        read = call.rowwise.single if call.rowwise else ()
        return replace(call, inplace=tuple(pair for pair in call.inplace if pair[1] in read))

    return replace(program, calls=tuple(map(changed, program.calls)))


def note(program: Program, bound: int) -> list[str]:
    """The sentence for a bound that the longest slice exceeds, in a list; none if all meet it."""
    longest = max(program.slices, key=lambda s: s.macs, default=None)
    if longest is None or longest.macs <= bound:
        return []
    call = program.calls[longest.call]
    origin = call.origin
    nodes = zip(origin.onnx_names or origin.nodes, origin.ops, strict=False)
    node = (*(n for n, op in nodes if not converts(op)), call.kernel)[0]
    of = "the shortest part of its result" if longest.end else "its call, which cannot be cut,"
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


@dataclass(frozen=True, slots=True)
class _Cut:
    """A call makes `units` units of its result; slices begin at multiples of `tile`.

    `splits` has the way that is no range of rows, and with threads how they share the call.
    """

    units: int
    tile: int
    splits: tuple[Split, ...]

    @property
    def line(self) -> int:
        """The units of which a slice is a part: all of them, or those of a row."""
        return (self.splits[0].line if self.splits else 0) or self.units

    @property
    def least(self) -> float:
        """The share of the call that the shortest slice is, from 0 to 1."""
        return min(1.0, self.tile / self.units)


def _cut(program: Program, plan: Plan, index: int, bound: int) -> _Cut | None:
    """How the call `index` is cut: by rows if one row meets the bound, else by the first way whose
    parts meet it, else the way with the shortest parts. None: it is made as a whole, since it is
    short or reads its result's place.
    """
    call = program.calls[index]
    work, rows = _work(program, call), _rows(call)
    if call.region != -1 or work <= bound:
        return None
    shared = program.threads > 1
    over = [(s.out, s.inp) for s in plan.inplace if s.call == index]
    single = call.rowwise.single if call.rowwise else ()
    found = []
    if rows > 1 and all(inp in single for _, inp in over):
        tile = _tile(call, rows, bound)
        found.append(_Cut(rows, tile, call.splits if shared else ()))
        if work * tile <= bound * rows:
            return found[0]
    if not (call.status or call.fetches or (shared and rows > 1)):
        # Channels come last: every slice of a row's channels gathers the row's windows again.
        blocks = [call.blocks.in_rows(rows)] if call.blocks and rows else [call.blocks]
        for way in (*call.splits, *(b for b in blocks if b and not shared)):
            if way.without(over) == (*over,) and not (rows and way.fields == ROWS):
                tiles = (n * way.tile for n in (PIXELS, 2) if n * way.tile <= (way.line or n))
                tile = next((n for n in tiles if n * work <= bound * way.units), way.tile)
                found.append(_Cut(way.units, tile, (way,)))
    fine = (cut for cut in found if cut.least * work <= bound)
    best = next(fine, None) or min(found, key=lambda cut: cut.least, default=None)
    return best if best and best.least < 1 else None


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


def _work(program: Program, call: Call) -> int:
    """Multiplications of a call, those of the longest body of control flow times its steps.

    A call without multiplications counts one for each element that it reads or writes, whichever
    are more.
    """
    if call.bodies:
        inner = [sum(_work(b.program, c) for c in b.program.calls) for b in call.bodies]
        return call.macs + (max(1, call.steps.most) if call.steps else 1) * max(inner)
    tensors = (program.tensors[n] for n in (*call.reads(), *call.writes()))
    moved = (math.prod(t.shape) for t in tensors if t.role not in (Role.CONST, Role.SCRATCH))
    return call.macs or max(moved, default=0)


def _parts(index: int, cut: _Cut, work: int, bound: int) -> Iterator[Slice]:
    """Slices of the call `index`, of as many units each as the bound allows, a tile at least."""
    units, tile = cut.units, cut.tile
    tiles = -(-cut.line // tile)
    fit = max(1, bound * units // (work * tile))
    count = -(-tiles // fit)
    ends = [min(cut.line, tile * (tiles * (k + 1) // count)) for k in range(count)]
    for line in range(0, units, cut.line):
        for first, end in zip([0, *ends], ends, strict=False):
            yield Slice(index, index, line + first, line + end, work * (end - first) // units)


def _tile(call: Call, rows: int, bound: int) -> int:
    """The number of rows of which a slice has a multiple.

    A kernel with the constants `T` and `KH` (Winograd's algorithm) has tiles of T - KH + 1 rows, of
    2 if T is 5 (for stride 2), or of one if KH is 1: sums of a slice that began within a tile would
    be rounded in another order.
    Other kernels make PIXELS or 2 neighbouring pixels in one go, and what is left over takes
    longer.
    """
    if {"T", "KH"} <= (fixed := dict(call.instance)).keys():
        tall = 2 if fixed["T"] == 5 else fixed["T"] - fixed["KH"] + 1
        return tall if fixed["KH"] > 1 else 1
    fields = dict(call.params.fields) if call.params else {}
    width = fields.get("ow", 1)
    if not isinstance(width, int):
        return 1
    even = (pixels // math.gcd(pixels, width) for pixels in (PIXELS, 2))
    return next((n for n in even if n * call.macs <= bound * rows), 1)
