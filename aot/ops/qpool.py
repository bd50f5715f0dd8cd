# SPDX-License-Identifier: Apache-2.0
"""Averages of 8-bit codes: AveragePool, GlobalAveragePool and ReduceMean over the positions.

Channels are stored last. With `--requant tflite` an average whose codes keep their parameters is
divided as TFLite's AVERAGE_POOL does; every other average is a requantised sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.dtypes import S8, U8
from aot.layout import PLAIN, Layout
from aot.lower_context import LowerContext, ParamFields
from aot.ops.layouts import channels_last
from aot.ops.qcases import codes_of, scale, zero
from aot.ops.qcommon import (
    OP,
    Codes,
    activated,
    bounds,
    codes,
    constant_bounds,
    dequantised,
    finish,
    known,
    quantised,
    signed_input,
    signed_output,
)
from aot.ops.registry import Case, case
from aot.ops.requant import TFLITE, multipliers, refusal, rq_of
from aot.partition.match import Match
from aot.partition.pattern import Var, either

average = quantised(
    "qaverage",
    activated(
        either(
            OP.any_of("AveragePool", "GlobalAveragePool")(dequantised("x"), _outputs=["pool"]),
            OP.ReduceMean(dequantised("x"), Var("axes"), _optional=1, _outputs=["pool"]),
        )
    ),
)
#: The largest window whose mean has a multiplier per number of positions inside the image.
MOST_COUNTS = 64


def window(m: Match) -> dict[str, tuple[int, ...]] | None:
    """Extents along depth, height, width of the windows; None if it is no average of positions."""
    n = m.x.rank - 2
    space = m.x.shape[2:]
    node = m.pool
    if node.op_type == "AveragePool":
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
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
    asked = list(known(m, "x", "y", types=(S8, U8)))
    yield from asked
    yield from constant_bounds(m)
    yield 0 not in m.x.shape + m.y.shape, f"an empty tensor {list(m.x.shape)}"
    if not 3 <= m.x.rank <= 5 or not all(ok for ok, _ in asked):
        return
    if m.pool.op_type == "AveragePool":
        pad = m.pool.attr("auto_pad", "NOTSET")
        yield pad in ("NOTSET", "VALID"), f"auto_pad {pad!r} (needs explicit pads)"
    sizes = window(m)
    yield sizes is not None, "the mean is not over all positions"
    if sizes is None:
        return
    count = math.prod(sizes["k"])
    yield count < 2**22, f"a window of {count} positions (needs less than {2**22})"
    many = _counts_vary(m) and count > MOST_COUNTS
    yield not many, f"a window of {count} positions that reaches outside"
    x, y = codes(m, "x"), codes(m, "y")
    reason = refusal(float(x.s), np.ones(1), float(y.s))
    yield not reason, reason


@average.layouts
def last(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    y = channels_last(m.y) if 3 <= m.y.rank <= 5 and m.y.rank == m.x.rank else PLAIN
    return {"x": channels_last(m.x), "y": y}


def _geometry(c: LowerContext, m: Match, x: Codes, y: Codes) -> ParamFields:
    sizes = window(m)
    assert sizes is not None
    low, high = bounds(m, codes(m, "y"))
    offset = codes(m, "y").z - y.z
    return c.params(
        n=m.x.shape[0],
        c=m.x.shape[1],
        **sizes,
        x_zero=x.z,
        y_zero=y.z,
        lo=low - offset,
        hi=high - offset,
    )


@average.lower
def to_kernel(c: LowerContext, m: Match) -> None:
    x, y = codes(m, "x").signed(), codes(m, "y").signed()
    sizes = window(m)
    assert sizes is not None
    rq = rq_of(c)
    same = x.s == y.s and x.z == y.z
    count = math.prod(sizes["k"])
    vary = _counts_vary(m)
    instance = {"RQ": rq, "VARY": int(vary), "PADDED": 0}
    instance["PADDED"] = int(bool(m.pool.attr("count_include_pad", 0)))
    mult: Any = None
    shift: Any = None
    if rq == TFLITE and same:
        instance["RQ"] = 3
    else:
        counts = range(1, count + 1) if vary else [count]
        values = np.array([1.0 / k for k in counts], np.float32)
        found = multipliers(float(x.s), values, float(y.s), rq)
        mult = c.const(found[0], "mult")
        shift = None if found[1] is None else c.const(found[1], "shift")
    made = signed_output(c, m.y)
    source = signed_input(c, m.x)
    c.call("aot_qavgpool_s8", made, source, mult, shift, _geometry(c, m, x, y), instance=instance)
    finish(c, m.y, made)


@average.cases
def cases() -> Iterator[Case]:
    operands = (scale(0.0311), zero(-7), scale(0.023171), zero(11))
    for shape, attrs in (
        ((1, 5, 8, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ((2, 17, 7, 6), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ((1, 3, 7, 6), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ((1, 3, 8, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ((1, 3, 11), {"kernel_shape": [4], "strides": [3]}),
        ((1, 2, 4, 5, 3), {"kernel_shape": [2, 3, 2]}),
    ):
        named: dict[str, Any] = {f"pool.{k}": v for k, v in attrs.items()}
        yield case(codes_of(*shape), *operands, const=(1, 2, 3, 4), **named)
    wide = (scale(0.031), zero(100, "uint8"), scale(0.005), zero(11, "uint8"))
    square: dict[str, Any] = {"pool.kernel_shape": [5, 5]}
    yield case(codes_of(1, 4, 5, 5, dtype="uint8"), *wide, const=(1, 2, 3, 4), **square)
