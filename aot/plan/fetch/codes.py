# SPDX-License-Identifier: Apache-2.0
"""Streams of codes: the bytes that runtime_c/kernels/aot_unpack.h reads, from arrays.

An element is an integer of 1, 2 or 4 bytes. Its upper bits become a canonical Huffman code of at
most LONGEST bits, its lower bits follow as they are: so a table has few symbols where neighbouring
values are about equally frequent, as weights are. Where many elements in a row are zero, one symbol
stands for RUN of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from aot.ir.graph_nodes import Array

#: As in aot_unpack.h.
LONGEST, RUN, MOST_LOW = 11, 16, 24
#: Symbols of a code whose codes have four bits each.
FLAT = 16
#: Upper bits of an element, at most, that have a symbol: int8.
SYMBOL_BITS = 8
#: Elements without lower bits are decoded faster: in a hurry others must be smaller by this share.
FASTER = 0.03
#: Bytes of elements of four bits each, to the shortest stream, up to which a hurry prefers them:
#: they are decoded three times as fast.
MUCH_FASTER = 1.4
#: The largest constant that is tried, in bytes: larger ones take long to encode.
MOST_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Stream:
    """A constant as a stream: its bytes, and what the reader is told besides.

    `size` are the bytes of an element, `longest` the bits of the longest code, `low` the bits
    behind it, `runs` whether the last symbol is a run of zeros.
    """

    data: Array
    size: int
    longest: int
    low: int
    runs: bool

    @property
    def flat(self) -> bool:
        """Whether an element is four bits, two in a byte."""
        lengths = [FLAT - 1, *[0x44] * (FLAT // 2)]
        return (self.size, self.low, self.runs) == (1, 0, False) and lengths == [*self.data[3:12]]

    @property
    def slow(self) -> bool:
        """Whether elements are decoded one by one."""
        return self.runs or self.size > 1

    @property
    def table(self) -> int:
        """Bytes of the reader's table."""
        return 2 << self.longest


