# SPDX-License-Identifier: Apache-2.0
"""What a call needs to make one row of its result, and the order in which rows are made.

A row is all that lies at one position of the height axis. Where channels are stored last a row is
one piece of a whole tensor; with planes of channels it has a piece in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: The region of calls in a segment: no vendor's, and not of calls that are made as a whole.
STREAMED = -2


@dataclass(frozen=True, slots=True)
class Window:
    """Argument `arg` of a call is read through a window of rows.

    Row r of the result needs rows first(r) + i * dilation of it, i < taps, of those that exist:
    the window may leave the image, of `height` rows, above and below. first(r) is
    (r * stride - before) / per, rounded down.
    """

    arg: int
    height: int
    taps: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    per: int = 1

    @property
    def span(self) -> int:
        """Rows from the first to the last one of a window."""
        return (self.taps - 1) * self.dilation + 1

    def first(self, row: int) -> int:
        """The first row of the window of row `row`, which may be outside."""
        return (row * self.stride - self.before) // self.per

    def rows(self, row: int) -> tuple[int, ...]:
        """The rows that exist in the window of row `row`."""
        first = self.first(row)
        found = (first + i * self.dilation for i in range(self.taps))
        return tuple(r for r in found if 0 <= r < self.height)

    def text(self) -> str:
        """`1[3 rows of 32, step 2, 1 above]`."""
        far = f" {self.dilation} apart" if self.dilation > 1 else ""
        rows = f"{self.taps} rows of {self.height}{far}"
        if self.per > 1:
            return (
                f"{self.arg}[{rows}, step {self.stride}/{self.per}, {self.before}/{self.per} above]"
            )
        return f"{self.arg}[{rows}, step {self.stride}, {self.before} above]"


@dataclass(frozen=True, slots=True)
class Planes:
    """A row of argument `arg` has `count` pieces of `size` elements, one in each plane.

    In a row with a place of its own the pieces follow each other. The kernel's parameter `member`
    is the distance of two pieces in elements: `size` there, a plane in a whole tensor. With member
    "" the kernel knows no planes: it is called for each piece, or where all pieces follow each
    other for all of them. An argument that rows need as a whole has `size` elements for each piece.
    """

    arg: int
    count: int
    size: int
    member: str


@dataclass(frozen=True, slots=True)
class Rowwise:
    """How a call makes its result row by row: by the same kernel on an image of few rows.

    Row r of the result, of `height`, is made by a call whose image is the part of `window` that
    exists, given as a table of pointers to rows. Arguments in `single`, the result first, are given
    row r alone. `fields` are the parameters that tell this (member of the struct, index in it or
    -1, value): "rows" is how many rows the image has, "above" how many of the window are above it,
    "one" is 1, for the rows of the result; "row" is r and "next" r + 1, for kernels that are given
    a range of rows; "top" is the first row of the image, "piece" how many elements the pieces
    have that it is given at a time, "pieces" how many these are; digits are a number. `planes` are
    the arguments whose rows have several pieces.
    Arguments in `whole` are read as a whole at every row. A `kernel` is a function for one row of
    its own; before the parameters it is given r and the number of steps. With `sums` it takes row r
    of the argument that `window` names and makes the result with the last one; before r it is
    given `sums` bytes that are its own from the first row to the last. A step makes `batch` rows,
    which follow each other in memory, the first one `lead` less and the last one what is left; the
    kernel is faster with `most` rows than with fewer. `cost` is the time of all rows to that of the
    whole result where memory is as fast for both, 0 where that is not known. With `strip` =
    (n, pitch) the result is a part of a tensor: n of every `pitch` bytes, from the offset of
    argument 0 on. With `together` the kernel gets no table: the rows of its image follow each
    other, copied where they do not, to memory that is the last argument of a call in a segment,
    not of the kernel.
    """

    height: int
    single: tuple[int, ...]
    window: Window | None = None
    fields: tuple[tuple[str, int, str], ...] = ()
    sums: int = 0
    kernel: str = ""
    whole: tuple[int, ...] = ()
    planes: tuple[Planes, ...] = ()
    batch: int = 1
    lead: int = 0
    most: int = 1
    cost: float = 0.0
    strip: tuple[int, int] = (0, 0)
    together: bool = False

    @property
    def copies(self) -> bool:
        """Whether a call in a segment has memory for the rows of its image."""
        return self.together and self.span > 1

    @property
    def steps(self) -> int:
        """How often the call is made."""
        rows = self.window.height if self.sums and self.window else self.height
        return -(-(rows + self.lead) // self.batch)

    def made(self, step: int) -> range:
        """The rows that step `step` makes, of a call without sums."""
        first = step * self.batch - self.lead
        return range(max(first, 0), min(first + self.batch, self.height))

    @property
    def span(self) -> int:
        """Rows from the first to the last one that a step reads of its window."""
        window = self.window
        return window.span + (self.batch - 1) * window.stride if window else 0

    def pieces(self, arg: int) -> int:
        """How many pieces a row of argument `arg` has in a whole tensor."""
        return next((p.count for p in self.planes if p.arg == arg), 1)

    def text(self) -> str:
        """`32 rows of 0 from 1[3 rows of 32, step 1, 1 above]`."""
        singles = " ".join(map(str, self.single))
        through = f" from {self.window.text()}" if self.window else ""
        through += f" and all of {' '.join(map(str, self.whole))}" if self.whole else ""
        own = f" by {self.kernel}" if self.kernel else ""
        own += f" {self.batch} at a time" if self.batch > 1 else ""
        own += f", first {self.batch - self.lead}" if self.lead else ""
        own += " together" if self.together else ""
        return f"{self.steps} rows of {singles}{through}{own}" + (
            f" with {self.sums} bytes" if self.sums else ""
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """Calls `first` to `last` of a program run row by row.

    `steps` are the calls (numbers in the program) in the order in which they make their next row;
    `tensors` exist as rows only, each with a place of its own, among them the scratch memory of
    the calls, of which every step has a piece.
    """

    first: int
    last: int
    steps: tuple[int, ...]
    tensors: tuple[str, ...]

    def text(self) -> str:
        """The calls and the steps; runs of one call as `2*3`."""
        runs: list[tuple[int, int]] = []
        for step in self.steps:
            count = runs.pop()[1] if runs and runs[-1][0] == step else 0
            runs.append((step, count + 1))
        told = " ".join(f"{s}*{n}" if n > 1 else str(s) for s, n in runs)
        return f"rows {self.first}..{self.last} of {', '.join(self.tensors)}: {told}"


#: Tensor → where each of its rows is.
RowPlaces = Mapping[str, tuple[int, ...]]
