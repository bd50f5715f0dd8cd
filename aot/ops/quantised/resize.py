# SPDX-License-Identifier: Apache-2.0
"""Resize of 8-bit codes to codes of other or the same parameters: integer sums, one rounding.

Linear and cubic; what `nearest` without cropping picks is moved as codes already in normalise.
Weights are those of the float operator in fixed point; with three axes or fewer between the first
and the last that is resized, one call makes all of them. The same for all values of `--requant`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.dtypes import S8, U8
from aot.ir.layout import PLAIN, Layout
from aot.ops.broadcast import stored
from aot.ops.quantised.common import finish, quantised, signed_input, signed_output
from aot.ops.resize import TRANSFORMS, AxisPlan, Spec, known_form, nearest, plans, span_of, weights
from aot.vendor.backend import Pattern
from aot.vendor.cases import Case, case, i64
from aot.vendor.codes import Array, activated, bounds, codes, constant_bounds, dequantised, known
from aot.vendor.fixed_point import ratio, significands
from aot.vendor.layouts import channels_last
from aot.vendor.match import Match
from aot.vendor.pattern import OP, Var
from aot.vendor.quantised_cases import codes_of, scale, zero
from aot.vendor.recorder import Recorder
from aot.vendor.requant import refusal

#: Fraction bits of a weight: AOT_QRESIZE_BITS of aot_qresize_s8.h.
WEIGHT_BITS = 29
#: The largest number of fraction bits of a sum, and the bits of a code's distance to another.
SUM_BITS, CODE_BITS = 22, 255
#: The largest number of inputs of one output.
MOST_TAPS = 1024


def declared(name: str) -> Pattern:
    """The pattern of a Resize of codes `x`, with a Relu or a Clip or without."""
    names = (Var("roi"), Var("scales"), Var("sizes"))
    node = OP.Resize(dequantised("x"), *names, _optional=3, _outputs=["resize"])
    return quantised(name, activated(node))


resized = declared("qresize")


def spec(m: Match) -> Spec:
    """What the tables of weights are made from."""
    v = m.values
    return Spec(m.x, m.y, v.get("roi"), v.get("scales"), v.get("sizes"), m.resize)


def _tables(s: Spec, p: AxisPlan) -> tuple[Array, Array]:
    """(indices, float weights), each [outputs, taps], in every mode."""
    if s.mode != "nearest":
        at, w = weights(s, p)
        plain = s.mode == "linear" and not s.antialias and at.shape[1] == 2
        return _at_ends(at, w, p.source) if plain else (at, w)
    at = nearest(p, s.coordinate_transformation_mode, s.nearest_mode)[:, None]
    return at, np.ones(at.shape, np.float32)


def _at_ends(at: Array, w: Array, source: int) -> tuple[Array, Array]:
    """The same sums as onnxruntime forms them, whose rounding decides halves of codes.

    At the first input that alone; the last one is read twice, each time with one half.
    """
    at, w = at.copy(), w.copy()
    first = (at == 0).all(1) & (source > 1)
    w[first] = (1, 0)
    last = (at == source - 1).all(1) | ((at[:, 1] == source - 1) & (w[:, 1] == 1))
    at[last], w[last] = source - 1, 0.5
    return at, w


def _axes(m: Match) -> tuple[range, list[tuple[Array, Array]]]:
    """The resized axes and what lies between; the tables of each."""
    s = spec(m)
    found = {p.axis: _tables(s, p) for p in plans(s)}
    span = span_of(list(found))
    full = []
    for axis in span:
        same = np.arange(m.x.shape[axis], dtype=np.int32)[:, None]
        full.append(found.get(axis, (same, np.ones(same.shape, np.float32))))
    return span, full


def _most(tables: list[tuple[Array, Array]]) -> float:
    """The largest sum of absolute weights of an output."""
    return math.prod(float(np.abs(w).sum(1).max()) for _, w in tables)


@resized.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    asked = [*known(m, "x", "y", types=(S8, U8)), *known_form(spec(m))]
    yield from asked
    yield from constant_bounds(m)
    if not all(ok for ok, _ in asked):
        return
    span, tables = _axes(m)
    yield len(span) <= 3, f"axes {list(span)} (at most 3 in a row)"
    taps = math.prod(at.shape[1] for at, _ in tables)
    yield taps <= MOST_TAPS, f"{taps} inputs per output (at most {MOST_TAPS})"
    largest = max((float(np.abs(w).max()) for _, w in tables), default=0.0)
    yield largest < 4, f"a weight of {largest:g} (needs less than 4)"
    most = _most(tables)
    yield most < 31, f"weights that add up to {most:g}"
    size = max(math.prod(m.x.shape), math.prod(m.y.shape))
    yield size < 2**31, f"a tensor of {size} codes"
    reason = refusal(float(codes(m, "x").s), np.ones(1), float(codes(m, "y").s))
    yield not reason, reason


@resized.layouts
def last(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """Channels last while only positions are resized."""
    if not 3 <= m.x.rank <= 5 or any(p.axis < 2 for p in plans(spec(m))):
        return {"x": PLAIN, "y": PLAIN}
    return {"x": channels_last(m.x), "y": channels_last(m.y)}


@resized.lower
def to_kernel(c: Recorder, m: Match) -> None:
    x, y = codes(m, "x").signed(), codes(m, "y").signed()
    span, tables = _axes(m)
    bits = min(SUM_BITS, math.floor(math.log2((2**31 - 2**20) / (CODE_BITS * _most(tables)))))
    low, high = bounds(m, codes(m, "y"))
    offset = codes(m, "y").z - y.z
    source, result = stored(m.x), stored(m.y)
    missing = 3 - len(span)
    one = (np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32))
    full = [one] * missing + tables
    taps = tuple(at.shape[1] for at, _ in full)
    fixed = [np.rint(w.astype(np.float64) * 2**WEIGHT_BITS).astype(np.int32) for _, w in full]
    outside = float(spec(m).extrapolation_value)
    params = c.params(
        outer=math.prod(source[: span.start]),
        **{"in": (1,) * missing + source[span.start : span.stop]},
        out=(1,) * missing + result[span.start : span.stop],
        inner=math.prod(source[span.stop :]),
        taps=taps,
        bits=bits,
        **ratio(float(x.s) / float(y.s), bits),
        x_zero=x.z,
        y_zero=y.z,
        lo=low - offset,
        hi=high - offset,
        outside=min(max(y.encode(outside), low - offset), high - offset),
        **significands(x.s, y.s),
    )
    made = signed_output(c, m.y)
    c.call(
        "aot_qresize_s8",
        made,
        signed_input(c, m.x),
        c.const(np.concatenate([at.ravel() for at, _ in full]).astype(np.int32), "positions"),
        c.const(np.concatenate([w.ravel() for w in fixed]), "weights"),
        c.scratch(8 * math.prod(taps)),
        params,
    )
    finish(c, m.y, made)


@resized.cases
def cases() -> Iterator[Case]:
    x, names = codes_of(1, 5, 6, 7), "resize.coordinate_transformation_mode"
    operands = (scale(0.0311), zero(-7), None, None, i64(1, 5, 9, 4))
    const = (1, 2, 5, 6, 7)
    for transform in TRANSFORMS[:5]:
        for mode in ("linear", "cubic"):
            attrs: dict[str, Any] = {"resize.mode": mode, names: transform}
            yield case(x, *operands, scale(0.023171), zero(11), const=const, **attrs)
    linear: dict[str, Any] = {"resize.mode": "linear"}
    size = (None, None, i64(2, 7, 3, 4, 9))
    wide = codes_of(2, 7, 4, 4, 4, dtype="uint8")
    unsigned = (zero(100, "uint8"), *size, scale(0.0212), zero(120, "uint8"))
    yield case(wide, scale(0.0311), *unsigned, const=const, **linear)
    rows = (scale(0.0311), zero(3), None, None, i64(4, 21), scale(0.0281), zero(3))
    yield case(codes_of(3, 17), *rows, const=const, **linear)
    small = (scale(0.0311), zero(3), None, None, i64(1, 3, 3, 4), scale(0.0181), zero(3))
    smooth: dict[str, Any] = {**linear, "resize.antialias": 1}
    yield case(codes_of(1, 3, 8, 9), *small, const=const, **smooth)
    roi = np.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 0.9], np.float32)
    crop = (scale(0.0311), zero(3), roi, None, i64(1, 5, 3, 3), scale(0.0281), zero(3))
    cropped: dict[str, Any] = {names: "tf_crop_and_resize", "resize.extrapolation_value": 1.7}
    for mode in ("nearest", "linear"):
        yield case(x, *crop, const=(1, 2, 3, *const), **{**cropped, "resize.mode": mode})
