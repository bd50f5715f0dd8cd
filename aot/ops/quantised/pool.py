# SPDX-License-Identifier: Apache-2.0
"""Averages of codes: AveragePool, GlobalAveragePool and ReduceMean over the positions; of 16-bit
codes also MaxPool and GlobalMaxPool.

Channels are stored last. With `--requant tflite` an average whose codes keep their parameters is
divided as TFLite's AVERAGE_POOL does; every other average is a requantised sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, S16, U8, U16, DType
from aot.ir.layout import PLAIN, Layout
from aot.ops.quantised.common import code_fields, code_types, quantised, signed_input, signed_result
from aot.vendor.cases import Case
from aot.vendor.codes import (
    Codes,
    activated,
    all_hold,
    codes,
    constant_bounds,
    dequantised,
    known,
)
from aot.vendor.layouts import channels_last
from aot.vendor.match import Match
from aot.vendor.pattern import OP, Pat, Var, either
from aot.vendor.quantised_cases import code_case, codes_of, kind
from aot.vendor.recorder import Handle, ParamFields, Recorder
from aot.vendor.requant import TFLITE, multipliers, refusal, rq_of


def _pooled(*op_types: str) -> Pat:
    pool = OP.any_of(*op_types)(dequantised("x"), _outputs=["pool"])
    mean = OP.ReduceMean(dequantised("x"), Var("axes"), _optional=1, _outputs=["pool"])
    return activated(either(pool, mean) if "AveragePool" in op_types else pool)


average = quantised("qaverage", _pooled("AveragePool", "GlobalAveragePool"))
wide = quantised("qaverage16", _pooled("AveragePool", "GlobalAveragePool"), priority=-1)
maximum = quantised("qmaxpool16", _pooled("MaxPool", "GlobalMaxPool"))
WINDOWS, MAXIMA = ("AveragePool", "MaxPool"), ("MaxPool", "GlobalMaxPool")
#: The largest window whose mean has a multiplier per number of positions inside the image.
MOST_COUNTS = 64
#: The largest window: sums of codes of 8, and of 16 bits.
MOST_POSITIONS = {S8: 2**22, U8: 2**22, S16: 2**14, U16: 2**14}


def window(m: Match) -> dict[str, tuple[int, ...]] | None:
    """Extents along depth, height, width of the windows; None if it is no average of positions."""
    n = m.x.rank - 2
    space = m.x.shape[2:]
    node = m.pool
    if node.op_type in WINDOWS:
        pads = tuple(node.attr("pads") or (0,) * (2 * n))
        found = {
            "out": m.y.shape[2:],
            "k": tuple(node.attr("kernel_shape")),
            "s": tuple(node.attr("strides") or (1,) * n),
            "d": tuple(node.attr("dilations") or (1,) * n),
            "before": pads[:n],
            "after": pads[n:],
        }
    else:
        if node.op_type == "ReduceMean":
            axes = m.values.get("axes")
            if axes is None or not axes.is_const:
                return None
            if {int(a) % m.x.rank for a in np.ravel(np.asarray(axes.data))} != set(
                range(2, m.x.rank)
            ):
                return None
        one, none = (1,) * n, (0,) * n
        found = {"out": one, "k": space, "s": one, "d": one, "before": none, "after": none}
    fills = {"out": 1, "k": 1, "s": 1, "d": 1, "before": 0, "after": 0}
    full = {k: (fills[k],) * (3 - n) + tuple(int(e) for e in v) for k, v in found.items()}
    return {"in": (1,) * (3 - n) + tuple(space), **full}


def _counts_vary(m: Match) -> bool:
    """Whether windows at the border average fewer positions."""
    if m.pool.op_type != "AveragePool":
        return False
    pads = any(m.pool.attr("pads") or ())
    return bool(m.pool.attr("ceil_mode", 0)) or (pads and not m.pool.attr("count_include_pad", 0))


@average.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield from _fits(m, (S8, U8))


@wide.check
@maximum.check
def wide_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield from _fits(m, (S16, U16))


def _fits(m: Match, types: tuple[DType, ...]) -> Iterator[tuple[bool, str]]:
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
    ready = yield from all_hold(known(m, "x", "y", types=types))
    yield from constant_bounds(m)
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    if not 3 <= m.x.rank <= 5 or not ready:
        return
    if m.pool.op_type in WINDOWS:
        pad = m.pool.attr("auto_pad", "NOTSET")
        yield pad in ("NOTSET", "VALID"), f"auto_pad {pad!r} (needs explicit pads)"
    sizes = window(m)
    yield sizes is not None, "the mean is not over all positions"
    if sizes is None:
        return
    count = math.prod(sizes["k"])
    most = MOST_POSITIONS[m.x.dtype]
    yield count < most, f"a window of {count} positions (needs less than {most})"
    many = _counts_vary(m) and count > MOST_COUNTS
    yield not many, f"a window of {count} positions that reaches outside"
    x, y = codes(m, "x"), codes(m, "y")
    reason = refusal(float(x.s), np.ones(1), float(y.s))
    yield not reason, reason


@average.layouts
@wide.layouts
@maximum.layouts
def last(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    y = channels_last(m.y) if 3 <= m.y.rank <= 5 and m.y.rank == m.x.rank else PLAIN
    return {"x": channels_last(m.x), "y": y}


def _geometry(c: Recorder, m: Match, signed: bool) -> ParamFields:
    sizes = window(m)
    assert sizes is not None
    return c.params(n=m.x.shape[0], c=m.x.shape[1], **sizes, **code_fields(m, signed=signed))


def _scales(
    c: Recorder, m: Match, x: Codes, y: Codes
) -> tuple[Handle | None, Handle | None, dict[str, int]]:
    """Multipliers, shifts and the instance constants that go with them."""
    sizes, rq, vary = window(m), rq_of(c), _counts_vary(m)
    assert sizes is not None
    count = math.prod(sizes["k"])
    largest = m.pool.op_type in MAXIMA
    instance = {"RQ": rq, "VARY": int(vary), "PADDED": 0}
    instance["PADDED"] = int(bool(m.pool.attr("count_include_pad", 0)))
    if x.s == y.s and x.z == y.z and (rq == TFLITE or largest):
        return None, None, {**instance, "RQ": 3}
    counts = [1] if largest else range(1, count + 1) if vary else [count]
    values = np.array([1.0 / k for k in counts], np.float32)
    found = multipliers(float(x.s), values, float(y.s), rq)
    shift = None if found[1] is None else c.const(found[1], "shift")
    return c.const(found[0], "mult"), shift, instance


@average.lower
def to_kernel(c: Recorder, m: Match) -> None:
    x, y = codes(m, "x").signed(), codes(m, "y").signed()
    mult, shift, instance = _scales(c, m, x, y)
    with signed_result(c, m.y) as made:
        operands = (made, signed_input(c, m.x), mult, shift, _geometry(c, m, signed=True))
        c.call("aot_qavgpool_s8", *operands, instance=instance)


@wide.lower
@maximum.lower
def wide_to_kernel(c: Recorder, m: Match) -> None:
    x, y = codes(m, "x"), codes(m, "y")
    mult, shift, instance = _scales(c, m, x, y)
    instance |= {"MAX": int(m.pool.op_type in MAXIMA), **code_types(m)}
    params = _geometry(c, m, signed=False)
    c.call("aot_qpool_ref", m.y, m.x, mult, shift, params, instance=instance)


@wide.cases
def wide_cases() -> Iterator[Case]:
    for dtype, pads in (("int16", {}), ("uint16", {"pool.pads": [1, 0, 1, 0]})):
        square: dict[str, Any] = {"pool.kernel_shape": [2, 2], "pool.strides": [2, 2], **pads}
        steps = (*kind(3e-4, 9, dtype), *kind(5.3e-4, 30, dtype))
        yield code_case(codes_of(2, 3, 8, 8, dtype=dtype), *steps, **square)


@maximum.cases
def maximum_cases() -> Iterator[Case]:
    same = kind(3e-4, 9, "int16")
    for result in (same, kind(2.7e-4, 30, "int16")):
        square: dict[str, Any] = {"pool.kernel_shape": [3, 2], "pool.pads": [1, 1, 1, 0]}
        yield code_case(codes_of(2, 3, 8, 8, dtype="int16"), *same, *result, **square)


@average.cases
def cases() -> Iterator[Case]:
    steps = (*kind(0.0311, -7), *kind(0.023171, 11))
    for shape, attrs in (
        ((1, 5, 8, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ((2, 17, 7, 6), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ((1, 3, 7, 6), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ((1, 3, 8, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ((1, 3, 11), {"kernel_shape": [4], "strides": [3]}),
        ((1, 2, 4, 5, 3), {"kernel_shape": [2, 3, 2]}),
    ):
        named: dict[str, Any] = {f"pool.{k}": v for k, v in attrs.items()}
        yield code_case(codes_of(*shape), *steps, **named)
    unsigned = (*kind(0.031, 100, "uint8"), *kind(0.005, 11, "uint8"))
    square: dict[str, Any] = {"pool.kernel_shape": [5, 5]}
    yield code_case(codes_of(1, 4, 5, 5, dtype="uint8"), *unsigned, **square)
