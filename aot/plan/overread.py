# SPDX-License-Identifier: Apache-2.0
"""Operands that a kernel reads past the end of: the bytes behind them belong to the bundle.

Kernels that load whole vectors touch bytes behind their operands (`Call.beyond`), and use none of
them. In the arena others' bytes follow, and its end moves by what is read past the last tensor.
What the caller owns ends where the caller says: such an operand is copied into the arena first.
Constants are stored again with zeros behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from aot.ir.deferred import parts_of
from aot.ir.plan import Place
from aot.ir.program import Access, Arg, Call, Params, Program, Role, Tensor
from aot.plan.memory.live import ARENA_ROLES


def readable(program: Program) -> Program:
    """`program` in which every operand that is read past its end is in the arena or padded."""
    made = _Readable(program)
    calls = [made.rewritten(call) for call in program.calls]
    flat = tuple(c for group in calls for c in group)
    return replace(program, tensors=made.tensors, consts=made.consts, calls=flat)


class _Readable:
    """The tensors and constants of a program, and what is added to them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tensors, self.consts = dict(program.tensors), dict(program.consts)

    def rewritten(self, call: Call) -> list[Call]:
        """The call behind the copies of what it reads."""
        if not call.beyond:
            return [call]
        copies: dict[str, Call] = {}
        args = list(call.args)
        for index, arg in enumerate(args):
            if isinstance(arg, Arg) and arg.access is Access.READ:
                root, offset = self.program.base(arg.tensor)
                role = self.tensors[root].role
                # Constants and the caller's tensors end where they end: reads beyond them need a
                # padded copy.
                if role is Role.CONST:
                    name = self._padded(root, call.beyond)
                    args[index] = replace(arg, tensor=name, offset=arg.offset + offset)
                elif role not in ARENA_ROLES:
                    name = f"{arg.tensor}_readable_{call.region}"
                    if name not in self.tensors:
                        copies[name] = self._copy(name, arg.tensor, call)
                    args[index] = replace(arg, tensor=name)
        return [*copies.values(), replace(call, args=tuple(args))]

    def _padded(self, name: str, beyond: int) -> str:
        """The constant `name`, all in one row, with zeros behind it."""
        made, tensor = f"{name}_padded", self.tensors[name]
        if made not in self.tensors:
            extra = np.zeros(-(-beyond // tensor.dtype.nbytes), tensor.dtype.numpy)
            parts = [np.ravel(p) for p in parts_of(self.consts[name])]
            self.consts[made] = np.concatenate([*parts, extra])
            shape = self.consts[made].shape
            self.tensors[made] = Tensor(made, shape, tensor.dtype, Role.CONST, align=tensor.align)
        return made

    def _copy(self, name: str, source: str, call: Call) -> Call:
        """The copy of a tensor of the caller's into the arena, in the region of the call."""
        tensor = self.tensors[source]
        self.tensors[name] = replace(tensor, name=name, role=Role.TEMP, view=None)
        args = Arg(name, Access.WRITE), Arg(source, Access.READ)
        params = Params("aot_copy_params", (("bytes", tensor.nbytes),))
        origin = replace(call.origin, comment="bytes may be read behind the copy")
        made = Call("aot_copy", args, params, origin, header="aot_copy.h")
        return replace(made, backend=call.backend, region=call.region)


def end_of_reads(program: Program, placements: Mapping[str, Place]) -> int:
    """The byte of the arena behind the last that a call may read past the end of an operand."""
    return max(
        (
            placements[a.tensor].offset + program.tensors[a.tensor].nbytes + call.beyond
            for call in program.calls
            if call.beyond
            for a in call.pointers()
            if a.access is Access.READ and a.tensor in placements
        ),
        default=0,
    )
