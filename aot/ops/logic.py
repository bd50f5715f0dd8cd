# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logic of booleans, and Where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import (
    BOOL,
    F32,
    DType,
)
from aot.ir.graph_nodes import Array, shape_of
from aot.ir.operators import Commutative, Elementwise, Moves
from aot.load.encode_strings import Strings, encodes
from aot.ops.binary import combine_pair, instances, reusable, same_type, space_fields
from aot.ops.broadcast import collapse, operand, stored
from aot.ops.kernels import NUMBERS
from aot.ops.registry import op
from aot.ops.unary import SPECIAL, edges
from aot.shapes.dynamic.rules import BOOL_TYPE, INT32_TYPE, needed
from aot.shapes.evaluate import elementwise, evaluates, need
from aot.shapes.interval_analysis import (
    Inputs as Bounded,
    Interval,
    Rule as BoundsRule,
    bounds,
    given,
    rising,
)
from aot.shapes.symbolic import Poly, Terms, polynomials
from aot.vendor import Match, Recorder
from aot.vendor.cases import Case, case, f32, ints
from aot.vendor.layouts import follow

TRUTH = np.array([[True, False], [True, True]])
ORDERED = NUMBERS
EQUATABLE = (*NUMBERS, BOOL)


def compared(surely: Callable[[Interval, Interval], tuple[Array, Array]]) -> BoundsRule:
    """An interval rule of a comparison, whose result is 0, 1, or anything between where it is open.

    `surely` gives two bool arrays: where the comparison holds for all numbers within the intervals
    of its operands, and where for none.
    """

    def rule(node: ir.Node, inputs: Bounded) -> Interval | None:
        """The interval of the comparison's results as numbers 0 and 1; None if an operand is
        unknown.
        """
        found = given(inputs)
        if found is None:
            return None
        yes, no = surely(*found)
        return Interval(yes.astype(np.float64), (~no).astype(np.float64))

    return rule


def surely_less(a: Interval, b: Interval) -> tuple[Array, Array]:
    """(where a < b for all numbers within the intervals, where for none), two bool arrays."""
    return a.high < b.low, a.low >= b.high


def surely_less_or_equal(a: Interval, b: Interval) -> tuple[Array, Array]:
    """(where a <= b for all numbers within the intervals, where for none), two bool arrays."""
    return a.high <= b.low, a.low > b.high


def surely_equal(a: Interval, b: Interval) -> tuple[Array, Array]:
    """(where a = b for all numbers within the intervals, where for none), two bool arrays."""
    alone = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
    return alone, (a.high < b.low) | (a.low > b.high)


def to_kernel(c: Recorder, m: Match, kernel: str) -> None:
    """Record the kernel on operands a and b, broadcast to y; a bool result may replace a bool
    operand.
    """
    combine_pair(c, m, kernel, wide=m.a.dtype.nbytes == m.y.dtype.nbytes)


def cases(types: tuple[DType, ...]) -> Iterator[Case]:
    """Two operands compared or combined: broadcast, and every pair of special floats."""
    for t in types:
        if t.is_float:
            special = SPECIAL.astype(t.numpy)
            yield case(special[:, None], special)
        elif t is BOOL:
            yield case(TRUTH, np.array([False, True]))
        else:
            yield case(edges(t)[:, None], edges(t))
    if F32 in types:
        yield case(f32(2, 5, 3, 3), f32(1, 5, 1, 1), const=(1,))


_greater, _least = (lambda a, b: surely_less(b, a)), (lambda a, b: surely_less_or_equal(b, a))
for _name, _kernel, _types, _value, _bounds in (
    ("Equal", "equal", EQUATABLE, np.equal, compared(surely_equal)),
    ("Less", "less", ORDERED, np.less, compared(surely_less)),
    ("LessOrEqual", "less_equal", ORDERED, np.less_equal, compared(surely_less_or_equal)),
    ("Greater", "greater", ORDERED, np.greater, compared(_greater)),
    ("GreaterOrEqual", "greater_equal", ORDERED, np.greater_equal, compared(_least)),
    ("And", "and", (BOOL,), np.logical_and, rising(np.minimum)),
    ("Or", "or", (BOOL,), np.logical_or, rising(np.maximum)),
    ("Xor", "xor", (BOOL,), np.logical_xor, None),
):
    op(
        _name,
        "a b",
        traits=[
            Elementwise(),
            *([Commutative()] if _name in ("Equal", "And", "Or", "Xor") else []),
        ],
        rules=[
            evaluates.by(elementwise(_value, np.bool_)),
            *([bounds.by(_bounds)] if _bounds else []),
        ],
        check=partial(same_type, types=_types),
        lower=partial(to_kernel, kernel=_kernel),
        layouts=follow,
        cases=partial(cases, _types),
    )

