# SPDX-License-Identifier: Apache-2.0
"""The independent checker of splits: parts that run at once write different bytes."""

from __future__ import annotations

from collections.abc import Iterable

from aot.errors import InternalError
from aot.ir.program import Access, Arg, Call, Program, Role
from aot.ir.splits import Split


def check_splits(program: Program) -> None:
    """Raise InternalError, naming the call, unless parts of its calls may run at once.

    A call has one split at most, is no vendor's, and returns no status. The last unit of a moved
    argument begins within it; scratch has room for every thread; what else a part writes is its own
    rows, and nothing that a part writes may lie in place of an argument that others read.
    """
    for index, call in enumerate(program.calls):
        if not call.splits:
            continue
        where = f"call {index} ({call.kernel})"
        if program.threads < 2 or len(call.splits) > 1 or call.region >= 0 or call.status:
            raise InternalError(f"{where}: cannot be split")
        check_split(program, call, call.splits[0], call.inplace, where)


def check_split(
    program: Program, call: Call, split: Split, inplace: Iterable[tuple[int, int]], where: str
) -> None:
    """Raise InternalError, beginning with `where`, unless parts of the call may run at once where
    the arguments `inplace` (written, read) share their places."""
    known = {name for name, _ in call.params.fields} if call.params else set()
    lost = [f.member for f in split.fields if f.member not in known]
    odd = split.line and (split.units % split.line or split.line < split.tile)
    if lost or odd or split.tile < 1 or split.units < 2:
        raise InternalError(f"{where}: {split.text()} names {lost or 'too few units'}")
    moves = dict(split.moves)
    for number, arg in enumerate(call.args):
        if not isinstance(arg, Arg):
            continue
        tensor = program.tensors[arg.tensor]
        if tensor.role is Role.SCRATCH:
            # Threads work at once, so each has an equal share of scratch memory for itself.
            if number in moves or tensor.nbytes % program.threads:
                raise InternalError(f"{where}: {arg.tensor} is not divided among threads")
        elif number in moves:
            units = split.units if number in split.along else split.line or split.units
            if arg.offset + (units - 1) * moves[number] >= max(1, tensor.nbytes):
                raise InternalError(f"{where}: {split.text()} leaves {arg.tensor}")
            if moves[number] % max(1, tensor.dtype.nbytes):
                raise InternalError(f"{where}: {split.text()} cuts an element of {arg.tensor}")
        elif arg.access is not Access.READ and number not in split.own:
            raise InternalError(f"{where}: every part writes {arg.tensor}")
    for written, read in inplace:
        if not split.alone(written, read):
            raise InternalError(f"{where}: a part writes argument {read}, which others read")
