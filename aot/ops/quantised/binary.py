# SPDX-License-Identifier: Apache-2.0
"""Add, Sub and Mul of two 8-bit quantised values, with Relu or Clip, broadcast or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aot.normalise.quantised.fold import combines
from aot.ops.binary import instances, reusable, space_fields
from aot.ops.broadcast import Operand, collapse, collapses, operand, pack, stored
from aot.ops.quantised.common import quantised, quantised_fields, signed_input, signed_result
from aot.vendor import S8, U8, Match, Pattern, QuantisedPair, Recorder, ValueRef, activated
from aot.vendor.backend import Cases, Check
from aot.vendor.layouts import follow
from aot.vendor.requant import rq_of

EIGHT = (S8, U8)
HEADER = "aot_qbinary.h"
#: Parameters of its kernels between the loops and the zero points.
NUMBERS = ("a_mult", "b_mult", "y_mult", "a_shift", "b_shift", "y_shift", "offset")


def declare(name: str, op_types: str, *checks: Check, cases: Cases | None = None) -> Pattern:
    """Declare the pattern `name` of operators on two quantised values, with a Relu or Clip or
    without.
    """
    graph = activated(QuantisedPair.pattern(*op_types.split()))
    return quantised(
        name,
        graph,
        lambda m: collapses(m.y.shape, [m.a.shape, m.b.shape]),
        *checks,
        layouts=follow,
        cases=cases,
    )


total = declare("qadd", "Add Sub", QuantisedPair.checks, cases=QuantisedPair.cases)
product = declare("qmul", "Mul", QuantisedPair.checks, cases=QuantisedPair.cases)
combines("Add Sub Mul")(True)


def quantised_operand(c: Recorder, value: ValueRef, y: ValueRef) -> Operand:
    """(what to pass, its stored shape) for an operand broadcast to `y`, as int8 quantised values.

    uint8 constants are converted at compile time, computed ones by a call that is recorded here.
    """
    if value.is_const:
        data = np.asarray(value.data)
        if value.dtype is U8:
            data = (data.astype(np.int16) - 128).astype(np.int8)
        return pack(c, data, y)
    what, shape = operand(c, value, y)
    if value.dtype is not U8:
        return what, shape
    assert isinstance(what, ValueRef)
    return signed_input(c, what), shape


def record(
    c: Recorder, m: Match, kernel: str, header: str, numbers: dict[str, Any], kind: dict[str, int]
) -> None:
    """Record a kernel on the operands `a` and `b` as int8 quantised values.

    `numbers` are the parameters between the loops and the zero points, `kind` the instance
    constants beside those of broadcasting.
    """
    pair = [quantised_operand(c, m.a, m.y), quantised_operand(c, m.b, m.y)]
    sizes = [v.dtype.nbytes for v in (m.y, m.a, m.b)]
    with signed_result(c, m.y) as made:
        numbers = numbers | quantised_fields(m, "ab")
        record_pair(c, m.y, made, pair, kernel, header, numbers, kind, sizes)


def record_pair(
    c: Recorder,
    y: ValueRef,
    made: Any,
    pair: list[Operand],
    kernel: str,
    header: str,
    numbers: dict[str, Any],
    kind: dict[str, int],
    sizes: Sequence[int] = (1, 1, 1),
) -> None:
    """Record a kernel on a pair of operands with their stored shapes, of which `made` becomes y as
    int8 quantised values; `numbers` are all parameters behind the loops, `sizes` the bytes of
    elements of the result and of the pair.
    """
    space = collapse(stored(y), [s for _, s in pair])
    c.call(
        kernel,
        made,
        *(what for what, _ in pair),
        c.params(**space_fields(space, "ab"), **numbers),
        instance={**instances(space, "ab"), **kind},
        inplace=reusable(space, made, pair),
        header=header,
        splits=space.splits(*sizes),
    )


def record_sum(c: Recorder, y: ValueRef, a: Any, b: Any, total: QuantisedPair) -> None:
    """Record aot_qadd_s8 on a and b, int8 quantised values of the shape and layout of y."""
    (kind, fields), (low, high) = total.sum_fields(rq_of(c)), total.limits
    fields |= {"a_zero": total.a.z, "b_zero": total.b.z, "y_zero": total.y.z, "lo": low, "hi": high}
    pair: list[Operand] = [(a, stored(y)), (b, stored(y))]
    record_pair(c, y, y, pair, "aot_qadd_s8", HEADER, fields, {"KIND": kind})


def _record(c: Recorder, m: Match, kernel: str, kind: int, fields: dict[str, int]) -> None:
    """Record a kernel of aot_qbinary.h; the numbers that `fields` leaves out are 0."""
    record(c, m, kernel, HEADER, dict.fromkeys(NUMBERS, 0) | fields, {"KIND": kind})


@total.lower
def total_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qadd_s8 with the constants of the sum in the arithmetic of this compilation."""
    kind, fields = QuantisedPair.of(m).sum_fields(rq_of(c))
    _record(c, m, "aot_qadd_s8", kind, fields)


@product.lower
def product_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qmul_s8 with the multiplier of the product."""
    rq = rq_of(c)
    mult, shift = QuantisedPair.of(m).multipliers(rq)
    fields = {"y_mult": int(mult[0]), "y_shift": 0 if shift is None else int(shift[0])}
    _record(c, m, "aot_qmul_s8", rq, fields)
