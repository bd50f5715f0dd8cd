# SPDX-License-Identifier: Apache-2.0
"""Regular expressions as tables: RE2's syntax, matched against whole UTF-8 strings byte by byte.

`compile_regex` gives a deterministic automaton. Assertions (`^ $ \\b \\B`) look at the byte behind
and the byte ahead, so a state remembers what was behind and steps out of an assertion only when the
byte ahead is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aot.errors import UnsupportedError

Ranges = tuple[tuple[int, int], ...]
"""Code points, as pairs (first, last) in order."""

#: The last code point of Unicode.
LAST = 0x10FFFF
#: The tables of larger automata would fill the flash of a board, and take long to make.
MOST_STATES, MOST_REPEATS = 4000, 1000
#: Brackets within brackets; a reader that recurses has a limit of its own, far above it.
MOST_NESTED = 100
DIGITS: Ranges = ((48, 57),)
WORDS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACES: Ranges = ((9, 10), (12, 13), (32, 32))
CLASSES = {"d": DIGITS, "w": WORDS, "s": SPACES}
CONTROLS = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
BEGIN, END, BORDER, INSIDE = "^", "$", "b", "B"
WORD_BYTES = frozenset(b for low, high in WORDS for b in range(low, high + 1))


@dataclass(frozen=True, slots=True)
class Automaton:
    """From `state`, byte b leads to `table[state, classes[b]]`; it begins in 0, state 1 is a trap.

    `accepts[state]` says whether a string that ends there matches. Of a pattern that is searched
    within texts, state 2 begins behind a byte of a word and 3 behind another one, and `accepts` has
    three columns: at the end of the text, before a byte of a word, before another one.
    """

    classes: np.ndarray[tuple[int], np.dtype[np.uint8]]
    table: np.ndarray[tuple[int, int], np.dtype[np.uint16]]
    accepts: np.ndarray[Any, np.dtype[np.uint8]]

    def matches(self, text: bytes) -> bool:
        """Whether the whole text matches."""
        state = 0
        for byte in text:
            state = int(self.table[state, self.classes[byte]])
        return bool(self.accepts[state])

    @property
    def apart(self) -> bool:
        """Whether no match, the longest of its place, can be followed by another one at once."""
        ends = np.max(self.accepts, axis=1) > 0
        follows = ends[self.table] | np.all(self.table[[0, 2, 3]] == 1, axis=0)
        return bool(follows[ends].all())


@dataclass
class _Net:
    """The automaton of choices: bytes that may follow a state, and steps that read nothing."""

    edges: list[list[tuple[int, int, int]]] = field(default_factory=list)
    free: list[list[tuple[str, int]]] = field(default_factory=list)

    def state(self) -> int:
        """The number of a new state without steps; UnsupportedError beyond a number of edges."""
        if len(self.edges) > 20 * MOST_STATES:
            raise UnsupportedError("the pattern is too large")
        self.edges.append([])
        self.free.append([])
        return len(self.edges) - 1


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of a pattern: kind, and its parts, ranges or bounds."""

    kind: str
    parts: tuple[_Node, ...] = ()
    ranges: Ranges = ()
    low: int = 0
    high: int = 0


