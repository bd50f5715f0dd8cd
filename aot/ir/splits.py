# SPDX-License-Identifier: Apache-2.0
"""How the work of a call is cut into parts that threads make at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

#: Elements that parts of an elementwise kernel are a multiple of.
ELEMENTS = 256


@dataclass(frozen=True, slots=True)
class PartField:
    """A member of the parameters whose value differs from part to part.

    A part makes units `first` to `end` - 1 of the result. The member (its element `index`, -1: the
    member itself) is the part's first unit, its end, or the number of its units, each unit of
    `scale` elements; `total` elements are all there are (0: the last unit is a whole one). With
    "one" it is 1 in every part. A member that is the "line" of a part says that units are in lines
    of `total` units: then units are counted from the line's first one, "past" is the line behind,
    and with "less" the member becomes less by the part's first unit.
    """

    member: str
    value: Literal["first", "end", "count", "one", "line", "past", "less"]
    index: int = -1
    scale: int = 1
    total: int = 0


#: What tells a kernel that it makes rows `first` to `end` - 1 of the result.
ROWS = PartField("y0", "first"), PartField("y1", "end")


@dataclass(frozen=True, slots=True)
class Split:
    """A call makes `units` units of its result; parts of several make them at once, in any order.

    A part begins at a multiple of `tile` units and gives the bits that the whole call gives there.
    `moves` are (argument, bytes): the address moves by so many bytes per unit, and a part touches
    its own units of the argument only. So it does of the arguments `own`, whose addresses stay.
    All other arguments are read as a whole, but for scratch, of which every part has its own.
    With lines of units a part begins and ends in one line, and addresses move with the units of the
    line, but those of the arguments `along` with all units.
    """

    units: int
    fields: tuple[PartField, ...]
    moves: tuple[tuple[int, int], ...] = ()
    own: tuple[int, ...] = ()
    tile: int = 1
    along: tuple[int, ...] = ()

    @property
    def line(self) -> int:
        """The units of a line, 0 without lines."""
        return next((f.total for f in self.fields if f.value == "line"), 0)

    @classmethod
    def rows(cls, count: int, *own: int, tile: int = 1) -> Split:
        """By rows `y0` to `y1` - 1 of the result, argument 0; of arguments `own` likewise."""
        return cls(count, ROWS, (), (0, *own), tile)

    @classmethod
    def pieces(
        cls, member: str, count: int, moves: Sequence[tuple[int, int]], size: int = 1, tile: int = 1
    ) -> Split:
        """By units of `size` elements of the `count` elements that the parameter `member` says."""
        field = PartField(member, "count", scale=size, total=count)
        return cls(-(-count // size), (field,), tuple(moves), (), tile)

    @classmethod
    def rows_of_product(cls, rows: int, moves: Sequence[tuple[int, int]], tile: int) -> Split:
        """By rows `m` of a product of matrices, about `tile` at a time.

        Kernels sum a single row in another order than one of several, so no part is a row alone.
        """
        even = next((n for n in range(tile, 2 * tile) if rows % n != 1), rows)
        return cls.pieces("m", rows, moves, tile=even)

    def in_rows(self, rows: int) -> Split:
        """The same in each of so many `rows` of the result: its units are a line of every row."""
        row = PartField("y0", "line", total=self.units), PartField("y1", "past")
        return replace(self, units=self.units * rows, fields=(*self.fields, *row))

    @classmethod
    def elements(cls, count: int, *nbytes: int) -> tuple[Split, ...]:
        """By `count` elements `n`, whose sizes in bytes are given for the arguments from 0 on.

        Parts are whole vectors of any target, but for the last one.
        """
        return (cls.pieces("n", count, list(enumerate(nbytes)), tile=ELEMENTS),)

    def share(self, parts: int) -> float:
        """The share of the units that the largest of `parts` parts makes, from 0 to 1."""
        tiles = -(-self.units // self.tile)
        most = min(self.units, -(-tiles // parts) * self.tile)
        return most / self.units if self.units else 1.0

    def without(self, inplace: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """The pairs (written, read) of `inplace` that parts may share whatever their order is."""
        return tuple(pair for pair in inplace if self.alone(*pair))

    def alone(self, written: int, read: int) -> bool:
        """Whether every part reads of argument `read` just the units of `written` that it makes."""
        moves = dict(self.moves)
        moved = written in moves and moves.get(written) == moves.get(read)
        moved &= (written in self.along) == (read in self.along)
        return moved or (written in self.own and read in self.own)

    def text(self) -> str:
        """`split 56 units by 4: y0=first y1=end, 0+4096`."""
        fields = [f"{f.member}{[f.index] if f.index >= 0 else ''}={f.value}" for f in self.fields]
        moved = [f"{arg}+{step}" for arg, step in self.moves]
        by = f" by {self.tile}" if self.tile > 1 else ""
        by += f" in lines of {self.line}" if self.line else ""
        return f"split {self.units} units{by}: {' '.join(fields)}" + "".join(
            f", {m}" for m in moved
        )
