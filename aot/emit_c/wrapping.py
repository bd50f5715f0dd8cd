# SPDX-License-Identifier: Apache-2.0
"""Line breaks of emitted C where clang-format puts them, with the style that bundles carry.

clang-format gives every break a price and takes the cheapest breaks. The C that is emitted has few
forms, so that their prices are all there is to compare: a break behind a comma costs less than one
behind the parenthesis, and both cost more the deeper they are nested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: The longest line, in columns (ColumnLimit of the style).
COLUMNS = 100
#: Columns that a line which goes on is indented further (ContinuationIndentWidth).
DEEPER = 4
#: Prices: of a level of nesting, a comma, the parenthesis of a call and of a declaration.
_LEVEL, _COMMA, _CALL, _DECLARATION = 20, 1, 19, 100
#: Price of a break behind an assignment, behind the type of a function, and of a second level.
_ASSIGNMENT, _TYPE, _AGAIN = 22, 80, 15


@dataclass(frozen=True, slots=True)
class Broken:
    """Lines of text and what their breaks cost."""

    cost: int
    lines: tuple[str, ...]


def call(head: str, items: Sequence[str], tail: str = ";", indent: int = 4) -> str:
    """A call or declaration `head(items)tail` that begins `indent` columns from the left.

    `tail` ends in " {" for the definition of a function.
    """
    first = _DECLARATION if indent == 0 else _CALL
    found = list(_calls(" " * indent + head, items, tail, indent + DEEPER, 2, first))
    if indent == 0 and not head.startswith("AOT_HIDDEN"):  # a macro that it knows as no type
        type_, _, name = head.rpartition(" ")
        alone = _calls(name, items, tail, DEEPER, 2, first)
        found += [Broken(b.cost + _TYPE + _again(b), (type_, *b.lines)) for b in alone]
    return "\n".join(min(found, key=lambda b: b.cost).lines)


def nested(
    macro: str, before: Sequence[str], head: str, items: Sequence[str], indent: int = 4
) -> str:
    """`macro(before, head(items));` that begins `indent` columns from the left."""
    opening = " " * indent + macro + "("
    deeper = " " * (indent + DEEPER)
    given = "".join(f"{b}, " for b in before)
    own = len(opening + given) if before else indent
    found = list(_calls(f"{opening}{given}{head}", items, ");", own + DEEPER, 3, _CALL))
    if before:
        found += _below(f"{opening}{given.rstrip()}", " " * len(opening) + head, items, _COMMA)
    found += _below(opening, f"{deeper}{given}{head}", items, _CALL)
    return "\n".join(min(found, key=lambda b: b.cost).lines)


def _below(above: str, head: str, items: Sequence[str], price: int) -> Iterator[Broken]:
    """The ways to write `head(items));` on a line of its own, below the line `above`."""
    column = len(head) - len(head.lstrip()) + DEEPER
    for b in _calls(head, items, ");", column, 3, _CALL):
        yield Broken(b.cost + 2 * _LEVEL + price + _again(b), (above, *b.lines))


def assigned(name: str, head: str, items: Sequence[str], indent: int) -> str:
    """`name = head(items);` that begins `indent` columns from the left."""
    start = " " * indent + f"{name} ="
    found = list(_calls(f"{start} {head}", items, ";", indent + DEEPER, 2, _CALL))
    after = _calls(" " * (indent + DEEPER) + head, items, ";", indent + 2 * DEEPER, 2, _CALL)
    found += [Broken(b.cost + _ASSIGNMENT, (start, *b.lines)) for b in after]
    return "\n".join(min(found, key=lambda b: b.cost).lines)


def _again(below: Broken) -> int:
    """What lines below a line of their own cost more if they are broken, too."""
    return _AGAIN if len(below.lines) > 1 else 0


def _calls(
    head: str, items: Sequence[str], tail: str, deeper: int, level: int, first: int
) -> Iterator[Broken]:
    """The ways to write `head(items)tail`; `deeper` is the column behind a broken parenthesis."""
    comma = level * _LEVEL + _COMMA
    aligned = fill(f"{head}(", items, len(head) + 1, len(tail) + 1)
    yield Broken(_over(aligned, tail) + comma * (len(aligned) - 1), _closed(aligned, tail))
    if items:
        broken = fill(" " * deeper, items, deeper, len(tail) + 1)
        cost = _over((f"{head}(", *broken), tail) + level * _LEVEL + first
        yield Broken(cost + comma * (len(broken) - 1), (f"{head}(", *_closed(broken, tail)))


def _closed(lines: Sequence[str], tail: str) -> tuple[str, ...]:
    return (*lines[:-1], f"{lines[-1]}){tail}")


def _over(lines: Sequence[str], tail: str) -> int:
    """The price of columns beyond the last one."""
    over = [len(line) - COLUMNS for line in _closed(lines, tail)]
    return 1_000_000 * sum(max(0, n) for n in over)


def fill(start: str, items: Sequence[str], column: int, tail: int) -> tuple[str, ...]:
    """`items` with commas behind `start`, in lines that begin at `column`.

    The last line leaves `tail` columns free.
    """
    lines, line = [], start
    fresh = True
    for k, item in enumerate(items):
        last = k == len(items) - 1
        piece = item + ("" if last else ",")
        room = COLUMNS - (tail if last else 0)
        if not fresh and len(line) + 1 + len(piece) > room:
            lines.append(line)
            line, fresh = " " * column, True
        line += piece if fresh else f" {piece}"
        fresh = False
    return (*lines, line)
