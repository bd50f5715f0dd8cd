# SPDX-License-Identifier: Apache-2.0
"""Chains of elementwise operators on 16-bit codes: a table of pieces, or a rescaling.

Where the parts of a quadratic function give the codes of float32, but for one in 2048 that is one
off, a piece holds its three numbers; elsewhere (at a bend, say) it lists the codes. The size of the
pieces is the one with the smallest table. The same for all values of `--requant`, but for a
rescaling of int16 codes without zero points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import S16, U16
from aot.ops.broadcast import stored
from aot.ops.quantised.common import quantised
from aot.ops.quantised.table import LONGEST, link, only_constants, real_values
from aot.vendor.cases import Case, case
from aot.vendor.codes import CODE_TYPES, Array, codes, dequantised, known
from aot.vendor.layouts import follow
from aot.vendor.match import Match
from aot.vendor.pattern import repeat
from aot.vendor.quantised_cases import codes_of, scale, zero
from aot.vendor.recorder import Recorder

LITERAL = -(2**31)  # AOT_QTABLE16_LITERAL
#: Fraction bits of a piece's first number, and of the others.
FIRST_BITS, BITS = 14, 30
#: log2 of the codes of a piece; one in SHARE codes may be one off; bytes of the largest table.
SIZES, SHARE, LARGEST = range(4, 14), 2048, 69632

table = quantised("qtable16", repeat(link, dequantised("x"), 0, LONGEST), priority=-2)


@dataclass(frozen=True, slots=True)
class Pieces:
    """A table: pieces of 2^bits codes, int32 [pieces, 3], and the codes that are listed."""

    bits: int
    numbers: Array
    literal: Array

    @property
    def nbytes(self) -> int:
        """Of both tables."""
        return int(self.numbers.nbytes + self.literal.nbytes)


def codes_from(scaled: Array, zero_point: int, limits: tuple[int, int]) -> Array:
    """Saturated codes (int64) of values in steps of the result."""
    whole = np.rint(np.clip(np.nan_to_num(scaled, nan=0.0), -(2.0**20), 2.0**20))
    limited: Array = np.clip(whole.astype(np.int64) + zero_point, *limits)
    return limited


def fitted(real: Array, want: Array, bits: int) -> tuple[Array, Array]:
    """Numbers of every piece by least squares (int64 [pieces, 3]), and the codes they give."""
    d = np.arange(1 << bits, dtype=np.float64)
    powers = np.stack([np.ones_like(d), d, d * d])
    parts = real.reshape(-1, 1 << bits) @ np.linalg.pinv(powers)
    units = [2.0**FIRST_BITS, 2.0**BITS, 2.0**BITS]
    parts[:, 0] += 0.5
    top = 2.0**31 - 1
    numbers = np.rint(np.clip(parts * units, -top, top)).astype(np.int64)
    total: Array = (numbers * np.array([1 << (BITS - FIRST_BITS), 1, 1])) @ powers.astype(np.int64)
    return numbers, (total >> BITS).reshape(want.shape)


def pieces_of(real: Array, want: Array, bits: int, dtype: Any) -> Pieces:
    """The table with pieces of 2^bits codes; those whose codes would be wrong are listed."""
    numbers, found = fitted(real, want, bits)
    ends = np.iinfo(dtype)  # beside its last code is none: there the sum would wrap around
    fits = (found >= ends.min) & (found <= ends.max)
    off = np.where(fits, np.abs(found - want), 2).reshape(-1, 1 << bits)
    wrong = (off > 0).sum(1)
    budget = want.size // SHARE
    order = np.argsort(wrong, kind="stable")
    kept = np.zeros(len(wrong), bool)
    kept[order] = np.cumsum(wrong[order]) <= budget
    listed = np.flatnonzero(~kept | (off.max(1) > 1))
    numbers[listed, 0] = np.arange(len(listed)) << bits
    numbers[listed, 1], numbers[listed, 2] = LITERAL, 0
    literal = want.reshape(-1, 1 << bits)[listed].ravel().astype(dtype)
    return Pieces(bits, numbers.astype(np.int32), literal)


def smallest(real: Array, want: Array, dtype: Any) -> Pieces:
    """The smallest table for these values and codes, lowest code first."""
    top = min(max(SIZES), want.size.bit_length() - 1)
    sizes = [k for k in SIZES if k <= top]
    return min((pieces_of(real, want, k, dtype) for k in sizes), key=lambda t: t.nbytes)


def made(m: Match) -> Pieces | None:
    """The table; None where a node has no known value."""
    x, y = codes(m, "x"), codes(m, "y")
    low, high = x.range
    own = np.arange(low, high + 1)
    result = real_values(m, (own - x.z).astype(np.float32) * x.s)
    if result is None or result.size != own.size:
        return None
    with np.errstate(all="ignore"):
        scaled = result.reshape(-1).astype(np.float32) / y.s
    want = codes_from(scaled, y.z, y.range)
    bottom, top = (end - y.z for end in y.range)
    smooth = np.clip(np.nan_to_num(scaled.astype(np.float64), nan=0.0), bottom - 0.4, top + 0.4)
    return smallest(smooth + y.z, want, y.dtype.numpy)


@table.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    asked = list(known(m, "x", "y"))
    yield from asked
    wide = m.x.dtype in (S16, U16) or m.y.dtype in (S16, U16)
    yield wide, f"codes of {m.x.dtype} and {m.y.dtype} (needs 16 bits)"
    yield m.x.shape == m.y.shape, f"{list(m.x.shape)} becomes {list(m.y.shape)}"
    yield only_constants(m), "an operand that is computed at run time"
    if not (wide and only_constants(m) and all(ok for ok, _ in asked)):
        return
    found = made(m)
    yield found is not None, "an operator whose values are not known at compile time"
    size = found.nbytes if found else 0
    yield size <= LARGEST, f"a table of {size} bytes (at most {LARGEST})"


table.layouts(follow)


@table.lower
def to_kernel(c: Recorder, m: Match) -> None:
    found = made(m)
    assert found is not None
    literal = found.literal if found.literal.size else np.zeros(1, found.literal.dtype)
    params = c.params(n=math.prod(stored(m.y)), low=codes(m, "x").range[0], bits=found.bits)
    c.call(
        "aot_qtable16",
        m.y,
        m.x,
        c.const(found.numbers, "pieces"),
        c.const(literal, "literal"),
        params,
        instance={"XT": CODE_TYPES.index(m.x.dtype), "YT": CODE_TYPES.index(m.y.dtype)},
        inplace=[(m.y, m.x)] if m.x.dtype.nbytes == m.y.dtype.nbytes else (),
    )


@table.cases
def cases() -> Iterator[Case]:
    for dtype, made_of in (("int16", "uint16"), ("uint16", "int8"), ("int8", "uint16")):
        x, operands = codes_of(2, 5, 6, 70, dtype=dtype), (scale(0.0005), zero(3, dtype))
        yield case(x, *operands, scale(0.00037), zero(9, made_of), const=(1, 2, 3, 4))
