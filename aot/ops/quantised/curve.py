# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators behind a product of quantised values, as a table of quadratic pieces.

The exact int32 sums find their place in the table, whose value is rounded once. At compile time the
table is compared with the operators themselves all along what the sums may be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aot.ir.graph_nodes import Array
from aot.vendor import Match, Quantisation
from aot.vendor.quantised_product import QuantisedProduct, product_node
from aot.vendor.quantised_table import run_chain

#: AOT_QCONV_CURVE_PLACES and AOT_QCONV_CURVE_BITS of runtime_c/kernels/aot_qconv_epilogue.h.
PLACES, BITS = 15, 20
#: Numbers of pieces that are tried, samples of each, and the largest distances in quantised values:
#: of one sample, and on average.
COUNTS, SAMPLES, WORST, MEAN = (16, 32, 64, 128, 256, 512), 64, 0.1, 2.0**-14
#: A quantised value that differs by less no longer counts as a change.
SETTLED = 2.0**-12
#: How far beyond the limits quantised values go where only the limit matters, and where curves are
#: fitted.
EDGE, SLACK = 0.4, 200.0


@dataclass(frozen=True, slots=True)
class Curve:
    """The quantised values of a function by pieces of equal width from `start` on (numbers of the
    sums)."""

    start: float
    width: float
    numbers: Array  # int32 [pieces, 3]


def _quantised_at(m: Match, y: Quantisation, at: Array, beyond: float) -> Array | None:
    """The real quantised value (not rounded) that the nodes give for each sum `at`, float64.

    Values are limited to `beyond` steps outside of y's range. None where a node is not known, or
    for NaN.
    """
    nodes, first = [*reversed(m.nodes)][:-1], getattr(m, "biased", None) or product_node(m)
    behind = next(i for i, n in enumerate(nodes) if n.ir is first.ir) + 1
    chain = [n for n in nodes[behind:] if n.op_type != "DequantizeLinear"]
    made = run_chain(chain, first, at.astype(np.float32))
    if made is None or made.size != at.size or np.any(np.isnan(made)):
        return None
    low, high = y.range
    steps = made.reshape(-1).astype(np.float64) / float(y.s) + y.z
    limited: Array = np.clip(steps, low - beyond, high + beyond)
    return limited


def _ends(m: Match, y: Quantisation, reach: float) -> tuple[float, float] | None:
    """(lowest, highest) sum between which the quantised value changes; None where that is not
    known.

    Sums lie within -`reach` .. `reach`.
    """
    low, high = -reach, reach
    for _ in range(6):
        at = np.linspace(low, high, 4097)
        found = _quantised_at(m, y, at, EDGE)
        if found is None:
            return None
        left = np.flatnonzero(np.abs(found - found[0]) > SETTLED)
        right = np.flatnonzero(np.abs(found - found[-1]) > SETTLED)
        if not left.size or not right.size:
            return low, high
        ends = float(at[max(left[0] - 1, 0)]), float(at[min(right[-1] + 1, 4096)])
        if ends[1] - ends[0] > 0.5 * (high - low):
            return ends
        low, high = ends
    return low, high


def curve(m: Match, found: QuantisedProduct) -> Curve | None:
    """The smallest table that is close enough for every sum; None if there is none.

    Every quantised value of x is taken as far from its zero point as its type allows.
    """
    x, y, w = found.x.signed(), found.y.signed(), found.w
    furthest = max(abs(end - x.z) for end in x.range)
    total = np.abs(w.data).reshape(len(w.data), -1).sum(axis=1) * furthest + np.abs(found.bias)
    # With weights of nothing but zeros there would be no range to cut into pieces.
    reach = max(float((total * float(x.s) * w.scale.astype(np.float64)).max()), 1e-30)
    ends = _ends(m, y, reach)
    if ends is None or not ends[0] < ends[1]:
        return None
    for count in COUNTS:
        width = (ends[1] - ends[0]) / count
        # 0, where many functions have a bend, is where a piece begins.
        start = math.floor(ends[0] / width) * width if ends[0] < 0 < ends[1] else ends[0]
        made = _fitted(m, y, start, width, math.ceil((ends[1] - start) / width - 1e-9))
        if made is not None:
            return made
    return None


def _fitted(m: Match, y: Quantisation, start: float, width: float, count: int) -> Curve | None:
    """A table of `count` quadratic pieces of `width` from `start` on; None if it is not close
    enough.

    Pieces are least-squares fits to samples; distances are in quantised values.
    """
    d = np.arange(SAMPLES + 1) / SAMPLES
    at = start + width * (np.arange(count)[:, None] + d)
    # No bend where the quantised value is limited.
    real = _quantised_at(m, y, at.reshape(-1), SLACK)
    if real is None:
        return None
    real = real.reshape(at.shape)
    powers = np.stack([np.ones_like(d), d, d * d])
    numbers = np.rint((real + 0.5) @ np.linalg.pinv(powers) * 2.0**BITS)
    if np.any(np.abs(numbers) >= 2.0**29):
        return None
    low, high = y.range[0] - EDGE, y.range[1] + EDGE
    off = np.abs(np.clip(numbers @ powers * 2.0**-BITS - 0.5, low, high) - np.clip(real, low, high))
    if off.max() > WORST or off.mean() > MEAN:
        return None
    return Curve(start, width, numbers.astype(np.int32))