@dataclass(frozen=True, slots=True)
class _Way:
    """Symbols (number of each, in order of the elements), what follows them, and their lengths."""

    symbols: Array
    raw: Array
    lengths: Array
    base: int
    low: int
    runs: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the whole stream."""
        bits = int(self.lengths[self.symbols].sum()) + self.low * int((self.raw >= 0).sum())
        return 4 + (len(self.lengths) + 1) // 2 + (bits + 7) // 8


def encode(data: Array, hurry: bool) -> Stream | None:
    """The shortest stream of the array's elements; None for elements of another size, or too many.

    Elements of floats are taken as the integers that have their bits. In a `hurry` a stream that is
    decoded faster may be longer: weights of four bits stay such, unless most are equal.
    """
    size = data.dtype.itemsize
    if size not in (1, 2, 4) or not 0 < data.nbytes <= MOST_BYTES:
        return None
    values = np.ravel(data).view(f"i{size}").astype(np.int64)
    ways = list(_ways(values, 8 * size))
    best = min(ways, key=lambda w: w.nbytes * (1 + FASTER * (hurry and (w.low > 0 or w.runs))))
    base = int(values.min())
    if hurry and size == 1 and int(values.max()) - base < FLAT:
        none, lengths = np.zeros_like(values), np.full(FLAT, 4)
        flat = _Way(values - base, none, lengths, base, 0, runs=False)
        best = flat if flat.nbytes <= MUCH_FASTER * best.nbytes else best
    return _written(best, size)


def _ways(values: Array, bits: int) -> Iterator[_Way]:
    """Every way to cut elements of so many bits into symbols and lower bits."""
    least = max(0, bits - SYMBOL_BITS)
    for low in range(least, min(bits - 1, MOST_LOW) + 1):
        upper = values >> low
        base = int(upper.min())
        yield _way(upper - base, values & ((1 << low) - 1), base, low, runs=False)
        if low == least and 2 * int((values == 0).sum()) > len(values):
            yield from _with_runs(values, low)


def _with_runs(values: Array, low: int) -> Iterator[_Way]:
    """The way in which RUN zeros in a row are one symbol, behind the others."""
    zero = np.concatenate([[False], values == 0, [False]])
    edges = np.flatnonzero(np.diff(zero.astype(np.int8)))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    counts = lengths // RUN
    heads = np.repeat(starts, counts) + RUN * _ranges(counts)
    drop = np.zeros(len(values), bool)
    drop[(heads[:, None] + np.arange(1, RUN)).ravel()] = True
    upper = values >> low
    base = int(upper.min())
    symbols, raw = upper - base, values & ((1 << low) - 1)
    last = int(symbols.max()) + 1
    if last < 1 << SYMBOL_BITS and len(heads):
        symbols[heads], raw[heads] = last, -1
        yield _way(symbols[~drop], raw[~drop], base, low, runs=True)


def _ranges(counts: Array) -> Array:
    """0 to n - 1 for each n of `counts`, one behind the other."""
    ends = np.cumsum(counts)
    return np.asarray(np.arange(counts.sum()) - np.repeat(ends - counts, counts))


def _way(symbols: Array, raw: Array, base: int, low: int, runs: bool) -> _Way:
    lengths = code_lengths(np.bincount(symbols))
    return _Way(symbols, raw, lengths, base, low, runs)


def code_lengths(counts: Array, longest: int = LONGEST) -> Array:
    """The lengths in bits, at most `longest`, of the best prefix code for symbols so frequent.

    Symbols that do not occur have length 0, a symbol that is alone 1 (package-merge: of the
    cheapest pairs of cheapest pairs …, so many levels deep, each that holds a symbol makes its code
    a bit longer).
    """
    used = np.flatnonzero(counts)
    lengths = np.zeros(len(counts), np.int64)
    if len(used) == 1:
        lengths[used] = 1
        return lengths
    leaves = [(int(counts[s]), (int(s),)) for s in used]
    level: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(longest):
        pairs = zip(level[::2], level[1::2], strict=False)
        level = sorted([*leaves, *((a + b, s + t) for (a, s), (b, t) in pairs)])
    held = [s for _, group in level[: 2 * len(used) - 2] for s in group]
    return np.bincount(held, minlength=len(counts))


def codes(lengths: Array) -> Array:
    """The canonical code of each symbol: in the order of lengths, then of symbols."""
    found = np.zeros(len(lengths), np.int64)
    code = last = 0
    for symbol in sorted(np.flatnonzero(lengths), key=lambda s: (lengths[s], s)):
        code <<= int(lengths[symbol]) - last
        last = int(lengths[symbol])
        found[symbol] = code
        code += 1
    return found


def _written(way: _Way, size: int) -> Stream:
    """The stream of a way: head, code lengths, codes with the lower bits behind each."""
    longest, symbols = int(way.lengths.max()), way.symbols
    head = [longest, way.low, way.base & 255, len(way.lengths) - 1]
    nibbles = np.append(way.lengths, 0)[: (len(way.lengths) + 1) // 2 * 2].reshape(-1, 2)
    low = np.where(way.raw >= 0, way.low, 0)
    values = codes(way.lengths)[symbols] << low | np.maximum(way.raw, 0)
    bits = _bits(values, way.lengths[symbols] + low)
    parts = [np.array(head), nibbles[:, 0] | nibbles[:, 1] << 4, np.packbits(bits)]
    data = np.concatenate([p.astype(np.uint8) for p in parts])
    return Stream(data, size, longest, way.low, way.runs)


def _bits(values: Array, lengths: Array) -> Array:
    """The lowest so many bits of each value, the highest first, one value behind the other."""
    ends = np.cumsum(lengths)
    made = np.zeros(int(ends[-1]), np.uint8)
    for bit in range(int(lengths.max())):
        there = lengths > bit
        made[ends[there] - 1 - bit] = values[there] >> bit & 1
    return made
