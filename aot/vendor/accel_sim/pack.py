# SPDX-License-Identifier: Apache-2.0
"""Compression of weights: blocks of 32 codes, each with the shorter of Rice codes and raw bytes.

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
RAW, ZEROS = 7, 8
#: A Rice code has at most this many ones.
MAX_ONES = 255

Array = np.ndarray[Any, Any]


def _folded(block: Array) -> Array:
    wide = block.astype(np.int64)
    return np.where(wide >= 0, 2 * wide, -2 * wide - 1)


def pack(weights: bytes) -> bytes:
    """The compressed form of int8 codes."""
    codes = np.frombuffer(weights, np.int8)
    value, count, out = 0, 0, bytearray()

    def put(v: int, bits: int) -> None:
        nonlocal value, count
        value |= v << count
        count += bits
        whole = count // 8
        if whole:
            out.extend((value & ((1 << 8 * whole) - 1)).to_bytes(whole, "little"))
            value >>= 8 * whole
            count -= 8 * whole

    for at in range(0, len(codes), BLOCK):
        block = codes[at : at + BLOCK]
        folded = _folded(block)
        sizes = [int((folded >> k).sum()) + len(block) * (k + 1) for k in range(7)]
        sizes.append(8 * len(block))
        best = int(np.argmin(sizes))
        if not block.any():
            put(ZEROS, 4)
            continue
        put(best, 4)
        for raw, v in zip(block.view(np.uint8).tolist(), folded.tolist(), strict=True):
            if best == RAW:
                put(raw, 8)
            else:
                ones = v >> best
                put((1 << ones) - 1, ones + 1)
                put(v & ((1 << best) - 1), best)
    if count:
        out.append(value)
    return bytes(out)


class _Bits:
    """A reader of bits; raises StreamError at the end."""

    def __init__(self, data: bytes) -> None:
        self.bits: list[int] = np.unpackbits(
            np.frombuffer(data, np.uint8), bitorder="little"
        ).tolist()
        self.at = 0

    @property
    def left(self) -> int:
        """Bits not yet taken."""
        return len(self.bits) - self.at

    def take(self, count: int) -> int:
        """The next bits."""
        if self.left < count:
            raise StreamError(Fault.PACKED, "compressed weights end too early")
        found = sum(bit << n for n, bit in enumerate(self.bits[self.at : self.at + count]))
        self.at += count
        return found

    def ones(self) -> int:
        """How many ones come before the next zero, which is taken too."""
        count = 0
        while self.take(1):
            count += 1
            if count > MAX_ONES:
                raise StreamError(Fault.PACKED, f"a code of more than {MAX_ONES} ones")
        return count


def _block(bits: _Bits, n: int) -> list[int] | None:
    """The codes of a block, None if all are zero."""
    kind = bits.take(4)
    if kind > ZEROS:
        raise StreamError(Fault.PACKED, f"a block of kind {kind}")
    if kind == ZEROS:
        return None
    if kind == RAW:
        return [v - ((v >> 7) << 8) for v in (bits.take(8) for _ in range(n))]
    codes = [(bits.ones() << kind) | bits.take(kind) for _ in range(n)]
    if max(codes) > 255:
        raise StreamError(Fault.PACKED, f"a code of {max(codes)}")
    return [-(v >> 1) - 1 if v & 1 else v >> 1 for v in codes]


@lru_cache(maxsize=256)
def _blocks(data: bytes, size: int) -> tuple[bytes, int]:
    bits, zeros = _Bits(data), 0
    out = np.zeros(size, np.int8)
    for at in range(0, size, BLOCK):
        n = min(BLOCK, size - at)
        codes = _block(bits, n)
        if codes is None:
            zeros += 1
        else:
            out[at : at + n] = codes
    if bits.left >= 8:
        raise StreamError(Fault.PACKED, f"{bits.left // 8} bytes behind the last block")
    return out.tobytes(), zeros


def unpack(data: bytes, size: int) -> bytes:
    """`size` int8 codes; raises StreamError if `data` are not exactly these."""
    return _blocks(bytes(data), size)[0]


def zero_blocks(data: bytes, size: int) -> int:
    """Blocks of zeros among `size` codes."""
    return _blocks(bytes(data), size)[1]
