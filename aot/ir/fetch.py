# SPDX-License-Identifier: Apache-2.0
"""Weights that a call gets by blocks: it computes with one while they lie in fast memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aot.ir.splits import Split

#: Elements of a stream that its digest covers: the checker decodes so many.
CHECKED = 65_536
#: All units are one block: for a kernel that cannot be cut by its weights.
WHOLE = Split(1, ())


@dataclass(frozen=True, slots=True)
class Fetch:
    """How argument `into` of a call, scratch memory, is filled block by block, and from where.

    The call runs once per block, of `step` units of its result each; `split` says what differs from
    block to block (one unit: all at once), its moves included. A unit has `nbytes` bytes.
    Argument `source`, a constant behind the kernel's own arguments, holds the weights of all units:
    for "unpack" as a stream of codes (runtime_c/kernels/aot_unpack.h), for whose table there is
    scratch memory, argument `table`; for "copy" as they are. `size` are the bytes of an element,
    `longest` the bits of the longest code, `runs` whether a code stands for a run of zeros, `flat`
    whether all elements have four bits.
    `digest` is the CRC-32 of the first CHECKED elements.

    "copy" has room for two blocks: the next one is on its way while the call computes with one.
    """

    how: Literal["unpack", "copy"]
    into: int
    source: int
    split: Split
    step: int
    nbytes: int
    table: int = -1
    size: int = 1
    longest: int = 0
    runs: bool = False
    flat: bool = False
    digest: int = 0

    @property
    def buffers(self) -> int:
        """Blocks for which there is room."""
        return 2 if self.how == "copy" and self.blocks > 1 else 1

    @property
    def blocks(self) -> int:
        """How often the kernel is called."""
        return -(-self.split.units // self.step)

    @property
    def total(self) -> int:
        """Bytes of the weights of all units."""
        return self.split.units * self.nbytes

    @property
    def kind(self) -> tuple[object, ...]:
        """All that a function for such calls knows: sizes and numbers of units are passed to it."""
        own = self.how, self.into, self.source, self.table, self.size, self.runs
        return (*own, self.flat, self.split.fields, self.split.moves)

    def text(self) -> str:
        """`unpack into 2 from 7: 128 units of 640 bytes, 4 at a time`."""
        units = f"{self.split.units} units of {self.nbytes} bytes, {self.step} at a time"
        return f"{self.how} into {self.into} from {self.source}: {units}"
