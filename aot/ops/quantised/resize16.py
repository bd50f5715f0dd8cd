# SPDX-License-Identifier: Apache-2.0
"""Resize of codes of which some have 16 bits: integer sums, rounded once as float32 rounds them.

Weights are those of onnxruntime's float32 (resize_single.py). Sums in 64 bits decide all codes but
those close to a half, where the roundings of float32 are repeated. The same for all values of
`--requant`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import S16, U16
from aot.ops.quantised.resize import MOST_TAPS, declared, spec
from aot.ops.resize import TRANSFORMS, Spec, known_form, plans, span_of
from aot.ops.resize_single import linear, single_weights
from aot.vendor.cases import Case, case, i64
from aot.vendor.codes import CODE_TYPES, Array, bounds, codes, constant_bounds, known
from aot.vendor.fixed_point import significands
from aot.vendor.match import Match
from aot.vendor.quantised_cases import codes_of, scale, zero
from aot.vendor.recorder import Recorder

#: Fraction bits of a weight of one axis, and what their sizes stay below.
WEIGHT_BITS, MOST_WEIGHT = 29, 4
#: What the sizes of all weights of an output add up to less than, and bits of a sum at most.
MOST_SUM, SUM_BITS = 31, 30
#: Bits of a sum that are multiplied apart (AOT_QRESIZE16_LOW), and the largest shift behind.
LOW_BITS, MOST_SHIFT = 24, 62
#: What a code may become, in codes of the result.
MOST_STEPS = 4096
#: More than the distance of two codes.
DISTANCE = 2**16

resized = declared("qresize16")
Table = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Tables:
    """The resized axes and what lies between; positions and weights of each, [outputs, taps]."""

    span: range
    each: list[Table]
    nested: bool

    @property
    def taps(self) -> int:
        """Inputs of an output."""
        return math.prod(at.shape[1] for at, _ in self.each)

    @property
    def rows(self) -> list[float]:
        """The largest sum of absolute weights along each axis."""
        return [float(np.abs(w).sum(1).max()) for _, w in self.each]

    @property
    def largest(self) -> float:
        """No weight of one axis is larger."""
        return max((float(np.abs(w).max()) for _, w in self.each), default=1.0)


def _positions_only(axes: list[int], rank: int) -> list[int]:
    """The axes whose neighbours onnxruntime adds: also those that keep their extent."""
    if not axes or rank > 5:
        return axes
    usual = range(max(0, rank - 3) if rank in (3, 5) else max(0, rank - 2), rank)
    behind = range(1, rank - 1) if rank == 4 else usual
    for run in (usual, behind):
        if set(axes) <= set(run):
            return list(run)
    return axes


def tables(s: Spec) -> Tables:
    """Positions and weights in float32; axes between resized ones are copied."""
    found = {p.axis: single_weights(s, p) for p in plans(s)}
    nested = s.mode == "cubic" or bool(s.antialias)
    if s.mode == "linear" and not nested:
        for axis in set(_positions_only(list(found), len(s.x.shape))) - set(found):
            extent = s.x.shape[axis]
            found[axis] = linear(np.arange(extent, dtype=np.float32), extent)
    span = span_of(list(found))
    each = []
    for axis in span:
        same = np.arange(s.x.shape[axis], dtype=np.int32)[:, None]
        each.append(found.get(axis, (same, np.ones(same.shape, np.float32))))
    return Tables(span, each, nested)


@resized.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    asked = [*known(m, "x", "y"), *known_form(spec(m))]
    yield from asked
    wide = m.x.dtype in (S16, U16) or m.y.dtype in (S16, U16)
    yield wide, f"codes of {m.x.dtype} and {m.y.dtype} (needs 16 bits)"
    yield from constant_bounds(m)
    if not wide or not all(ok for ok, _ in asked):
        return
    t = tables(spec(m))
    yield len(t.span) <= 3, f"axes {list(t.span)} (at most 3 in a row)"
    yield t.taps <= MOST_TAPS, f"{t.taps} inputs per output (at most {MOST_TAPS})"
    yield t.largest < MOST_WEIGHT, f"a weight of {t.largest:g} (needs less than {MOST_WEIGHT})"
    total = math.prod(t.rows)
    yield total < MOST_SUM, f"weights that add up to {total:g}"
    size = max(math.prod(m.x.shape), math.prod(m.y.shape))
    yield size < 2**31, f"a tensor of {size} codes"
    scales = [float(codes(m, k).s) for k in "xy"]
    usual = all(2.0**-40 < s < 2.0**40 for s in scales)
    yield usual and scales[0] < scales[1] * MOST_STEPS, f"scales {scales}"


def sum_bits(t: Tables) -> int:
    """Fraction bits with which the weight of an output and its sums fit."""
    most = math.prod(float(np.abs(w).max()) for _, w in t.each)
    return SUM_BITS - max(0, math.ceil(math.log2(max(most, math.prod(t.rows) / 4))))


def fixed_error(t: Tables, bits: int) -> int:
    """What the fixed point of the weights does to a sum at most, in its last place.

    Weights of one axis are off by half of 2^-29, products of two by as much again, products of
    three by half of 2^-bits.
    """
    (a, b, c), taps = t.rows, [at.shape[1] for at, _ in t.each]
    single = taps[0] * b * c + a * taps[1] * c + a * b * taps[2] + taps[0] * taps[1] * c
    last = 2.0 ** -(WEIGHT_BITS + 1)
    off = single * last * 1.01 + t.taps * 2.0 ** -(bits + 1)
    whole: int = math.ceil(off * DISTANCE * 2.0**bits) + 1
    return whole


def ratio(value: float, bits: int) -> dict[str, int]:
    """Fields mult, of 31 bits, and shift: mult / 2^(shift + 24) = value / 2^bits."""
    fraction, exponent = math.frexp(value)
    mult, shift = min(round(fraction * 2**31), 2**31 - 1), bits + 31 - exponent - LOW_BITS
    drop = max(shift - MOST_SHIFT, 0)
    return {"mult": mult >> drop, "shift": shift - drop}


@resized.lower
def to_kernel(c: Recorder, m: Match) -> None:
    x, y, s = codes(m, "x"), codes(m, "y"), spec(m)
    found = tables(s)
    span, missing = found.span, 3 - len(found.span)
    one = (np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32))
    t = Tables(span, [one] * missing + found.each, found.nested)
    bits, taps = sum_bits(t), tuple(at.shape[1] for at, _ in t.each)
    low, high = bounds(m, y)
    outside = y.encode(float(s.extrapolation_value))
    params = c.params(
        outer=math.prod(m.x.shape[: span.start]),
        **{"in": (1,) * missing + m.x.shape[span.start : span.stop]},
        out=(1,) * missing + m.y.shape[span.start : span.stop],
        inner=math.prod(m.x.shape[span.stop :]),
        taps=taps,
        bits=bits,
        **ratio(float(x.s) / float(y.s), bits),
        slack=(sum(taps) if t.nested else t.taps) + 8,
        error=fixed_error(t, bits),
        x_zero=x.z,
        y_zero=y.z,
        lo=low,
        hi=high,
        outside=min(max(outside, low), high),
        **significands(x.s, y.s),
    )
    types = {"XT": CODE_TYPES.index(x.dtype), "YT": CODE_TYPES.index(y.dtype)}
    c.call(
        "aot_qresize16",
        m.y,
        m.x,
        c.const(np.concatenate([at.ravel() for at, _ in t.each]).astype(np.int32), "positions"),
        c.const(np.concatenate([w.ravel() for _, w in t.each]).view(np.int32), "weights"),
        c.scratch(8 * t.taps),
        params,
        instance={**types, "NESTED": int(t.nested)},
    )


@resized.cases
def cases() -> Iterator[Case]:
    const, names = (1, 2, 5, 6, 7), "resize.coordinate_transformation_mode"
    x = codes_of(1, 3, 6, 7, dtype="int16")
    operands = (scale(2.9e-4), zero(-7, "int16"), None, None, i64(1, 3, 9, 5))
    for transform, mode in zip(TRANSFORMS[:5], ("linear", "cubic") * 3, strict=False):
        attrs: dict[str, Any] = {"resize.mode": mode, names: transform}
        yield case(x, *operands, scale(2.3e-4), zero(11, "int16"), const=const, **attrs)
    linear_: dict[str, Any] = {"resize.mode": "linear"}
    wide = codes_of(2, 3, 4, 4, 4, dtype="uint16")
    size = (zero(30000, "uint16"), None, None, i64(2, 3, 3, 4, 9))
    yield case(wide, scale(3e-4), *size, scale(3e-4), zero(120, "uint8"), const=const, **linear_)
    small = (scale(0.03), zero(3), None, None, i64(1, 3, 3, 4), scale(3e-4), zero(3, "int16"))
    smooth: dict[str, Any] = {**linear_, "resize.antialias": 1}
    yield case(codes_of(1, 3, 8, 9), *small, const=const, **smooth)
    roi = np.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 0.9], np.float32)
    crop = (scale(3e-4), zero(3, "int16"), roi, None, i64(1, 3, 3, 3))
    cropped: dict[str, Any] = {names: "tf_crop_and_resize", "resize.extrapolation_value": 1.7}
    for mode in ("nearest", "linear"):
        attrs = {**cropped, "resize.mode": mode}
        y = (scale(2.8e-4), zero(3, "int16"))
        yield case(x, *crop, *y, const=(1, 2, 3, *const), **attrs)
