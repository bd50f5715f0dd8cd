# SPDX-License-Identifier: Apache-2.0
"""Chains of unary operators between codes, as tables that are made at compile time.

QuantizeLinear(f(g(DequantizeLinear(x)))) for any elementwise f, g without other operands than
single constants; with no operator between, the codes are requantised. Entries are what the nodes
compute in float32: for 8-bit codes one table of 256 codes. With `--requant tflite` a requantisation
of those alone is computed in fixed point.

For 16-bit codes a table has pieces. Where the parts of a quadratic function give the codes of
float32, but for one in 2048 that is one off, a piece holds its three numbers; elsewhere (at a bend,
say) it lists the codes. The size of the pieces is the one with the smallest table.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, U8
from aot.ops.broadcast import stored
from aot.ops.quantised.common import code_types, quantised, some_wide
from aot.shapes.evaluate import Invalid, evaluate
from aot.shapes.reference import Unknown
from aot.vendor.cases import Case
from aot.vendor.codes import Array, Codes, all_hold, codes, dequantised, known
from aot.vendor.fixed_point import multiply
from aot.vendor.layouts import follow
from aot.vendor.match import Match, NodeRef
from aot.vendor.pattern import OP, Pat, const, either, repeat, wildcard
from aot.vendor.quantised_cases import code_case, codes_of, kind
from aot.vendor.recorder import Recorder
from aot.vendor.requant import TFLITE, multipliers, rq_of

UNARY = (
    "Relu Sigmoid Tanh LeakyRelu HardSigmoid HardSwish Swish Elu Selu Celu Gelu Softplus Softsign "
    "Mish ThresholdedRelu Exp Log Sqrt Reciprocal Erf Neg Abs Sin Cos Floor Ceil Round Sign Shrink"
).split()
#: The longest chain taken as one table.
LONGEST = 6
LITERAL = -(2**31)  # AOT_QTABLE16_LITERAL
#: Fraction bits of a piece's first number, and of the others.
FIRST_BITS, BITS = 14, 30
#: log2 of the codes of a piece; one in SHARE codes may be one off; bytes of the largest table.
SIZES, SHARE, LARGEST = range(4, 14), 2048, 69632


def _single(data: Array) -> bool:
    return data.size == 1


def link(v: Pat, i: int) -> Pat:
    """One operator on `v`, alone or with a constant."""
    number = const(wildcard(f"k{i}"), _single)
    return either(
        OP.any_of(*UNARY)(v),
        OP.Clip(v, wildcard(f"low{i}"), wildcard(f"high{i}"), _optional=2),
        OP.any_of("Add", "Mul", "Min", "Max")(v, number),
        OP.any_of("Sub", "Div", "Pow", "PRelu")(v, number),
        OP.any_of("Sub", "Div")(number, v),
    )


_CHAIN = repeat(link, dequantised("x"), 0, LONGEST)
table = quantised("qtable", _CHAIN, priority=-2)
pieced = quantised("qtable16", _CHAIN, priority=-2)
table.layouts(follow)
pieced.layouts(follow)


def entries(m: Match, rq: int) -> Array | None:
    """The table, indexed by the code's bits as uint8; None where a node has no known value."""
    x, y = codes(m, "x"), codes(m, "y")
    own = np.arange(256).astype(np.uint8).view(m.x.dtype.numpy)
    if not chain_of(m) and rq == TFLITE:
        return _requantised(own, x, y)
    result = real_values(m, (own.astype(np.int32) - x.z).astype(np.float32) * x.s)
    if result is None or result.size != 256:
        return None
    return codes_from(in_steps(result, y), y).astype(m.y.dtype.numpy)


def in_steps(result: Array, y: Codes) -> Array:
    """Results in steps of `y`, in float32 [elements]."""
    with np.errstate(all="ignore"):
        return np.asarray(result.reshape(-1).astype(np.float32) / y.s)


def codes_from(scaled: Array, y: Codes) -> Array:
    """Saturated codes (int64) of values in steps of `y`."""
    whole = np.rint(np.clip(np.nan_to_num(scaled, nan=0.0), -(2.0**20), 2.0**20))
    return np.asarray(np.clip(whole.astype(np.int64) + y.z, *y.range))