class _Reader:
    """Reads a pattern. Raises UnsupportedError for what RE2 has and this has not, or is wrong."""

    def __init__(self, text: str, lines: bool = False) -> None:
        """Read the pattern `text` from its start; with `lines` a dot matches the end of a line."""
        self.text, self.at = text, 0
        self.dot: Ranges = ((0, LAST),) if lines else inverted(((10, 10),))
        self.depth = 0

    def fail(self, why: str) -> UnsupportedError:
        return UnsupportedError(f"the pattern {self.text[:60]!r}: {why} (at {self.at})")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        """The next character, read; an error at the end."""
        if self.at >= len(self.text):
            raise self.fail("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def skip(self, text: str) -> bool:
        """Whether `text` comes next; it is then read."""
        there = self.text.startswith(text, self.at)
        self.at += len(text) if there else 0
        return there

    def choice(self) -> _Node:
        """Alternatives between "|"."""
        parts = [self.row()]
        while self.skip("|"):
            parts.append(self.row())
        return parts[0] if len(parts) == 1 else _Node("choice", tuple(parts))

    def row(self) -> _Node:
        """A concatenation: all items before the next `|`, `)` or the end."""
        parts: list[_Node] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated(self.atom()))
        return _Node("row", tuple(parts))

    def repeated(self, node: _Node) -> _Node:
        """`node` with the repetitions that follow it."""
        while True:
            bounds = self.bounds()
            if bounds is None:
                return node
            self.skip("?")  # lazy: what matches as a whole is the same
            if self.peek() == "+":
                raise self.fail("possessive repetition")
            node = _Node("repeat", (node,), (), *bounds)

    def bounds(self) -> tuple[int, int] | None:
        """(least, most) of a repetition that comes next, -1 for no limit; None if there is none."""
        for sign, least, most in (("*", 0, -1), ("+", 1, -1), ("?", 0, 1)):
            if self.skip(sign):
                return least, most
        if self.peek() != "{":
            return None
        inner, closed, _ = self.text[self.at + 1 :].partition("}")
        first, comma, last = inner.partition(",")
        if not closed or not first.isdecimal() or (last and not last.isdecimal()):
            return None  # a brace like any other character
        self.at += len(inner) + 2
        if max(len(first), len(last)) > len(str(MOST_REPEATS)):  # int() refuses thousands of digits
            raise self.fail(f"repetition {{{inner[:20]}}}")
        low = int(first)
        high = int(last) if last else -1 if comma else low
        if max(low, high) > MOST_REPEATS or (0 <= high < low):
            raise self.fail(f"repetition {{{inner}}}")
        return low, high

    def atom(self) -> _Node:
        """One character, class, group or assertion."""
        c = self.take()
        if c == "(":
            # Nested brackets are nested calls here: this limit is reached before Python's own.
            if self.depth == MOST_NESTED:
                raise self.fail(f"brackets nest deeper than {MOST_NESTED}")
            self.depth += 1
            inner = self.group()
            self.depth -= 1
            return inner
        if c == "[":
            return _Node("set", (), self.bracket())
        if c == ".":
            return _Node("set", (), self.dot)
        if c in (BEGIN, END):
            return _Node(c)
        if c == "\\":
            return self.escaped()
        if c in "*+?":
            raise self.fail(f"nothing to repeat before {c!r}")
        return _Node("set", (), ((ord(c), ord(c)),))

    def group(self) -> _Node:
        """The pattern in brackets, the first of which is read; what it captures does not matter."""
        if self.skip("?P<") or self.skip("?<"):
            if self.peek() in ("=", "!"):
                raise self.fail("looking behind")
            while self.take() != ">":
                pass
        elif self.peek() == "?" and not self.skip("?:"):
            raise self.fail("flags and looking ahead")
        inner = self.choice()
        if not self.skip(")"):
            raise self.fail("a group is not closed")
        return inner

    def escaped(self) -> _Node:
        """The node of an escape outside of a class; its backslash is read."""
        c = self.peek()
        if c in ("b", "B"):
            self.at += 1
            return _Node(c)
        if c in ("A", "z"):
            self.at += 1
            return _Node(BEGIN if c == "A" else END)
        return _Node("set", (), self.escape())

    def escape(self) -> Ranges:
        """The characters that an escape stands for, as ranges of code points."""
        c = self.take()
        if c.lower() in CLASSES:
            found = CLASSES[c.lower()]
            return found if c.islower() else inverted(found)
        if c == "x":
            if self.skip("{"):
                digits, _, rest = self.text[self.at :].partition("}")
                self.at = len(self.text) - len(rest)
            else:
                digits = self.take() + self.take()
            try:
                code = int(digits, 16)
            except ValueError:
                raise self.fail(f"\\x{digits}") from None
            return ((code, code),)
        # A letter with a meaning that is not known here must not be taken for itself.
        if c.isalnum() and c not in CONTROLS:
            raise self.fail(f"\\{c}")
        code = CONTROLS.get(c, ord(c))
        return ((code, code),)

    def bracket(self) -> Ranges:
        """The characters of a class in brackets, the first of which is read, as ranges of code
        points.
        """
        negative = self.skip("^")
        found: list[tuple[int, int]] = []
        first = True
        # Right behind the opening, "]" is a character of the class.
        while first or self.peek() != "]":
            first = False
            if self.text.startswith("[:", self.at):
                raise self.fail("named classes")
            one = self.member()
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                other = self.member()
                if len(one) > 1 or len(other) > 1 or other[0][1] < one[0][0]:
                    raise self.fail("a range of a class")
                one = ((one[0][0], other[0][1]),)
            found += one
        self.take()
        return inverted(merged(found)) if negative else merged(found)

    def member(self) -> Ranges:
        """One character or escape of a class, as ranges of code points."""
        c = self.take()
        return self.escape() if c == "\\" else ((ord(c), ord(c)),)


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The ranges in order, none touching the next."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def inverted(ranges: Ranges) -> Ranges:
    """Every other code point."""
    found, start = [], 0
    for low, high in ranges:
        if start < low:
            found.append((start, low - 1))
        start = high + 1
    return (*found, (start, LAST)) if start <= LAST else tuple(found)


