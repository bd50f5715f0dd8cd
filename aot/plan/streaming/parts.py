# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors that calls have by rows: planes of channels, or some bytes of every pixel."""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.program import Access, Call, Program


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes `begin` to `end` - 1 of `whole`: those of the tensor `root`, or of each of its pixels.

    `grain` are the bytes of a row in one plane, 0 where a row is one piece.
    """

    root: str
    begin: int
    end: int
    whole: int
    grain: int

    @property
    def proper(self) -> bool:
        """Whether there is more of the tensor."""
        return self.end - self.begin < self.whole

    def meets(self, other: Part) -> bool:
        """Whether both have a byte of every row in common; parts of two kinds always have."""
        apart = self.end <= other.begin or other.end <= self.begin
        return self.root == other.root and not (self.whole == other.whole and apart)


def part_of(program: Program, call: Call, index: int) -> Part:
    """The part of its tensor that argument `index` of a call has by rows."""
    arg, rowwise = call.tensor(index), call.by_rows
    root, offset = program.base(arg.tensor)
    width, pitch = rowwise.strip
    if width and arg.access is Access.WRITE:
        return Part(root, arg.offset, arg.offset + width, pitch, 0)
    tensor = program.tensors[arg.tensor]
    planes = next((p for p in rowwise.planes if p.arg == index), None)
    grain = planes.size * tensor.dtype.nbytes if planes else 0
    return Part(root, offset, offset + tensor.nbytes, program.tensors[root].nbytes, grain)