def _requantised(own: Array, x: Codes, y: Codes) -> Array:
    """TFLite's requantisation of every code."""
    mult, shift = multipliers(float(x.s), np.ones(1, np.float32), float(y.s), TFLITE)
    assert shift is not None
    whole = multiply(own.astype(np.int64) - x.z, int(mult[0]), int(shift[0])) + y.z
    limited: Array = np.clip(whole, *y.range)
    return limited.astype(y.dtype.numpy)


def chain_of(m: Match) -> list[NodeRef]:
    """The nodes between the codes, first to last."""
    return [n for n in reversed(m.nodes)][1:-1]


def real_values(m: Match, values: Array) -> Array | None:
    """What the chain makes of these inputs; None where a node has no known value."""
    return run_chain(chain_of(m), m.x_dq, values)


def run_chain(chain: Sequence[NodeRef], first: NodeRef, values: Array) -> Array | None:
    """What the nodes of `chain` make of these results of `first`; None if that is not known."""
    known_values: dict[int, Array] = {id(first.ir.outputs[0]): values}
    for node in chain:
        inputs: list[Array | None] = []
        for value in node.ir.inputs:
            if value is None:
                inputs.append(None)
            elif id(value) in known_values:
                inputs.append(known_values[id(value)])
            else:
                assert value.const_value is not None
                inputs.append(value.const_value.numpy())
        try:
            values = evaluate(node.ir, inputs)[0]
        except (Invalid, Unknown):
            return None
        known_values[id(node.ir.outputs[0])] = values
    return values


@table.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    ready = yield from all_hold(known(m, "x", "y", types=(S8, U8)))
    if (yield from _fits(m)) and ready:
        yield entries(m, 0) is not None, "an operator whose values are not known at compile time"


def _fits(m: Match) -> Generator[tuple[bool, str], None, bool]:
    """Checks of the chain; returns whether everything but the codes is constant."""
    yield m.x.shape == m.y.shape, f"{list(m.x.shape)} becomes {list(m.y.shape)}"
    constant = all(v.is_const for name, v in m.inputs() if name != "x")
    yield constant, "an operand that is computed at run time"
    return constant


@table.lower
def to_kernel(c: Recorder, m: Match) -> None:
    data = entries(m, rq_of(c))
    assert data is not None
    params = c.params(n=math.prod(stored(m.y)))
    c.call("aot_qtable", m.y, m.x, c.const(data, "table"), params, inplace=[(m.y, m.x)])


# -- 16-bit codes ------------------------------------------------------------------------


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
    scaled = in_steps(result, y)
    bottom, top = (end - y.z for end in y.range)
    smooth = np.clip(np.nan_to_num(scaled.astype(np.float64), nan=0.0), bottom - 0.4, top + 0.4)
    return smallest(smooth + y.z, codes_from(scaled, y), y.dtype.numpy)


@pieced.check
def pieces_supported(m: Match) -> Iterator[tuple[bool, str]]:
    asked = (*known(m, "x", "y"), *some_wide(m))
    ready = yield from all_hold(asked)
    if (yield from _fits(m)) and ready:
        found = made(m)
        yield found is not None, "an operator whose values are not known at compile time"
        size = found.nbytes if found else 0
        yield size <= LARGEST, f"a table of {size} bytes (at most {LARGEST})"


@pieced.lower
def to_pieces(c: Recorder, m: Match) -> None:
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
        instance=code_types(m),
        inplace=[(m.y, m.x)] if m.x.dtype.nbytes == m.y.dtype.nbytes else (),
    )


# -- cases -------------------------------------------------------------------------------


@table.cases
def cases() -> Iterator[Case]:
    yield code_case(codes_of(2, 5, 6, 7), *kind(0.05, 3), *kind(0.02, -9))
    unsigned = codes_of(3, 40, dtype="uint8")
    yield code_case(unsigned, *kind(0.05, 3, "uint8"), *kind(0.1, -9))


@pieced.cases
def pieced_cases() -> Iterator[Case]:
    for dtype, made_of in (("int16", "uint16"), ("uint16", "int8"), ("int8", "uint16")):
        x = codes_of(2, 5, 6, 70, dtype=dtype)
        yield code_case(x, *kind(0.0005, 3, dtype), *kind(0.00037, 9, made_of))
