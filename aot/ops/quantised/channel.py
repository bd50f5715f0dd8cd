# SPDX-License-Identifier: Apache-2.0
"""Products, quotients and sums of quantised values with float constants that differ by channel;
PRelu.

    QuantizeLinear(Add(Mul(DequantizeLinear(x), [C, 1, 1]), [C, 1, 1]))

is what is left of a BatchNormalization that no convolution takes. The bits that float32 gives,
computed on integers (runtime_c/kernels/aot_qchannel.h), the same for all values of `--requant`. A
single constant is a step of a table (qtable.py), constants that are quantised values take
qbinary.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from aot.ir import layout as lay
from aot.ir.dtypes import S8, S16, U8, U16
from aot.ir.graph_nodes import Array
from aot.ops.binary import instances, reusable, space_fields
from aot.ops.broadcast import Shape, collapse, collapses, stored
from aot.ops.quantised.binary import quantised_operand
from aot.ops.quantised.common import quantised, quantised_fields, signed_result
from aot.vendor import Case, Match, Recorder, ValueRef, f32
from aot.vendor.fixed_point import significands
from aot.vendor.layouts import follow
from aot.vendor.pattern import OP, Pat, Var, const, either
from aot.vendor.quantisation import (
    activated,
    all_hold,
    constant_bounds,
    dequantised,
    known,
    quantisation,
)
from aot.vendor.quantised_cases import kind, quantised_case, quantised_values

HEADER = "aot_qchannel.h"
#: M of the kernel.
NONE, MUL, DIV, PRELU = range(4)
#: What a step of x, or an addend, may become at most, in steps of y; bits of multipliers; fraction
#: bits at most.
MOST_STEPS, MULT_BITS, MOST_BITS = 2.0**20, 30, 40
#: Sizes of constants with which float32 neither overflows nor becomes subnormal.
SMALLEST, LARGEST = 2.0**-40, 2.0**40
#: Bytes of the largest table of constants.
MOST_BYTES = 65536

_X, _FACTOR, _ADDEND = dequantised("x"), const(Var("factor")), const(Var("addend"))
FORMS: dict[str, Pat] = {
    "qchannel": OP.Add(either(OP.Mul(_X, _FACTOR), OP.Div(_X, _FACTOR)), _ADDEND),
    "qchannel_mul": OP.Mul(_X, _FACTOR),
    "qchannel_div": OP.Div(_X, _FACTOR),
    "qchannel_add": OP.Add(_X, _ADDEND),
    "qchannel_sub": OP.Sub(_ADDEND, _X),
    "qprelu": OP.PRelu(_X, _FACTOR),
}


@dataclass(frozen=True, slots=True)
class Numbers:
    """The constants of every channel: M and A of the kernel, and the entries of its tables."""

    kind: int
    added: bool
    bits: int
    shape: Shape  # of the constants, broadcast to each other
    words: Array  # int32 [elements of shape, words]


def _kind(m: Match) -> int:
    """The kernel's constant M by the operator of the match: MUL, DIV, PRELU, or NONE."""
    names = {n.op_type for n in m.nodes}
    return next((k for k, name in enumerate(("Mul", "Div", "PRelu"), 1) if name in names), NONE)


def _data(m: Match, name: str) -> Array | None:
    """The constant `name` of the match; None if the pattern has none."""
    value = m.values.get(name)
    return None if value is None else np.asarray(value.data)


def _steps(m: Match) -> tuple[float, Array, Array]:
    """(steps of y per step of x alone, with each factor, every addend in steps of y).

    Without a factor the second is the first; without an addend the third is 0.
    """
    x, y, factor, addend = (
        quantisation(m, "x"),
        quantisation(m, "y"),
        _data(m, "factor"),
        _data(m, "addend"),
    )
    alone = float(x.s) / float(y.s)
    by = np.ones(1) if factor is None else factor.astype(np.float64)
    scaled = alone / by if _kind(m) == DIV else alone * by
    return alone, scaled, (np.zeros(1) if addend is None else addend / np.float64(y.s))


def _usual(data: Array, zeros: bool = True) -> bool:
    """Whether float32 computes with these constants without overflow and subnormal numbers."""
    size = np.abs(data[data != 0].astype(np.float64))
    inside = np.all((size > SMALLEST) & (size < LARGEST))
    return bool(np.all(np.isfinite(data)) and inside and (zeros or size.size == data.size))


def numbers(m: Match) -> Numbers:
    """The constants as the kernel reads them: fixed-point numbers and exact float parts, a row
    each.
    """
    alone, scaled, added = _steps(m)
    kind, addend, factor = _kind(m), _data(m, "addend"), _data(m, "factor")
    largest = max(alone, float(np.abs(scaled).max()), 2.0**-20)
    bits = min(MOST_BITS, MULT_BITS - 1 - math.floor(math.log2(largest)))
    columns: list[Array] = []
    if factor is not None:
        columns += [np.rint(scaled * 2.0**bits).astype(np.int64), *_parts(factor)]
    if addend is not None:
        whole = np.rint(added * 2.0**bits).astype(np.int64)
        columns += [whole & 0xFFFFFFFF, whole >> 32, *_parts(addend)]
    shape = np.broadcast_shapes(*(c.shape for c in columns))
    flat = [np.broadcast_to(c, shape).ravel().astype(np.uint32).view(np.int32) for c in columns]
    return Numbers(kind, addend is not None, bits, shape, np.stack(flat, 1))