def encoded(low: int, high: int) -> Iterator[list[tuple[int, int]]]:
    """The UTF-8 strings of code points low … high, as rows of byte ranges."""
    for top in (0x7F, 0x7FF, 0xFFFF):
        if low <= top < high:
            yield from encoded(low, top)
            yield from encoded(top + 1, high)
            return
    if low <= 0xDFFF and high >= 0xD800:  # surrogates have no UTF-8
        if low < 0xD800:
            yield from encoded(low, 0xD7FF)
        if high > 0xDFFF:
            yield from encoded(0xE000, high)
        return
    for bits in (6, 12, 18):
        mask = (1 << bits) - 1
        if high > 0x7F and low >> bits != high >> bits:
            if low & mask:
                yield from encoded(low, low | mask)
                yield from encoded((low | mask) + 1, high)
                return
            if high & mask != mask:
                yield from encoded(low, (high & ~mask) - 1)
                yield from encoded(high & ~mask, high)
                return
    yield list(zip(chr(low).encode(), chr(high).encode(), strict=True))


def _build(net: _Net, node: _Node, start: int) -> int:
    """Add `node` to the net behind state `start`; the state behind it."""
    if node.kind == "set":
        end = net.state()
        # Automata read bytes of UTF-8, so a range of characters becomes rows of ranges of bytes.
        for low, high in node.ranges:
            for row in encoded(low, high):
                at = start
                for k, (a, b) in enumerate(row):
                    to = end if k == len(row) - 1 else net.state()
                    net.edges[at].append((a, b, to))
                    at = to
        return end
    if node.kind == "row":
        for part in node.parts:
            start = _build(net, part, start)
        return start
    if node.kind == "choice":
        end = net.state()
        for part in node.parts:
            begin = net.state()
            net.free[start].append(("", begin))
            net.free[_build(net, part, begin)].append(("", end))
        return end
    if node.kind == "repeat":
        return _repeat(net, node, start)
    end = net.state()
    net.free[start].append((node.kind, end))
    return end


def _repeat(net: _Net, node: _Node, start: int) -> int:
    """Add a repetition behind state `start`: its least count in a row, then a loop or optional
    copies.
    """
    (part,) = node.parts
    for _ in range(node.low):
        start = _build(net, part, start)
    if node.high < 0:
        loop, end = net.state(), net.state()
        net.free[start].append(("", loop))
        net.free[loop].append(("", end))
        net.free[_build(net, part, loop)].append(("", loop))
        return end
    end = net.state()
    net.free[start].append(("", end))
    for _ in range(node.high - node.low):
        start = _build(net, part, start)
        net.free[start].append(("", end))
    return end


