# SPDX-License-Identifier: Apache-2.0
"""Chains of unary operators between quantised values, as tables that are made at compile time.

QuantizeLinear(f(g(DequantizeLinear(x)))) for any elementwise f, g without other operands than
single constants; with no operator between, the quantised values are requantised. Entries are what
the nodes compute in float32: for 8-bit quantised values one table of 256 quantised values. With
`--requant tflite` a requantisation of those alone is computed in fixed point.

For 16-bit quantised values a table has pieces. Where the parts of a quadratic function give the
quantised values of float32, but for one in 2048 that is one off, a piece holds its three numbers;
elsewhere (at a bend, say) it lists the quantised values. The size of the pieces is the one with the
smallest table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ir.splits import Split
from aot.ops.broadcast import stored
from aot.ops.quantised.common import quantised, some_wide, type_constants
from aot.vendor import Case, Match, Recorder
from aot.vendor.layouts import follow
from aot.vendor.quantisation import all_hold, known, quantisation
from aot.vendor.quantised_cases import kind, quantised_case, quantised_values
from aot.vendor.quantised_table import (
    QuantisedTable,
    chain_fits,
    in_steps,
    quantised_from,
    real_values,
)
from aot.vendor.requant import rq_of

LITERAL = -(2**31)  # AOT_QTABLE16_LITERAL
#: Fraction bits of a piece's first number, and of the others.
FIRST_BITS, BITS = 14, 30
#: log2 of the quantised values of a piece; one in SHARE quantised values may be one off; bytes of
#: the largest table.
SIZES, SHARE, LARGEST = range(4, 14), 2048, 69632


table = quantised(
    "qtable",
    QuantisedTable.pattern(),
    QuantisedTable.checks,
    priority=-2,
    layouts=follow,
    cases=QuantisedTable.cases,
)
pieced = quantised("qtable16", QuantisedTable.pattern(), priority=-2, layouts=follow)


@table.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qtable with its 256 entries; y may take x's place."""
    data = QuantisedTable.of(m, rq_of(c)).entries
    assert data is not None
    size = math.prod(stored(m.y))
    params = c.params(n=size)
    operands, splits = (m.y, m.x, c.const(data, "table"), params), Split.elements(size, 1, 1)
    c.call("aot_qtable", *operands, inplace=[(m.y, m.x)], splits=splits)


# -- 16-bit quantised values
# ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pieces:
    """A table: pieces of 2^bits quantised values, int32 [pieces, 3], and the quantised values that
    are listed."""

    bits: int
    numbers: Array
    literal: Array

    @property
    def nbytes(self) -> int:
        """The bytes of both tables."""
        return int(self.numbers.nbytes + self.literal.nbytes)


def fitted(real: Array, want: Array, bits: int) -> tuple[Array, Array]:
    """(numbers of every piece by least squares, int64 [pieces, 3]; quantised values that they
    give).

    `real` are the results in steps of y, `want` the quantised values, `bits` log2 of a piece's
    length.
    """
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
    """The table with pieces of 2^`bits` quantised values; pieces that would be wrong are listed."""
    numbers, found = fitted(real, want, bits)
    ends = np.iinfo(
        dtype
    )  # beside its last quantised value is none: there the sum would wrap around
    fits = (found >= ends.min) & (found <= ends.max)
    off = np.where(fits, np.abs(found - want), 2).reshape(-1, 1 << bits)
    wrong = (off > 0).sum(1)
    # One quantised value in SHARE may be one off, where float32 itself is close to a half.
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
    """The table with the fewest bytes among all lengths of pieces; lowest quantised value first."""
    top = min(max(SIZES), want.size.bit_length() - 1)
    sizes = [k for k in SIZES if k <= top]
    return min((pieces_of(real, want, k, dtype) for k in sizes), key=lambda t: t.nbytes)


def made(m: Match) -> Pieces | None:
    """The table of a match; None where a node has no value that is known at compile time."""
    x, y = quantisation(m, "x"), quantisation(m, "y")
    low, high = x.range
    own = np.arange(low, high + 1)
    result = real_values(m, (own - x.z).astype(np.float32) * x.s)
    if result is None or result.size != own.size:
        return None
    scaled = in_steps(result, y)
    bottom, top = (end - y.z for end in y.range)
    # Within half a step of the ends, so that what saturates stays at the end after rounding.
    smooth = np.clip(np.nan_to_num(scaled.astype(np.float64), nan=0.0), bottom - 0.4, top + 0.4)
    return smallest(smooth + y.z, quantised_from(scaled, y), y.dtype.numpy)


@pieced.check
def pieces_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that x or y has 16 bits and the table is known and small enough."""
    conditions = (*known(m, "x", "y"), *some_wide(m))
    ready = yield from all_hold(conditions)
    if (yield from chain_fits(m)) and ready:
        found = made(m)
        yield found is not None, "an operator whose values are not known at compile time"
        size = found.nbytes if found else 0
        yield size <= LARGEST, f"a table of {size} bytes (at most {LARGEST})"


@pieced.lower
def to_pieces(c: Recorder, m: Match) -> None:
    """Record aot_qtable16 with its pieces and listed quantised values."""
    found = made(m)
    assert found is not None
    literal = found.literal if found.literal.size else np.zeros(1, found.literal.dtype)
    params = c.params(n=math.prod(stored(m.y)), low=quantisation(m, "x").range[0], bits=found.bits)
    c.call(
        "aot_qtable16",
        m.y,
        m.x,
        c.const(found.numbers, "pieces"),
        c.const(literal, "literal"),
        params,
        instance=type_constants(m),
        inplace=[(m.y, m.x)] if m.x.dtype.nbytes == m.y.dtype.nbytes else (),
    )


# -- cases -------------------------------------------------------------------------------


@pieced.cases
def pieced_cases() -> Iterator[Case]:
    """A function of quantised values, by a table of straight pieces."""
    for dtype, made_of in (("int16", "uint16"), ("uint16", "int8"), ("int8", "uint16")):
        x = quantised_values(2, 5, 6, 70, dtype=dtype)
        yield quantised_case(x, *kind(0.0005, 3, dtype), *kind(0.00037, 9, made_of))
