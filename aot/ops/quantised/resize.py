# SPDX-License-Identifier: Apache-2.0
"""Resize of quantised values to quantised values of other or the same parameters: integer sums, one
rounding.

Linear and cubic; what `nearest` without cropping picks is moved as quantised values already in
normalise. With three axes or fewer between the first and the last that is resized, one call makes
all of them. The same for all values of `--requant`.

8-bit quantised values have the weights of the float operator in fixed point. Where some quantised
values have 16 bits, the weights are those of onnxruntime's float32 (resize_single.py), and sums in
64 bits decide all quantised values but those close to a half, where the roundings of float32 are
repeated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ir.rows import Rowwise
from aot.ops.broadcast import stored
from aot.ops.quantised.common import (
    quantised,
    quantised_fields,
    signed_input,
    signed_result,
    some_wide,
    type_constants,
)
from aot.ops.resize import row_window, weights
from aot.ops.resize_single import linear, single_weights
from aot.vendor import S8, U8, Layout, Match, channels_last
from aot.vendor.arguments import ParamFields
from aot.vendor.cases import Case, i64
from aot.vendor.fixed_point import ratio, significands
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
from aot.vendor.recorder import Recorder
from aot.vendor.requant import refusal
from aot.vendor.resize import TRANSFORMS, AxisPlan, Resize, known_form, nearest, plans, span_of

#: Fraction bits of a weight of one axis (AOT_QRESIZE_BITS), and what their sizes stay below.
WEIGHT_BITS, MOST_WEIGHT = 29, 4
#: What the sizes of all weights of an output add up to less than, and inputs of an output at most.
MOST_SUM, MOST_TAPS = 31, 1024
#: 8-bit quantised values: the largest number of fraction bits of a sum, the distance of a quantised
#: value to another.
NARROW_BITS, CODE_DISTANCE = 22, 255
#: 16-bit quantised values: bits of a sum at most, bits that are multiplied apart
#: (AOT_QRESIZE16_LOW).
WIDE_BITS, LOW_BITS = 30, 24
#: What a 16-bit quantised value may become, in quantised values of the result, and more than the
#: distance of two quantised values.
MOST_STEPS, DISTANCE = 4096, 2**16

_RESIZE = OP.Resize(
    dequantised("x"), Var("roi"), Var("scales"), Var("sizes"), _optional=3, _outputs=["resize"]
)
narrow = quantised("qresize", activated(_RESIZE))
wide = quantised("qresize16", activated(_RESIZE))
Table = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Tables:
    """The resized axes and what lies between; positions and weights of each, [outputs, taps].

    `each` has three axes or more, the first of them of one element where fewer are resized.
    `nested` says that sums along one axis are inputs of those along the next.
    """

    span: range
    each: list[Table]
    nested: bool

    @property
    def taps(self) -> tuple[int, ...]:
        """Inputs of an output along each axis."""
        return tuple(at.shape[1] for at, _ in self.each)

    @property
    def rows(self) -> list[float]:
        """The largest sum of absolute weights along each axis."""
        return [float(np.abs(w).sum(1).max()) for _, w in self.each]

    @property
    def largest(self) -> list[float]:
        """The largest weight along each axis."""
        return [float(np.abs(w).max()) for _, w in self.each]


def spec(m: Match) -> Resize:
    """The Resize of a match as a record, from which tables of weights are made."""
    v = m.values
    return Resize(m.x, m.y, v.get("roi"), v.get("scales"), v.get("sizes"), m.resize)


def _narrow_table(how: Resize, axis: AxisPlan) -> Table:
    """(indices, float weights) of one axis, each [outputs, taps], for 8-bit quantised values."""
    if how.mode != "nearest":
        at, w = weights(how, axis)
        plain = how.mode == "linear" and not how.antialias and at.shape[1] == 2
        return _at_ends(at, w, axis.source) if plain else (at, w)
    at = nearest(axis, how.coordinate_transformation_mode, how.nearest_mode)[:, None]
    return at, np.ones(at.shape, np.float32)


def _at_ends(at: Array, w: Array, source: int) -> Table:
    """The table of a linear Resize with the sums at both ends as onnxruntime forms them.

    The first input counts once alone, the last one twice by half: the rounding decides halves.
    """
    at, w = at.copy(), w.copy()
    first = (at == 0).all(1) & (source > 1)
    w[first] = (1, 0)
    last = (at == source - 1).all(1) | ((at[:, 1] == source - 1) & (w[:, 1] == 1))
    at[last], w[last] = source - 1, 0.5
    return at, w


def _positions_only(axes: list[int], rank: int) -> list[int]:
    """The axes along which onnxruntime adds neighbours: `axes`, and some that keep their size."""
    if not axes or rank > 5:
        return axes
    usual = range(max(0, rank - 3) if rank in (3, 5) else max(0, rank - 2), rank)
    behind = range(1, rank - 1) if rank == 4 else usual
    for run in (usual, behind):
        if set(axes) <= set(run):
            return list(run)
    return axes


def _wide_tables(how: Resize, nested: bool) -> dict[int, Table]:
    """(indices, float32 weights) by axis, as onnxruntime rounds them; `nested`: axis after axis."""
    found: dict[int, Table] = {p.axis: single_weights(how, p) for p in plans(how)}
    if how.mode == "linear" and not nested:
        for axis in set(_positions_only(list(found), len(how.x.shape))) - set(found):
            extent = how.x.shape[axis]
            found[axis] = linear(np.arange(extent, dtype=np.float32), extent)
    return found


def tables(how: Resize, eight: bool) -> Tables:
    """The tables of a Resize for 8-bit quantised values (`eight`) or others.

    Axes between resized ones have tables that copy; there are always three axes at least.
    """
    nested = how.mode == "cubic" or bool(how.antialias)
    found = (
        {p.axis: _narrow_table(how, p) for p in plans(how)} if eight else _wide_tables(how, nested)
    )
    span = span_of(list(found))
    each = [_copied(1)] * (3 - len(span))
    each += [found.get(axis, _copied(how.x.shape[axis])) for axis in span]
    return Tables(span, each, nested)


def _copied(extent: int) -> Table:
    """The table of an axis of `extent` that is not resized: each output is its input."""
    same = np.arange(extent, dtype=np.int32)[:, None]
    return same, np.ones(same.shape, np.float32)


def _fits(m: Match, eight: bool) -> Iterator[tuple[bool, str]]:
    """Checks that axes, taps, weights and sizes are within what the kernels' tables hold."""
    found = tables(spec(m), eight)
    yield len(found.span) <= 3, f"axes {list(found.span)} (at most 3 in a row)"
    taps, largest, total = math.prod(found.taps), max(found.largest), math.prod(found.rows)
    yield taps <= MOST_TAPS, f"{taps} inputs per output (at most {MOST_TAPS})"
    yield largest < MOST_WEIGHT, f"a weight of {largest:g} (needs less than {MOST_WEIGHT})"
    yield total < MOST_SUM, f"weights that add up to {total:g}"
    size = max(math.prod(m.x.shape), math.prod(m.y.shape))
    yield size < 2**31, f"a tensor of {size} quantised values"


