# SPDX-License-Identifier: Apache-2.0
"""Mod and BitShift, of integers mostly."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array, attribute, shape_of
from aot.ir.operators import Elementwise, Exact, OneOf
from aot.normalise.halves import jumps
from aot.ops.binary import combine_pair, same_type
from aot.ops.kernels import FLOATS, INTS, NUMBERS, UNSIGNED
from aot.ops.registry import op
from aot.ops.unary import edges
from aot.shapes.evaluate import evaluates, need
from aot.shapes.interval_analysis import (
    Inputs as Bounded,
    Interval,
    bounds,
    given,
)
from aot.shapes.reference import Inputs, Unknown
from aot.vendor import Case, Match, case, f32
from aot.vendor.layouts import follow

modulo = op(
    "Mod",
    "a b",
    traits=[Elementwise()],
    fmod=0,
    layouts=follow,
    check=lambda m: same_type(m, NUMBERS),
    rules=[jumps.by(True)],
    lower=lambda c, m: combine_pair(c, m, "fmod" if m.fmod else "mod"),
)


@bounds("Mod")
def modulo_bounds(node: ir.Node, inputs: Bounded) -> Interval | None:
    """The interval of a modulus of integers by positive ones: 0 to the divisor - 1; None
    otherwise.
    """
    found = given(inputs)
    if found is None or not (found[1].low > 0).all() or attribute(node, "fmod", 0):
        return None
    high = np.broadcast_to(found[1].high - 1, shape_of(node.outputs[0]))
    return Interval(np.zeros_like(high), high)


@evaluates("Mod")
def modulo_value(node: ir.Node, inputs: Inputs) -> list[Array]:
    """Mod with NumPy in the type of a; Unknown for integers by 0."""
    a, b = need(inputs, 0), need(inputs, 1)
    if a.dtype.kind in "iu" and np.any(b == 0):
        raise Unknown
    result = np.fmod(a, b) if attribute(node, "fmod", 0) else np.mod(a, b)
    return [result.astype(a.dtype, copy=False)]


@modulo.cases
def modulo_cases() -> Iterator[Case]:
    """Mod(A, B): extreme integers; floats with fmod=1."""
    for t in INTS:
        divisor = np.array([3, 2, 7, 5, 9, 11, 13], t.np_name)
        yield case(edges(t)[:, None], divisor)
        if t not in UNSIGNED:
            yield case(edges(t)[:, None], -divisor)
            yield case(edges(t)[:, None], -divisor, fmod=1)
    for t in FLOATS:
        a, b = f32(3, 7).astype(t.numpy), f32(7, low=-0.7, high=0.3, seed=1).astype(t.numpy)
        yield case(a, b, fmod=1)
        yield case(np.array([1e30, -5.5, 3e-40, 7], t.np_name), np.array(3, t.np_name), fmod=1)


shift = op(
    "BitShift",
    "a b",
    traits=[Elementwise(), Exact()],
    direction=OneOf("LEFT RIGHT", ""),
    layouts=follow,
    lower=lambda c, m: combine_pair(c, m, "shift_left" if m.direction == "LEFT" else "shift_right"),
)


@shift.check
def shift_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the operands are integers of one type and the direction is LEFT or RIGHT."""
    yield from same_type(m, INTS)
    yield m.direction in ("LEFT", "RIGHT"), f"direction {m.direction!r}"


@shift.cases
def shift_cases() -> Iterator[Case]:
    """BitShift(X, Y) of extreme integers in both directions."""
    for t in INTS:
        by = [0, 1, 3, t.bits - 1, t.bits] + ([] if t in UNSIGNED else [-1])
        for direction in ("LEFT", "RIGHT"):
            yield case(edges(t)[:, None], np.array(by, t.np_name), direction=direction)
