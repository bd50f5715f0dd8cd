# SPDX-License-Identifier: Apache-2.0
"""Compression of weights: blocks of 32 values, each with the shorter of Rice codes and raw bytes.

Bits are taken from the lowest of every byte up. A block begins with four bits: k from 0 to 6 says
that Rice codes follow (v >= 0 is 2 v, v < 0 is -2 v - 1; the number above its k low bits in ones, a
zero, then the k low bits), 7 that eight bits each follow, 8 that all are zero. The last block may
be shorter. The stream ends with the last block, filled with zeros to a whole byte.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from aot.vendor.accel_sim.encode import StreamError
from aot.vendor.accel_sim.kinds import Fault

BLOCK = 32
#: Kinds of a block behind those of Rice codes with 0 to 6 low bits.
RAW, ZEROS = 7, 8
#: A Rice code has at most this many ones.
MAX_ONES = 255

Array = np.ndarray[Any, Any]


def _blocks_of(weights: bytes) -> tuple[Array, Array, Array]:
    """(values folded to numbers >= 0, which of them exist, kind of every block), a row per block.

    The kind is the one with fewest bits; the last block is filled with values that do not exist.
    """
    values: Array = np.frombuffer(weights, np.int8).astype(np.int64)
    count = -(-len(values) // BLOCK)
    folded: Array = np.zeros(count * BLOCK, np.int64)
    folded[: len(values)] = np.where(values >= 0, 2 * values, -2 * values - 1)
    there: Array = np.arange(count * BLOCK) < len(values)
    folded, there = folded.reshape(-1, BLOCK), there.reshape(-1, BLOCK)
    lengths = there.sum(axis=1)
    sizes = [(folded >> k).sum(axis=1) + lengths * (k + 1) for k in range(RAW)]
    kinds = np.argmin(np.stack([*sizes, 8 * lengths]), axis=0)
    return folded, there, np.where(folded.any(axis=1), kinds, ZEROS)


def _layout(folded: Array, there: Array, kinds: Array) -> tuple[Array, Array, Array]:
    """(first bit of every block, first bit of every code, bits of every block) of the stream."""
    kind = kinds[:, None]
    bits = np.where(kind == RAW, 8, (folded >> kind) + kind + 1)
    bits = np.where(there & (kind != ZEROS), bits, 0)
    lengths = 4 + bits.sum(axis=1)
    starts = np.cumsum(lengths) - lengths
    codes = starts[:, None] + 4 + np.cumsum(bits, axis=1) - bits
    return starts, codes, lengths


def packed_size(weights: bytes) -> tuple[int, int]:
    """(bytes of the compressed form, blocks of zeros in it), without making it."""
    folded, there, kinds = _blocks_of(weights)
    total = int(_layout(folded, there, kinds)[2].sum())
    return -(-total // 8), int((kinds == ZEROS).sum())


def pack(weights: bytes) -> bytes:
    """The bytes of `weights` (int8) compressed: per block its kind in 4 bits, then its values.

    `unpack` is the inverse. All bits are placed at once: `codes` are the first bits of the values
    by block, and a kind writes the values of all its blocks.
    """
    folded, there, kinds = _blocks_of(weights)
    starts, codes, lengths = _layout(folded, there, kinds)
    out = np.zeros(int(lengths.sum()), np.uint8)
    # One pass for each bit, not for each value: a network has millions of weights.
    for n in range(4):
        out[starts + n] = kinds >> n & 1
    raw = there & (kinds == RAW)[:, None]
    code = np.where(folded & 1, -(folded >> 1) - 1, folded >> 1) & 255
    for n in range(8):
        out[codes[raw] + n] = code[raw] >> n & 1
    for k in range(RAW):
        rice = there & (kinds == k)[:, None]
        ones = folded[rice] >> k
        first = np.cumsum(ones) - ones
        out[np.repeat(codes[rice] - first, ones) + np.arange(int(ones.sum()))] = 1
        for n in range(k):
            out[codes[rice] + ones + 1 + n] = folded[rice] >> n & 1
    return np.packbits(out, bitorder="little").tobytes()


class _Bits:
    """A reader of bits; raises StreamError at the end.

    At every position it knows where the next zero is and the next eight bits as a number.
    """

    def __init__(self, data: bytes) -> None:
        """Read `data` from its first bit; for every bit the position of the next zero is computed
        at once.
        """
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        self.size = len(bits)
        zeros = np.where(bits == 0, np.arange(self.size), self.size)
        self.zero: list[int] = np.minimum.accumulate(zeros[::-1])[::-1].tolist() + [self.size]
        long = np.concatenate([bits, np.zeros(8, np.uint8)]).astype(np.uint16)
        eight = sum(long[n : n + self.size + 1] << n for n in range(8))
        self.eight: list[int] = np.asarray(eight).tolist()
        self.at = 0

    @property
    def left(self) -> int:
        """Bits not yet taken."""
        return self.size - self.at

    def take(self, count: int) -> int:
        """The next `count` bits, at most eight, as a number; StreamError beyond the end."""
        found = self.eight[min(self.at, self.size)] & ((1 << count) - 1)
        self.at += count
        self._check()
        return found

    def rice(self, k: int, count: int) -> list[int]:
        """The next `count` numbers: ones up to a zero, then k bits.

        Raises StreamError for more ones than a number has, or beyond the end.
        """
        at, zero, eight, mask, found = self.at, self.zero, self.eight, (1 << k) - 1, list[int]()
        for _ in range(count):
            end = zero[min(at, self.size)]
            if end - at > MAX_ONES:
                raise StreamError(Fault.PACKED, f"a code of more than {MAX_ONES} ones")
            found.append((end - at) << k | (eight[min(end + 1, self.size)] & mask))
            at = end + 1 + k
        self.at = at
        self._check()
        return found

    def _check(self) -> None:
        """Raise StreamError if more bits were taken than there are."""
        if self.at > self.size:
            raise StreamError(Fault.PACKED, "compressed weights end too early")


def _block(bits: _Bits, n: int) -> list[int] | None:
    """The `n` int8 values of the next block; None if all are zero. StreamError for an invalid
    block.
    """
    kind = bits.take(4)
    if kind > ZEROS:
        raise StreamError(Fault.PACKED, f"a block of kind {kind}")
    if kind == ZEROS:
        return None
    if kind == RAW:
        return [v - ((v >> 7) << 8) for v in (bits.take(8) for _ in range(n))]
    values = bits.rice(kind, n)
    if max(values) > 255:
        raise StreamError(Fault.PACKED, f"a code of {max(values)}")
    return [-(v >> 1) - 1 if v & 1 else v >> 1 for v in values]


@lru_cache(maxsize=2048)
def _blocks(data: bytes, size: int) -> tuple[bytes, int]:
    """(the `size` int8 values as bytes, number of blocks of zeros) of compressed `data`.

    StreamError if the data end early or go on behind the last block.
    """
    bits, zeros = _Bits(data), 0
    out = np.zeros(size, np.int8)
    for at in range(0, size, BLOCK):
        n = min(BLOCK, size - at)
        values = _block(bits, n)
        if values is None:
            zeros += 1
        else:
            out[at : at + n] = values
    if bits.left >= 8:
        raise StreamError(Fault.PACKED, f"{bits.left // 8} bytes behind the last block")
    return out.tobytes(), zeros


def unpack(data: bytes, size: int) -> bytes:
    """`size` int8 values; raises StreamError if `data` are not exactly these."""
    return _blocks(bytes(data), size)[0]


def zero_blocks(data: bytes, size: int) -> int:
    """The number of blocks of zeros among the `size` values that `data` are compressed to.

    StreamError if `data` are not exactly these.
    """
    return _blocks(bytes(data), size)[1]
