# SPDX-License-Identifier: Apache-2.0
"""Which calls to make row by row so that what they hand on stays in a cache.

Inverted residuals on hosts are the case: a convolution of 1 x 1 makes many channels that the next
call reads at once. As whole tensors these go through the second-level cache to the one behind it,
as rows they stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from aot.ir.program import Arg, Program, Role
from aot.plan.streaming.order import Run, of_scratch
from aot.plan.streaming.runs import rows_of, runs_of, segmented

#: What a value has to be larger than, in caches, for a gain beyond doubt. Measured on Zen 4 with
#: 1 MiB: values of 1.7 caches bring 0 to 2 % of the time of their chain, 2.3 caches 5 %, 4.6 caches
#: 7 %, 7 caches 13 to 17 %, 18 caches 30 %.
LARGE = 6
#: The cost of rows, to that of whole tensors in the same memory, up to which a call takes part:
#: tiles of pixels that end with a row are less full.
MOST_COST = 1.02


def cached(program: Program, cache: int) -> Program:
    """`program` with those chains of calls in segments that are faster by rows, beyond doubt.

    `cache` are the bytes of the second-level cache. In such a chain every call but the last makes
    more than that, one LARGE times as much, and the rows that are needed at a time fit with all
    weights.
    """
    runs = runs_of(program)[0]
    chains = [c for first, last in runs for c in _chains(program, cache, first, last)]
    spans = [s for first, last in chains for s in _fitting(program, cache, first, last)]
    return segmented(program, [s for s in spans if _is_large(program, cache, *s)])


def _chains(program: Program, cache: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    """The longest parts of a run that hand on values larger than `cache` from call to call."""
    start = first
    for index in range(first, last + 1):
        call = program.calls[index]
        known = call.rowwise is not None and 0 < call.rowwise.cost <= MOST_COST
        if known and index < last and _made(program, index) > cache:
            continue
        end = index if known else index - 1
        if end > start:
            yield start, end
        start = index + 1


def _fitting(program: Program, cache: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Parts of calls `first` to `last` that each need at most `cache` bytes at a time.

    A part that would be too long ends with the call of it that makes the fewest bytes, the last of
    several.
    """
    while first < last:
        end = first
        while end < last and _needed(program, first, end + 1) <= cache:
            end += 1
        if end < last:
            end = min(range(first, end + 1), key=lambda i: (_made(program, i), -i))
        if end > first:
            yield first, end
        first = end + 1


def _made(program: Program, index: int) -> int:
    """Bytes of the result of call `index`."""
    return program.tensors[program.base(program.calls[index].writes()[0])[0]].nbytes


def _is_large(program: Program, cache: int, first: int, last: int) -> bool:
    """Whether calls `first` to `last` keep a LARGE value by rows."""
    kept = rows_of(Run(program, first, last))
    return max((program.tensors[n].nbytes for n in kept), default=0) > LARGE * cache


def _needed(program: Program, first: int, last: int) -> int:
    """Bytes of constants, scratch, rows of windows and of results of calls `first` to `last`."""
    found = 0
    for call in program.calls[first : last + 1]:
        found += sum(program.tensors[n].nbytes for n in of_scratch(program, call))
        window = call.by_rows.window
        for index, arg in enumerate(call.args):
            if not isinstance(arg, Arg):
                continue
            tensor = program.tensors[program.base(arg.tensor)[0]]
            if tensor.role is Role.CONST:
                found += tensor.nbytes
            elif index in call.by_rows.single:
                found += tensor.nbytes // call.by_rows.height
            elif window is not None and index == window.arg:
                found += tensor.nbytes // window.height * (window.span + window.stride)
    return found
