# SPDX-License-Identifier: Apache-2.0
"""Pooling, sums and products of two operands, Softmax of int8 and int16 quantised values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.vendor import (
    OP,
    TFLITE,
    Case,
    Match,
    QuantisedPair,
    QuantisedPool,
    QuantisedSoftmax,
    Recorder,
    activated,
    case,
    dequantised,
    images,
    quantised,
    quantised_values,
    tflite_layers as shared,
    wildcard,
)
from aot.vendor.cmsis_nn.base import (
    Checks,
    average_bytes,
    declare,
    types,
    wide,
    without_zeros,
)

# -- pooling ------------------------------------------------------------------------------------


def pool_fits(m: Match) -> Checks:
    """Checks of a pool whose result has the scale and zero point of x."""
    return shared.average_fits(m, types(m))


def to_average(c: Recorder, m: Match) -> None:
    """Record the call of an average, with scratch memory as the target's vector unit needs."""
    found = QuantisedPool.of(m)
    size = average_bytes(c.target.simd, m.x.shape[1])
    ends, kernel = (found.window, found.limits), f"aot_cmsis_nn_average{wide(m)}"
    shared.record_pool(c, m, kernel, *ends, [c.scratch(size)], bytes=size)


def to_maximum16(c: Recorder, m: Match) -> None:
    """Record the call of a maximum of int16."""
    found = QuantisedPool.of(m)
    shared.record_pool(c, m, "aot_cmsis_nn_maximum16", found.window, found.limits, bytes=0)


def to_maximum(c: Recorder, m: Match) -> None:
    """Record the call of a MaxPool; no scratch, and limits that are those of int8."""
    window = shared.maximum_window(m)
    shared.record_pool(c, m, "aot_cmsis_nn_maximum", window, (-128, 127), bytes=0)


# -- two operands -------------------------------------------------------------------------------


def pair_fits(m: Match) -> Checks:
    """Checks of a sum or product: one type, three equal shapes."""
    ready = yield from QuantisedPair.checks(m, types(m))
    yield from shared.equal_shapes(m)
    if wide(m) and ready:
        found = QuantisedPair.of(m)
        yield from without_zeros(found.a.z, found.b.z, found.y.z)
        steps = float(found.a.s) * float(found.b.s) / float(found.y.s)
        fits = found.op_type != "Mul" or steps < 1
        ratios = [float(k.s) / float(found.y.s) * 64 for k in (found.a, found.b)]
        exact = all(r.is_integer() for r in ratios) and any(r % 64 for r in ratios)
        # Such halves go to even numbers in ONNX, away from zero here.
        ties = exact and found.op_type == "Add"
        yield not ties, f"scales {found.a.s:g}, {found.b.s:g}, {found.y.s:g}: sums end in a half"
        yield fits, f"a product of one becomes {steps:g} steps of the result (needs less than 1)"


def to_pair(c: Recorder, m: Match) -> None:
    """Record the call of a sum or a product; y may share the memory of either operand."""
    shared.to_pair(c, m, f"aot_cmsis_nn_{m.op.op_type.lower()}{wide(m)}")


# -- Softmax ------------------------------------------------------------------------------------


def softmax_fits(m: Match) -> Checks:
    """Checks of a softmax along the last axis, quantised as TensorFlow Lite does."""
    if wide(m):
        yield from shared.last_axis(m)
        yield from QuantisedSoftmax.wide_checks(m)
    else:
        yield from shared.softmax_fits(m)


def to_softmax(c: Recorder, m: Match) -> None:
    """Record the call of a Softmax of rows, with the fixed-point scale of x; int16 with tables."""
    found = QuantisedSoftmax.wide(m) if wide(m) else QuantisedSoftmax.of(m, TFLITE)
    row = m.x.shape[found.axis]
    params = c.params(rows=math.prod(m.x.shape) // row, size=row, **found.fixed_point)
    tables = [c.const(t, "table") for t in getattr(found, "tables", ())]
    c.call(f"aot_cmsis_nn_softmax{wide(m)}", m.y, m.x, *tables, params, status=True)


# -- cases --------------------------------------------------------------------------------------


def maximum16_examples() -> Iterator[Case]:
    """Cases of a MaxPool of int16: one with padding in 2-D, one in 1-D."""
    same = np.array(3e-4, np.float32), np.array(9, np.int16)
    for shape, attrs in (
        ((1, 17, 8, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((2, 4, 9), {"kernel_shape": [2], "strides": [2]}),
    ):
        named: dict[str, Any] = {f"pool.{k}": v for k, v in attrs.items()}
        x = quantised_values(*shape, dtype="int16")
        yield case(x, *same, *same, const=(1, 2, 3, 4), **named)


def pair_examples() -> Iterator[Case]:
    """The cases of every vendor, then int16 values, then one image, which is made row by row, too.

    No sum ends in a half: float32, portable C and the library round halves in three ways.
    """
    yield from QuantisedPair.cases()
    steps = [np.array(s, np.float32) for s in (3e-4, 2.13e-4, 4e-4)]
    for shape, dtype in (((2, 5, 3, 7), "int16"), ((1, 5, 3, 7), "int16"), ((1, 5, 4, 7), "int8")):
        a, b = (quantised_values(*shape, dtype=dtype, seed=s) for s in (0, 1))
        # A product of int16 is one of few steps, of int8 of all.
        wider = [s * np.float32(1 if dtype == "int16" else 100) for s in steps]
        zero = np.array(0, dtype)
        operands = (a, wider[0], zero, b, wider[1], zero, wider[2], zero)
        yield case(*operands, const=(1, 2, 4, 5, 6, 7))


def softmax_examples() -> Iterator[Case]:
    """The cases of every vendor, then int16 values."""
    yield from QuantisedSoftmax.cases()
    zero, steps = np.array(0, np.int16), (np.float32(3e-4), np.float32(1 / 32768))
    x = quantised_values(4, 30, dtype="int16")
    parts = (x, np.array(steps[0]), zero, np.array(steps[1]), zero)
    last_axis_of: dict[str, Any] = {"soft.axis": -1}
    # TensorFlow Lite's tables are up to two steps off for every element of a row.
    yield case(*parts, const=(1, 2, 3, 4), atol=2.0 * x.shape[-1], **last_axis_of)


_LARGEST = OP.any_of("MaxPool", "GlobalMaxPool")(dequantised("x"), _outputs=["pool"])
_LAST, _pair = images.last("x", "y"), QuantisedPair
for _name, _graph, _ratio, _fits, _lower, _layouts, _cases in (
    ("qaverage", quantised(activated(QuantisedPool.average_pattern())), 1.3, pool_fits, to_average,
     _LAST, lambda: shared.average_examples("int8", "int16")),
    ("qmaxpool", OP.MaxPool(wildcard("x")), 1.3, shared.maximum_fits, to_maximum, _LAST,
     shared.maximum_examples),
    ("qmaxpool16", quantised(activated(_LARGEST)), 1.3, pool_fits, to_maximum16, _LAST,
     maximum16_examples),
    *((f"q{op.lower()}", quantised(activated(_pair.pattern(op))), 1.3, pair_fits, to_pair,
       _pair.layouts, pair_examples) for op in ("Add", "Mul")),
    ("qsoftmax", quantised(QuantisedSoftmax.pattern()), 3.0, softmax_fits, to_softmax, None,
     softmax_examples),
):  # fmt: skip
    declare(_name, _graph, _ratio, _fits, lower=_lower, layouts=_layouts, cases=_cases)