where = op(
    "Where",
    "cond a b",
    traits=[Elementwise(), Moves("a b", by="choice", bytes_only=True)],
    layouts=follow,
    rules=[evaluates.by(lambda node, inputs: [np.where(*(need(inputs, i) for i in range(3)))])],
)


@bounds("Where")
def where_bounds(node: ir.Node, inputs: Bounded) -> Interval | None:
    """The interval of the operand that is chosen, of both where the condition is open; None if
    unknown.
    """
    found = given(inputs)
    if found is None:
        return None
    condition, yes, no = found
    low, high = np.minimum(yes.low, no.low), np.maximum(yes.high, no.high)
    sure, never = condition.low > 0, condition.high <= 0
    low = np.where(sure, yes.low, np.where(never, no.low, low))
    return Interval(low, np.where(sure, yes.high, np.where(never, no.high, high)))


@polynomials("Where")
def where_polynomials(terms: Terms, node: ir.Node) -> list[Poly] | None:
    """Per element the polynomial of the operand that is chosen; an unknown where the condition is
    open.

    None if nothing is known of the condition.
    """
    condition, yes, no = node.inputs
    shape = shape_of(node.outputs[0])
    limits = terms.limits(condition, shape)
    if limits is None or yes is None or no is None:
        return None
    found = []
    sides = (terms.spread(v, shape) for v in (yes, no))
    for i, (a, b) in enumerate(zip(*sides, strict=True)):
        if a == b or limits[0][i] > 0:
            found.append(a)
        elif limits[1][i] <= 0:
            found.append(b)
        else:
            found.append(terms.atom("value", node.outputs[0], i))
    return found


@where.check
def where_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the condition is bool and both operands have one type."""
    yield m.cond.dtype is BOOL, f"condition of dtype {m.cond.dtype}"
    yield m.a.dtype is m.b.dtype, f"dtypes {m.a.dtype} and {m.b.dtype} (need to be equal)"


@where.lower
def where_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_where for elements of 8 to 64 bits; y may replace an operand but not the
    condition.
    """
    operands = [operand(c, v, m.y) for v in (m.cond, m.a, m.b)]
    space = collapse(stored(m.y), [s for _, s in operands])
    pairs = reusable(space, m.y, operands)
    c.call(
        f"aot_where_{m.y.dtype.nbytes * 8}",
        m.y,
        *(what for what, _ in operands),
        c.params(**space_fields(space, "abc"), lo=0.0, hi=0.0),
        instance=instances(space, "abc"),
        header="aot_where.h",
        inplace=[p for p in pairs if p[1] is not m.cond],
    )


@where.cases
def where_cases() -> Iterator[Case]:
    """Where(condition, X, Y): alike, broadcast."""
    yield case(f32(2, 5, 3) > 0, f32(2, 5, 3, seed=1), f32(2, 5, 3, seed=2))
    yield case(np.array([[[True]]]), np.array(-1, np.float32), f32(1, 7, 9), const=(1,))
    yield case(f32(2, 1, 5) > 0, ints(3, 1), ints(2, 1, 1, seed=1))
    yield case(TRUTH, TRUTH, ~TRUTH)
    yield case(f32(7) > 0, ints(7, dtype="int16"), ints(7, dtype="int16", seed=1))


@encodes("Where")
def choose_strings(s: Strings, node: ir.Node) -> None:
    """Let a Where of encoded strings choose whole strings: its condition gets a last axis of 1.

    Strings are rows of bytes: bool [3] becomes bool [3, 1].
    """
    chooses = needed(node, 0)
    shape = (*shape_of(chooses), 1)
    wide = s.make(node, "Reshape", [chooses, s.ints(node, shape)], BOOL_TYPE, shape)
    s.editor(node).set_input(node, 0, wide)


@encodes("Equal")
def equal_strings(s: Strings, node: ir.Node) -> None:
    """Replace an Equal of encoded strings by: all bytes are equal (Equal, Cast, ReduceMin,
    Cast).
    """
    shape = shape_of(node.outputs[0])
    pair = [needed(node, 0), needed(node, 1)]
    each = s.make(node, "Equal", pair, BOOL_TYPE, (*shape, s.width))
    number = s.make(node, "Cast", [each], INT32_TYPE, (*shape, s.width), {"to": INT32_TYPE})
    last = s.ints(node, [len(shape)])
    least = s.make(node, "ReduceMin", [number, last], INT32_TYPE, shape, {"keepdims": 0})
    s.replace(node, s.make(node, "Cast", [least], BOOL_TYPE, shape, {"to": BOOL_TYPE}))