def _reach(net: _Net, states: frozenset[int], behind: int, ahead: int) -> list[int]:
    """The states that steps without a byte lead to; a byte of −1 is the end of the text."""
    border = (behind in WORD_BYTES) != (ahead in WORD_BYTES)
    holds = {
        "": True,
        BEGIN: behind < 0,
        END: ahead < 0,
        BORDER: border,
        INSIDE: not border,
    }
    found, waiting = set(states), sorted(states)
    while waiting:
        for assertion, to in net.free[waiting.pop()]:
            if holds[assertion] and to not in found:
                found.add(to)
                waiting.append(to)
    return sorted(found)


def between(separators: Sequence[str]) -> str:
    """A pattern for what stands between separators, which are patterns of one character.

    Raises UnsupportedError for others.
    """
    found: list[tuple[int, int]] = []
    for text in separators:
        reader = _Reader(text, lines=True)
        node = reader.choice()
        while len(node.parts) == 1 and (node.kind == "row" or node.low > 0):
            node = node.parts[0]
        if node.kind != "set" or reader.at < len(text):
            raise reader.fail("a separator that is no single character")
        found += node.ranges
    rest = inverted(merged(found))
    codes = "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in rest)
    return f"[{codes}]+" if rest else "a^"


def compile_regex(pattern: str, within: bool = False) -> Automaton:
    """The automaton of a pattern that matches a whole text, or what is `within` one, of which a dot
    then matches every character. Raises UnsupportedError, quoting it.
    """
    reader, net = _Reader(pattern, within), _Net()
    try:
        tree = reader.choice()
        if reader.at < len(pattern):
            raise reader.fail("a bracket that closes nothing")
        final = _build(net, tree, net.state())
    except RecursionError:  # repetitions of repetitions
        raise reader.fail("it nests too deeply") from None
    classes = _byte_classes(net)
    examples = [int(np.argmax(classes == k)) for k in range(int(classes.max()) + 1)]
    # What is behind matters only as: nothing, a word byte, another byte.
    first, trap = (frozenset([0]), -1), (frozenset[int](), 0)
    rows: list[list[int]] = []
    accepts: list[list[bool]] = []
    inner = [(frozenset([0]), ord("a")), (frozenset([0]), 0)] if within else []
    order = [first, trap, *inner]
    numbers = {state: number for number, state in enumerate(order)}
    ends = (-1, ord("a"), 0) if within else (-1,)
    while len(rows) < len(order):
        states, behind = order[len(rows)]
        row = []
        for byte in examples:
            reach = _reach(net, states, behind, byte)
            to = frozenset(t for s in reach for a, b, t in net.edges[s] if a <= byte <= b)
            key = (to, 97 if byte in WORD_BYTES else 0) if to else trap
            if key not in numbers:
                numbers[key] = len(order)
                order.append(key)
            row.append(numbers[key])
        if len(order) > MOST_STATES:
            raise reader.fail(f"more than {MOST_STATES} states")
        rows.append(row)
        accepts.append([final in _reach(net, states, behind, ahead) for ahead in ends])
    table, found = np.array(rows, np.uint16), np.array(accepts, np.uint8)
    return Automaton(classes, table, found if within else found[:, 0])


def _byte_classes(net: _Net) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Bytes that no edge and no assertion tells apart get one number."""
    borders = {0, 256}
    for low, high in [(a, b) for row in net.edges for a, b, _ in row] + list(WORDS):
        borders |= {low, high + 1}
    classes = np.zeros(256, np.uint8)
    for number, (low, high) in enumerate(zip(sorted(borders), sorted(borders)[1:], strict=False)):
        classes[low:high] = number
    return classes
