# SPDX-License-Identifier: Apache-2.0
"""Which constants are copied from slow memory by blocks, the next one while a call computes.

Before: y = conv(x, w, bias)                      w in flash behind a serial bus, or in PSRAM
After:  y = conv(x, scratch [2 blocks], bias), block by block: aot_copy_start fetches a block while
        the kernel works on the one before, aot_copy_wait awaits it

The target's file says how fast memories are. A kernel that reads its weights again and again, for
every few pixels, then reads them from fast memory; one that reads them once waits less. A constant
comes whole where a call cannot be cut by channels of its weights, if it is read often and there is
room.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np

from aot.ir.fetch import CHECKED, Fetch
from aot.ir.program import Access, Arg, Call, Program
from aot.plan.fetch.blocks import BLOCK, Made, constants, room_at, split_for, takes, without
from aot.target import Target

#: How much slower memory must be that constants are copied from.
SLOW = 2
#: Constants below this many bytes are read where they are.
LEAST = 1024


def slowness(target: Target) -> float:
    """The time of an access to the memory of constants, to one in the memory of the arena."""
    constants_in, arena_in = (
        next((m.speed for m in target.memories if use in m.use), 1.0)
        for use in ("weights", "arena")
    )
    return constants_in / arena_in


def copied(program: Program, bound: int = 0) -> Program:
    """The program in which calls copy the larger ones of their constants by blocks.

    With a `bound` on the multiplications of a slice, calls of more are left as they are: they are
    cut by rows, each of which would have to copy.
    """
    made, room = Made(dict(program.tensors), dict(program.consts)), room_at(program)
    calls = [
        _rewritten(made, program, c, room[n])
        if takes(c, program.threads) and not (bound and c.macs > bound)
        else c
        for n, c in enumerate(program.calls)
    ]
    return replace(program, tensors=made.tensors, calls=tuple(calls))


def _rewritten(made: Made, program: Program, call: Call, room: int) -> Call:
    """The call with the largest of its constants copied; unchanged where that gains nothing."""
    found = sorted(constants(program, call), key=lambda c: -c[2].nbytes)
    if not found or found[0][2].nbytes < LEAST:
        return call
    number, name, data = found[0]
    # A kernel that reads each element about once gains from any block; others need large ones.
    split, often = split_for(call, number, room, data.nbytes), call.macs > 2 * data.size
    if split is None or data.nbytes % split.units or 2 * data.nbytes // split.units > room:
        return call
    step = made.steps(split, [name], max(BLOCK, room // 4) if often else BLOCK)
    if step == split.units and not often:
        return call
    # A part is its own buffer now, so its pointer no longer moves with the units.
    split = without(split, [number])
    checked = zlib.crc32(np.ravel(data)[:CHECKED].tobytes())
    each = data.nbytes // split.units
    fetch = Fetch("copy", number, len(call.args), split, step, each, digest=checked)
    fetch = replace(fetch, size=data.dtype.itemsize)
    return made.fetching(call, fetch, Arg(name, Access.READ))
