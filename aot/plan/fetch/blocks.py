# SPDX-License-Identifier: Apache-2.0
"""What both ways to get weights by blocks share: which constants, how much room, the new call."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from aot.ir.deferred import Constant
from aot.ir.dtypes import U8
from aot.ir.fetch import WHOLE, Fetch
from aot.ir.graph_nodes import Array
from aot.ir.layout import PLAIN
from aot.ir.program import Access, Arg, Call, Program, Role, Tensor
from aot.ir.splits import Split
from aot.plan.memory.live import uses_of

#: Bytes of a block whose elements are used once, about; others are as large as there is room.
BLOCK = 1024
#: An arena of so many bytes is small enough for blocks and tables besides its tensors.
SMALL = 8192


def takes(call: Call, threads: int) -> bool:
    """Whether constants of a call may come by blocks: portable C that threads do not share, as a
    whole and not row by row."""
    plain = call.backend == "c" and call.region == -1 and not call.bodies and not call.status
    return plain and not call.beyond and not call.fetches and (threads == 1 or not call.splits)


def constants(program: Program, call: Call) -> Iterator[tuple[int, str, Array]]:
    """(argument, name, elements) of the constants that a call reads from their start."""
    for number, arg in enumerate(call.args):
        if not isinstance(arg, Arg) or arg.offset or arg.back:
            continue
        tensor = program.tensors[arg.tensor]
        if tensor.role is not Role.CONST or tensor.view is not None or tensor.section:
            continue
        data = program.consts[arg.tensor]
        once = [a.tensor for a in call.pointers()].count(arg.tensor) == 1
        if isinstance(data, np.ndarray) and once:
            yield number, arg.tensor, data


def split_for(call: Call, arg: int, room: int, nbytes: int) -> Split | None:
    """How a constant of so many bytes comes to argument `arg`: by channels, or whole if there is
    `room`; None where neither can be."""
    if call.blocks is not None and any(arg == moved for moved, _ in call.blocks.moves):
        return call.blocks
    return WHOLE if nbytes <= room else None


def room_at(program: Program) -> list[int]:
    """Bytes of the arena that no tensor has at each call, if tensors are packed well.

    A smaller arena than SMALL may grow so far.
    """
    live = [0] * len(program.calls)
    for root, uses in uses_of(program).by_root.items():
        tensor = program.tensors[root]
        held = root in (*program.inputs, *program.outputs, *program.kept)
        if tensor.role in (Role.TEMP, Role.SCRATCH):
            first, last = (0, len(live) - 1) if held else (uses[0].call, uses[-1].call)
            for step in range(first, last + 1):
                live[step] += tensor.nbytes
    return [max([SMALL, *live]) - n for n in live]


@dataclass(slots=True)
class Made:
    """Tensors and constants of the program, and what is added to them."""

    tensors: dict[str, Tensor]
    consts: dict[str, Constant]

    def fetching(self, call: Call, fetch: Fetch, *behind: Arg) -> Call:
        """The call with scratch memory in place of a constant, and arguments `behind` its own."""
        args = [*call.args, *behind]
        old = args[fetch.into]
        assert isinstance(old, Arg)
        nbytes, align = fetch.buffers * fetch.step * fetch.nbytes, self.tensors[old.tensor].align
        args[fetch.into] = self.scratch(f"{old.tensor}_block", nbytes, align)
        origin = replace(call.origin, comment=_comment(call, fetch))
        made = replace(call, args=tuple(args), origin=origin, fetches=(*call.fetches, fetch))
        return replace(made, rowwise=None, blocks=None, splits=())

    def steps(self, split: Split, names: Collection[str], free: int) -> int:
        """Units of a block of the constants `names`, for which there are `free` bytes; blocks have
        equally many, about."""
        total = sum(self.tensors[n].nbytes for n in names)
        blocks = -(-split.units // max(1, free * split.units // total))
        return -(-split.units // blocks)

    def source(self, name: str, data: Array) -> Arg:
        """A new constant of bytes."""
        self.tensors[name] = Tensor(name, data.shape, U8, Role.CONST, PLAIN, align=4)
        self.consts[name] = data
        return Arg(name, Access.READ)

    def scratch(self, name: str, nbytes: int, align: int) -> Arg:
        """New scratch memory."""
        self.tensors[name] = Tensor(name, (nbytes,), U8, Role.SCRATCH, align=align)
        return Arg(name, Access.WRITE)


def without(split: Split, args: Collection[int]) -> Split:
    """The split in which arguments `args` are always at the start of a block."""
    return replace(split, moves=tuple(m for m in split.moves if m[0] not in args))


def _comment(call: Call, fetch: Fetch) -> str:
    """What the comment on the call says of its weights."""
    blocks = f" in {fetch.blocks} blocks" if fetch.blocks > 1 else ""
    verb = "unpacked" if fetch.how == "unpack" else "copied"
    own = f"weights {verb}{blocks}"
    before = call.origin.comment
    return f"{before}; {own}" if before and own not in before else own