def _parts(data: Array) -> tuple[Array, Array]:
    """float32 numbers as significands of 24 bits with their signs, and exponents."""
    fraction, exponent = np.frexp(data.astype(np.float64))
    return np.rint(fraction * 2**24).astype(np.int64), np.where(data == 0, 0, exponent - 24)


def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of types, and of float32 constants that float32 computes with as usual."""
    ready = yield from all_hold(known(m, "x", "y"))
    yield from constant_bounds(m)
    eight = {m.x.dtype, m.y.dtype} <= {S8, U8}
    one = eight or (m.x.dtype is m.y.dtype and m.x.dtype in (S16, U16))
    yield one, f"quantised values of {m.x.dtype} and {m.y.dtype} (needs one type)"
    given = [d for d in (_data(m, "factor"), _data(m, "addend")) if d is not None]
    yield 0 not in m.y.shape, f"an empty tensor {list(m.y.shape)}"
    yield not m.x.is_const, "constants only"
    yield any(d.size > 1 for d in given), "single constants (tables take them)"
    yield all(d.dtype == np.float32 for d in given), "constants of another type than float32"
    for name in ("factor", "addend"):
        data = _data(m, name)
        usual = data is None or _usual(data, zeros=not (_kind(m) == DIV and name == "factor"))
        yield usual, f"a constant {name} that is not finite, 0 or too small or large"
        # What follows computes with the constants, so a bad one ends the checks.
        if not usual:
            return
    if one and ready and 0 not in m.y.shape:
        yield from _fits(m)


def _fits(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that scales and constants fit the fixed point, and the table its largest size."""
    scales = [float(quantisation(m, k).s) for k in "xy"]
    usual = all(SMALLEST < s < LARGEST for s in scales)
    yield usual, f"scales {scales}"
    if not usual:
        return
    largest = max(_steps(m)[0], *(float(np.abs(a).max()) for a in _steps(m)[1:]))
    yield largest < MOST_STEPS, f"scales {scales}: a step or a constant is too large for the result"
    if largest < MOST_STEPS:
        size = numbers(m).words.nbytes
        yield size <= MOST_BYTES, f"constants of {size} bytes (at most {MOST_BYTES})"
        yield from collapses(m.y.shape, [m.x.shape, numbers(m).shape])


def placed(found: Numbers, y: ValueRef) -> tuple[Array, Shape]:
    """(rows of constants in the order in which `y` is stored, the shape that they broadcast
    from).
    """
    index = np.arange(len(found.words)).reshape(found.shape)
    full = index.reshape((1,) * (y.rank - index.ndim) + index.shape)
    if not y.layout.blocked:
        return found.words, full.shape
    if full.shape[1] == 1:
        return found.words, (*full.shape, 1)
    order = lay.to_physical(full, y.layout).ravel()
    return found.words[order], y.layout.physical(full.shape)


def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qchannel with its table of constants; a uint8 result is flipped behind it."""
    found, x, y = numbers(m), quantisation(m, "x").signed(), quantisation(m, "y").signed()
    words, shape = placed(found, m.y)
    source = quantised_operand(c, m.x, m.y)
    space = collapse(stored(m.y), [source[1], shape])
    fields = space_fields(space, "ab")
    params = c.params(
        **fields | {"sb": tuple(s * words.shape[1] for s in fields["sb"])},
        # A significand close to 1 may round to 2**31, which is no int32.
        mult=min(round(_steps(m)[0] * 2.0**found.bits), 2**31 - 1),
        bits=found.bits,
        sign=-1 if any(n.op_type == "Sub" for n in m.nodes) else 1,
        **quantised_fields(m),
        **significands(x.s, y.s),
    )
    with signed_result(c, m.y) as made:
        c.call(
            f"aot_qchannel_{y.dtype.short}",
            made,
            source[0],
            c.const(np.ascontiguousarray(words), "numbers"),
            params,
            instance={**instances(space, "ab"), "M": found.kind, "A": int(found.added)},
            inplace=reusable(space, made, [source]),
            header=HEADER,
        )


# -- cases ------------------------------------------------------------


COLUMN = (f32(5, 1, 1, low=0.5), f32(5, 1, 1, seed=1, low=-0.5, high=0.5))
FORM_CASES = (
    ("int8", COLUMN, -128),
    ("uint8", (COLUMN[0], f32(6, 4, low=-0.5)), 3),
    ("int16", (-COLUMN[0], COLUMN[1]), 30000),
    ("uint16", (f32(4), f32(6, 1)), 100),
)


def _cases(name: str) -> Iterator[Case]:
    """Cases of the form `name` for each type of quantised values, constants as the form has
    them.
    """
    for dtype, (factor, addend), low in FORM_CASES if name == "qchannel" else FORM_CASES[::3]:
        step = 0.02 if dtype.endswith("8") else 1e-4
        x = [quantised_values(2, 5, 6, 4, dtype=dtype), *kind(step, max(low, 0), dtype)]
        given = {"qchannel": [factor, addend], "qchannel_add": [addend], "qchannel_sub": [addend]}
        constants = given.get(name, [factor])
        first = [*constants, *x] if name == "qchannel_sub" else [*x, *constants]
        operands = [*first, *kind(1.7 * step, low, dtype)]
        at = next(i for i, a in enumerate(operands) if a is x[0])
        yield quantised_case(*operands, fed=(at,))


for _name, _form in FORMS.items():
    quantised(
        _name,
        activated(_form),
        supported,
        lower=to_kernel,
        layouts=follow,
        cases=partial(_cases, _name),
        priority=-1,
    )