@narrow.check
def narrow_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of a Resize of 8-bit quantised values."""
    yield from constant_bounds(m)
    if (yield from all_hold([*known(m, "x", "y", types=(S8, U8)), *known_form(spec(m))])):
        yield from _fits(m, eight=True)
        reason = refusal(float(quantisation(m, "x").s), np.ones(1), float(quantisation(m, "y").s))
        yield not reason, reason


@wide.check
def wide_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of a Resize of which x or y has 16 bits."""
    yield from constant_bounds(m)
    if (yield from all_hold([*known(m, "x", "y"), *known_form(spec(m)), *some_wide(m)])):
        yield from _fits(m, eight=False)
        scales = [float(quantisation(m, k).s) for k in "xy"]
        usual = all(2.0**-40 < s < 2.0**40 for s in scales)
        yield usual and scales[0] < scales[1] * MOST_STEPS, f"scales {scales}"


@narrow.layouts
def last(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
    """The layouts: channels last while only positions are resized, else plain."""
    if not 3 <= m.x.rank <= 5 or any(p.axis < 2 for p in plans(spec(m))):
        return {}
    return {"x": channels_last(m.x), "y": channels_last(m.y)}


def _params(
    c: Recorder, m: Match, found: Tables, bits: int, numbers: dict[str, int]
) -> ParamFields:
    """The parameters of both kernels, of that of 8 bits with rows; `bits` are fraction bits of
    weights, `numbers` the arithmetic's.
    """
    eight = {m.x.dtype, m.y.dtype} <= {S8, U8}
    x, y, fields = quantisation(m, "x"), quantisation(m, "y"), quantised_fields(m, signed=eight)
    # What lies outside saturates as QuantizeLinear does, and heeds limits behind the operator.
    outside = (y.signed() if eight else y).encode(float(spec(m).extrapolation_value))
    source, result, span = stored(m.x), stored(m.y), found.span
    before = (1,) * (3 - len(span))
    return c.params(
        outer=math.prod(source[: span.start]),
        **{"in": before + source[span.start : span.stop]},
        out=before + result[span.start : span.stop],
        inner=math.prod(source[span.stop :]),
        **({"row0": 0, "row1": (*before, *result[span.start :])[1], "top": 0} if eight else {}),
        taps=found.taps,
        bits=bits,
        **numbers,
        **fields,
        outside=min(max(outside, fields["lo"]), fields["hi"]),
        **significands(x.s, y.s),
    )


@narrow.lower
def narrow_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qresize_s8: a Resize of 8-bit quantised values along up to three axes.

    Weights have as many fraction bits, at most NARROW_BITS, as keep sums of all taps within int32.
    Positions and weights (int32) of the three axes follow each other; scratch is a tap, 8 bytes,
    for every product of weights, and on vectors the rows of an output's inputs as float32.
    """
    found = tables(spec(m), eight=True)
    # Weights rounded to steps may add up to a little more than 1: some room stays below int32's
    # end.
    room = (2**31 - 2**20) / (CODE_DISTANCE * math.prod(found.rows))
    bits = min(NARROW_BITS, math.floor(math.log2(room)))
    source, taps = stored(m.x), math.prod(found.taps)
    inner = math.prod(source[found.span.stop :])
    lines = found.taps[1] if len(found.span) == 2 and 1 < c.vlen <= inner else 0
    line = 4 * (1 + source[found.span.stop - 1] * inner)
    fixed = [np.rint(w.astype(np.float64) * 2**WEIGHT_BITS).astype(np.int32) for _, w in found.each]
    scaled = ratio(float(quantisation(m, "x").s) / float(quantisation(m, "y").s), bits)
    params = _params(c, m, found, bits, scaled | {"lines": lines})
    rowwise = None
    if found.span == range(2, 4) and m.x.shape[0] == 1 and m.x.rank == 4 and m.y.shape[2] > 1:
        window = row_window(spec(m), found.each[1][0])
        fields = (("row0", -1, "row"), ("row1", -1, "next"), ("top", -1, "top"))
        rowwise = Rowwise(m.y.shape[2], (0,), window, fields) if window else None
    with signed_result(c, m.y) as made:
        c.call(
            "aot_qresize_s8",
            made,
            signed_input(c, m.x),
            c.const(
                np.concatenate([at.ravel() for at, _ in found.each]).astype(np.int32), "positions"
            ),
            c.const(np.concatenate([w.ravel() for w in fixed]), "weights"),
            c.scratch(8 * taps + lines * line),
            params,
            rowwise=rowwise,
        )


def sum_bits(found: Tables) -> int:
    """The fraction bits with which the weight of an output and its sums fit 32 bits."""
    most = max(math.prod(found.largest), math.prod(found.rows) / 4)
    return WIDE_BITS - max(0, math.ceil(math.log2(most)))


def fixed_error(found: Tables, bits: int) -> int:
    """The largest error of a sum by the fixed point of the weights, in units of its last place.

    Weights of one axis are off by half of 2^-29, products of two by as much again, products of
    three by half of 2^-bits.
    """
    (a, b, c), taps = found.rows, found.taps
    single = taps[0] * b * c + a * taps[1] * c + a * b * taps[2] + taps[0] * taps[1] * c
    last = 2.0 ** -(WEIGHT_BITS + 1)
    # The weights are rounded, too: 1 % stands for the product of two such errors.
    off = single * last * 1.01 + math.prod(taps) * 2.0 ** -(bits + 1)
    whole: int = math.ceil(off * DISTANCE * 2.0**bits) + 1
    return whole


@wide.lower
def wide_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_qresize16: a Resize of which x or y has 16 bits, along up to three axes.

    Weights are float32 bits; `error` and `slack` tell the kernel when a half is close.
    """
    found = tables(spec(m), eight=False)
    bits, taps = sum_bits(found), math.prod(found.taps)
    numbers = {
        **ratio(float(quantisation(m, "x").s) / float(quantisation(m, "y").s), bits - LOW_BITS),
        # float32 rounds once for each tap; a few roundings more are kept in reserve.
        "slack": (sum(found.taps) if found.nested else taps) + 8,
        "error": fixed_error(found, bits),
    }
    params = _params(c, m, found, bits, numbers)
    c.call(
        "aot_qresize16",
        m.y,
        m.x,
        c.const(np.concatenate([at.ravel() for at, _ in found.each]).astype(np.int32), "positions"),
        c.const(np.concatenate([w.ravel() for _, w in found.each]).view(np.int32), "weights"),
        c.scratch(8 * taps),
        params,
        instance={**type_constants(m), "NESTED": int(found.nested)},
    )


# -- cases -------------------------------------------------------------------------------

TRANSFORM = "resize.coordinate_transformation_mode"
LINEAR: dict[str, Any] = {"resize.mode": "linear"}
SMOOTH: dict[str, Any] = {**LINEAR, "resize.antialias": 1}
CROPPED: dict[str, Any] = {TRANSFORM: "tf_crop_and_resize", "resize.extrapolation_value": 1.7}
ROI = np.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 0.9], np.float32)


