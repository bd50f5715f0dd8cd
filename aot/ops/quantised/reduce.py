# SPDX-License-Identifier: Apache-2.0
"""ReduceMean and ReduceSum of quantised values over neighbouring axes: exact sums, requantised.

[before, reduced, after] in memory is what the kernels of averages take as channels last, `after`
being the channels, so these are averages of one window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from aot.ops.quantised.common import (
    quantised,
    quantised_fields,
    signed_input,
    signed_result,
    type_constants,
)
from aot.vendor import S8, U8, Match, Pattern, Recorder
from aot.vendor.cases import Case, i64
from aot.vendor.pattern import OP, Var
from aot.vendor.quantisation import (
    activated,
    all_hold,
    constant_bounds,
    dequantised,
    known,
    quantisation,
)
from aot.vendor.quantised_cases import kind, quantised_case, quantised_values
from aot.vendor.quantised_pool import MOST_POSITIONS
from aot.vendor.requant import TFLITE, multipliers, refusal, rq_of


def _declare(name: str, op_type: str) -> Pattern:
    """Declare the pattern `name` of a reduction of quantised values, with a Relu or Clip or
    without.
    """
    inner = OP.any_of(op_type)(dequantised("x"), Var("axes"), _optional=1, _outputs=["op"])
    return quantised(name, activated(inner), priority=-1)


mean, total = _declare("qmean", "ReduceMean"), _declare("qsum", "ReduceSum")


def _axes(m: Match) -> range | None:
    """The reduced axes as a range; None if they are no neighbours or not constant."""
    given = m.values.get("axes")
    if given is not None and not given.is_const:
        return None
    listed = [] if given is None else np.ravel(np.asarray(given.data)).tolist()
    axes = sorted({int(a) % m.x.rank for a in listed}) or list(range(m.x.rank))
    found = range(axes[0], axes[-1] + 1)
    return found if len(found) == len(axes) else None


def _factor(m: Match) -> np.float32:
    """The factor of a sum of quantised values: 1 / count for a mean, 1 for a sum."""
    axes = _axes(m)
    assert axes is not None
    count = math.prod(m.x.shape[a] for a in axes)
    return np.float32(1.0 / count if m.op.op_type == "ReduceMean" else 1.0)


@mean.check
@total.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the reduced axes are neighbours and their sums fit the accumulator."""
    ready = yield from all_hold(known(m, "x", "y"))
    yield from constant_bounds(m)
    # The mean of nothing is NaN, which no integer stands for.
    empty = m.x.rank == 0 or 0 in m.x.shape
    yield not empty, f"a tensor {list(m.x.shape)}"
    if empty:
        return
    kept = m.values.get("axes") is None and bool(m.op.attr("noop_with_empty_axes", 0))
    yield not kept, "no axes, and noop_with_empty_axes"
    axes = _axes(m)
    yield axes is not None, "axes that are no neighbours, or not constant"
    if axes is None or not ready:
        return
    count, most = math.prod(m.x.shape[a] for a in axes), MOST_POSITIONS[m.x.dtype]
    yield count < most, f"a sum of {count} quantised values (needs less than {most})"
    reason = refusal(
        float(quantisation(m, "x").s), np.array([_factor(m)]), float(quantisation(m, "y").s)
    )
    yield not reason, reason


@mean.lower
@total.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record a ReduceMean or ReduceSum of quantised values as an average pool of one window.

    x is [before, reduced, after]: `n` images of `c` channels last, whose window is all of the
    reduced axes. The multiplier of a mean is that of a sum, divided by their number. 8-bit
    quantised values go to aot_qavgpool_s8, others to aot_qpool_ref. With TFLite's arithmetic and
    equal parameters of x and y a mean is rounded as TFLite rounds it (RQ 3), without a multiplier.
    """
    x, y = quantisation(m, "x").signed(), quantisation(m, "y").signed()
    axes, rq = _axes(m), rq_of(c)
    assert axes is not None
    shape, one, none = m.x.shape, (1, 1, 1), (0, 0, 0)
    extents = (1, 1, math.prod(shape[a] for a in axes))
    params = c.params(
        n=math.prod(shape[: axes.start]),
        c=math.prod(shape[axes.stop :]),
        **{"in": extents},
        out=one,
        k=extents,
        s=one,
        d=one,
        before=none,
        after=none,
        **quantised_fields(m),
    )
    # The one window covers all of the reduced positions: every mean has as many terms.
    instance = {"RQ": rq, "VARY": 0, "PADDED": 0}
    mult: Any = None
    shift: Any = None
    if rq == TFLITE and x.s == y.s and x.z == y.z and m.op.op_type == "ReduceMean":
        instance["RQ"] = 3
    else:
        found = multipliers(float(x.s), np.array([_factor(m)]), float(y.s), rq)
        mult = c.const(found[0], "mult")
        shift = None if found[1] is None else c.const(found[1], "shift")
    kernel, types = "aot_qavgpool_s8", {}
    if not {quantisation(m, k).dtype for k in "xy"} <= {S8, U8}:
        kernel, types = "aot_qpool_ref", {"MAX": 0, **type_constants(m)}
    with signed_result(c, m.y) as made:
        c.call(kernel, made, signed_input(c, m.x), mult, shift, params, instance=instance | types)


def _cases(up: float) -> Iterator[Case]:
    """Cases of several types and axes; `up` scales the result's scale."""
    for shape, axes, dtype in (
        ((3, 17), (1,), "int8"),
        ((2, 9, 5), (1,), "uint8"),
        ((2, 3, 4, 5), (1, 2), "int16"),
        ((4, 3, 5), (0,), "int8"),
    ):
        count = math.prod(shape[a] for a in axes)
        operands = (*kind(0.0311, 7, dtype), i64(*axes))
        result = kind(0.0221 * up * count**0.5, 11, dtype)
        yield quantised_case(quantised_values(*shape, dtype=dtype), *operands, *result)


mean.cases(partial(_cases, 0.4))
total.cases(partial(_cases, 1.3))
