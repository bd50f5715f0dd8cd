# SPDX-License-Identifier: Apache-2.0
"""Calls that run while a device works: a call with `async_kernels` is started and awaited later.

Before: a, b, region, c, d        c needs no result of the region, the region none of b
After:  a, start, b, c, wait, d

The waiting call reads what the started one reads and updates what it writes, so that memory is
held in between; scratch becomes a temporary. It gets a region of its own (`program.WAITS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aot.ir.program import WAITS, Access, Arg, Call, Program, Role, Scalar, StateArg, Tensor

#: (root, first byte, end, whether it is written).
Span = tuple[str, int, int, bool]


def overlap(program: Program) -> Program:
    """`program` with every region that can be split, and has something beside it, split."""
    index = 0
    while index < len(program.calls):
        call = program.calls[index]
        if call.async_kernels is not None and _alone(program, call):
            program = _split(program, index)
        index += 1
    return program


def _alone(program: Program, call: Call) -> bool:
    """Whether the region has no other call."""
    return sum(c.region == call.region for c in program.calls) == 1


def _split(program: Program, index: int) -> Program:
    """Split call `index` into a call that starts it and one that waits for it, with work in
    between.

    Only neighbours that may change places with other calls are considered (`_moves`). A neighbour
    before the call that it does not need, and one behind it that does not need its results, goes
    between start and wait. The program is returned as it is if nothing but copies could go there.
    The result has one call more, and its order is no longer proven optimal.
    """
    calls, own = program.calls, program.calls[index]
    first, last = index, index + 1
    while first > 0 and _moves(calls[first - 1]):
        first -= 1
    while last < len(calls) and _moves(calls[last]):
        last += 1
    before, behind = calls[first:index], calls[index + 1 : last]
    # `before` is read backwards: the nearest call is the first that can be needed.
    needed = _reached(program, own, before[::-1])
    needing = _reached(program, own, behind)
    beside = [c for n, c in enumerate(before[::-1]) if n not in needed][::-1]
    beside += [c for n, c in enumerate(behind) if n not in needing]
    # A copy takes too little time to hide anything behind it.
    if not any(c.kernel != "aot_copy" for c in beside):
        return program
    tensors, start, wait = _start_and_wait(program, own)
    order = [
        *calls[:first],
        *[c for n, c in enumerate(before[::-1]) if n in needed][::-1],
        start,
        *beside,
        wait,
        *[c for n, c in enumerate(behind) if n in needing],
        *calls[last:],
    ]
    return replace(program, tensors=tensors, calls=tuple(order), schedule_optimal=False)


def _moves(call: Call) -> bool:
    """Whether a call may run beside a device: portable C that cannot fail, no control flow.

    A failure would end the run with the device still at work.
    """
    return call.region < 0 and not call.bodies and not call.status


def _reached(program: Program, start: Call, calls: Sequence[Call]) -> set[int]:
    """Indices of those of `calls` that must stay on their side of `start`.

    `calls` lead away from `start`, nearest first. A call must stay if it touches bytes that
    `start`, or one that must stay, touches, and either writes them.
    """
    spans = [*_spans(program, start)]
    found = set()
    for n, call in enumerate(calls):
        own = _spans(program, call)
        if any(_clash(a, b) for a in own for b in spans):
            found.add(n)
            spans += own
    return found


def _spans(program: Program, call: Call) -> list[Span]:
    """The bytes a call touches, without constants."""
    found = []
    for arg in call.pointers():
        root, offset = program.base(arg.tensor)
        if program.tensors[root].role is not Role.CONST:
            end = offset + program.tensors[arg.tensor].nbytes
            found.append((root, offset, end, arg.access is not Access.READ))
    return found


def _clash(a: Span, b: Span) -> bool:
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2] and (a[3] or b[3])


def _start_and_wait(program: Program, call: Call) -> tuple[dict[str, Tensor], Call, Call]:
    """The two halves of `call`, which has `async_kernels`, and the tensors of the program with
    them.

    Returned are (tensors by name, the call that starts, the call that waits). Scratch of the call
    becomes a temporary, as it must outlive the first half. The second half names every tensor but
    constants again, so that the plan keeps their bytes until then; what the call writes counts as
    read and written there.
    """
    assert call.async_kernels is not None
    tensors = dict(program.tensors)
    waited: list[Arg | Scalar | StateArg] = []
    for arg in call.args:
        if not isinstance(arg, Arg):
            waited.append(arg)
            continue
        # The second half runs much later: its scratch must live until then.
        tensor = tensors[arg.tensor]
        if tensor.role is Role.SCRATCH:
            tensors[arg.tensor] = replace(tensor, role=Role.TEMP)
        # Constants live throughout; other operands must not be overwritten before the wait.
        if tensors[program.base(arg.tensor)[0]].role is not Role.CONST:
            read = arg.access is Access.READ
            waited.append(replace(arg, access=Access.READ if read else Access.READ_WRITE))
    begin, end = call.async_kernels
    params = call.params and replace(call.params, ctype=f"{begin}_params")
    start = replace(call, kernel=begin, params=params, inplace=(), async_kernels=None)
    wait = replace(
        call,
        kernel=end,
        args=tuple(waited),
        params=None,
        origin=replace(call.origin, comment="awaited"),
        instance=(),
        inplace=(),
        region=WAITS + call.region,
        macs=0,
        async_kernels=None,
    )
    return tensors, start, wait