@narrow.cases
def narrow_cases() -> Iterator[Case]:
    """Resize of quantised values of 8 bits: x, its scale and zero point, roi, scales, sizes."""
    x, operands = quantised_values(1, 5, 6, 7), (*kind(0.0311, -7), None, None, i64(1, 5, 9, 4))
    for transform in TRANSFORMS[:5]:
        for mode in ("linear", "cubic"):
            attrs: dict[str, Any] = {"resize.mode": mode, TRANSFORM: transform}
            yield quantised_case(x, *operands, *kind(0.023171, 11), **attrs)
    size = (*kind(0.0311, 100, "uint8"), None, None, i64(2, 7, 3, 4, 9))
    unsigned = quantised_values(2, 7, 4, 4, 4, dtype="uint8")
    yield quantised_case(unsigned, *size, *kind(0.0212, 120, "uint8"), **LINEAR)
    rows = (*kind(0.0311, 3), None, None, i64(4, 21), *kind(0.0281, 3))
    yield quantised_case(quantised_values(3, 17), *rows, **LINEAR)
    small = (*kind(0.0311, 3), None, None, i64(1, 3, 3, 4), *kind(0.0181, 3))
    yield quantised_case(quantised_values(1, 3, 8, 9), *small, **SMOOTH)
    crop = (*kind(0.0311, 3), ROI, None, i64(1, 5, 3, 3), *kind(0.0281, 3))
    for mode in ("nearest", "linear"):
        yield quantised_case(x, *crop, **{**CROPPED, "resize.mode": mode})


@wide.cases
def wide_cases() -> Iterator[Case]:
    """Resize of quantised values of which x or y have 16 bits; operands as in `narrow_cases`."""
    x = quantised_values(1, 3, 6, 7, dtype="int16")
    operands = (*kind(2.9e-4, -7, "int16"), None, None, i64(1, 3, 9, 5))
    for transform, mode in zip(TRANSFORMS[:5], ("linear", "cubic") * 3, strict=False):
        attrs: dict[str, Any] = {"resize.mode": mode, TRANSFORM: transform}
        yield quantised_case(x, *operands, *kind(2.3e-4, 11, "int16"), **attrs)
    unsigned = quantised_values(2, 3, 4, 4, 4, dtype="uint16")
    size = (*kind(3e-4, 30000, "uint16"), None, None, i64(2, 3, 3, 4, 9))
    yield quantised_case(unsigned, *size, *kind(3e-4, 120, "uint8"), **LINEAR)
    small = (*kind(0.03, 3), None, None, i64(1, 3, 3, 4), *kind(3e-4, 3, "int16"))
    yield quantised_case(quantised_values(1, 3, 8, 9), *small, **SMOOTH)
    crop = (*kind(3e-4, 3, "int16"), ROI, None, i64(1, 3, 3, 3), *kind(2.8e-4, 3, "int16"))
    for mode in ("nearest", "linear"):
        yield quantised_case(x, *crop, **{**CROPPED, "resize.mode": mode})
