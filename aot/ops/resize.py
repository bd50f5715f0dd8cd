# SPDX-License-Identifier: Apache-2.0
"""Resize: positions and weights are tables made here, one axis at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute
from aot.ir.operators import Moves, OneOf, SizedBy, operator
from aot.ir.rows import Planes, Rowwise, Window
from aot.ops.registry import op
from aot.shapes.cures import Sizing, as_data, sizings
from aot.vendor import F32, S8, U8, Layout, Match, Recorder, ValueRef
from aot.vendor.arguments import ParamFields
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.quantisation import all_hold
from aot.vendor.resize import (
    ATTRIBUTES,
    MODES,
    ROUNDING,
    TRANSFORMS,
    AxisPlan,
    Resize,
    known_form,
    nearest,
    plans,
    positions,
    span_of,
)
from aot.vendor.strided_copy import stored

TEXTS = {
    "mode": OneOf(" ".join(MODES), "nearest"),
    "coordinate_transformation_mode": OneOf(" ".join(TRANSFORMS), "half_pixel"),
    "nearest_mode": OneOf(" ".join(ROUNDING), "round_prefer_floor"),
    "keep_aspect_ratio_policy": OneOf("stretch not_larger not_smaller", "stretch"),
}


def _picks(node: ir.Node) -> bool:
    """Whether every element of a Resize's result is an element of its input: nearest, no
    cropping.
    """
    rule = str(attribute(node, "coordinate_transformation_mode", "half_pixel"))
    return str(attribute(node, "mode", "nearest")) == "nearest" and rule != "tf_crop_and_resize"


resize = op(
    "Resize",
    "x roi? scales? sizes?",
    traits=[SizedBy("roi scales sizes"), Moves("x", bytes_only=True, when=_picks)],
    **ATTRIBUTES | TEXTS,
    rules=[sizings.by(Sizing(real=True, examples={3: as_data}))],
)


operator(
    "Upsample",
    "x scales?",
    mode=OneOf("nearest linear bilinear trilinear cubic", "nearest"),
    rules=[sizings.by(Sizing(real=True))],
)


def _triangle(d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The weights of linear interpolation at distances `d`, in elements."""
    result: np.ndarray[Any, Any] = np.maximum(0.0, 1.0 - np.abs(d))
    return result


def _cubic(a: float) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """The weights of Keys' cubic convolution by distance, with slope `a` at distance 1."""

    def weight(d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The weights at distances `d`, in elements; 0 from distance 2 on."""
        t = np.abs(d)
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        result: np.ndarray[Any, Any] = np.where(t <= 1, near, np.where(t < 2, far, 0.0))
        return result

    return weight


def weights(
    m: Match | Resize, axis_plan: AxisPlan
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The inputs of every output along an axis and their shares: int32 and float32 [outputs, taps].

    An index of -1 marks an output outside of the cropped region; indices beyond an end are those of
    the end. Shares of an output sum to 1. Columns that are 0 for all outputs are left out.
    """
    transform = m.coordinate_transformation_mode
    x = positions(axis_plan, transform)
    cubic = m.mode == "cubic"
    kernel = _cubic(float(m.cubic_coeff_a)) if cubic else _triangle
    # Antialiasing widens the kernel when shrinking.
    shrink = min(axis_plan.scale, 1.0) if m.antialias else 1.0
    reach = (2 if cubic else 1) / shrink
    base = np.ceil(x) - 1
    first = math.floor(-reach) + 1
    offsets = np.arange(first, 2 - first)
    w = kernel((offsets[None, :] - (x - base)[:, None]) * shrink)
    at = base[:, None] + offsets[None, :]
    if m.exclude_outside:
        w = np.where((at < 0) | (at >= axis_plan.source), 0.0, w)
    w = w / w.sum(1, keepdims=True)
    table = np.clip(at, 0, axis_plan.source - 1).astype(np.int32)
    if transform == "tf_crop_and_resize":
        table[(x < 0) | (x > axis_plan.source - 1)] = -1
    used = np.flatnonzero((w != 0).any(0))
    low, high = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 1)
    return table[:, low:high], w[:, low:high].astype(np.float32)


@resize.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that tables can be made at compile time, and what is weighed.

    Beside float32 these are 8-bit integers, whose results lose their fraction as onnxruntime's do:
    float32 must have them exactly.
    """
    if not (yield from all_hold(known_form(m))) or m.mode == "nearest":
        return
    whole = m.x.dtype in (S8, U8) and m.mode == "linear" and not m.antialias
    whole = whole and m.coordinate_transformation_mode != "tf_crop_and_resize"
    yield m.x.dtype is F32 or whole, f"mode {m.mode} of {m.x.dtype} (needs float32)"
    if whole:
        # Products of an element and all weights have 24 bits at most.
        steps = 2 ** (16 // max(1, len(plans(m))))
        exact = all((steps * weights(m, p)[1] % 1 == 0).all() for p in plans(m))
        yield exact, f"{m.x.dtype} with weights that are no multiples of 1/{steps} (needs float32)"


@resize.layouts
def keeps_blocks(m: Match, incoming: dict[str, Layout], _vlen: int) -> dict[str, Layout]:
    """The layouts: blocked x stays blocked while only spatial axes are resized."""
    layout = incoming["x"]
    if not layout.blocked or any(p.axis < 2 for p in plans(m)):
        return {}
    return {"x": layout, "y": layout}


@resize.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record a Resize: a view if no axis changes, one call for nearest, else a call per axis."""
    todo = plans(m)
    if not todo:
        c.view(m.y, m.x)
    elif m.mode == "nearest":
        _nearest_call(c, m, todo)
    else:
        _weighted_calls(c, m, todo)


def _nearest_call(c: Recorder, m: Match, todo: list[AxisPlan]) -> None:
    """Record aot_resize_nearest over the run of up to three axes that holds all of `todo`.

    Its table has the input index of each output, axis after axis.
    """
    transform = m.coordinate_transformation_mode
    rounding = m.nearest_mode
    span = span_of([p.axis for p in todo])
    source, result = stored(m.x), stored(m.y)
    tables = {p.axis: nearest(p, transform, rounding) for p in todo}
    # An axis between two that change stays as it is: each index is its own.
    # Rows are the second of three axes, so that a call can make them one by one.
    extents = [
        ((source[a], result[a]), tables.get(a, np.arange(source[a], dtype=np.int32))) for a in span
    ]
    one = [((1, 1), np.zeros(1, np.int32))]
    extents = [*one, *extents, *one][:3] if len(extents) < 3 and span.start == 2 else extents
    extents = one * (3 - len(extents)) + extents
    value = np.full(1, m.extrapolation_value).astype(m.x.dtype.numpy)
    outer, inner = math.prod(source[: span.start]), math.prod(source[span.stop :])
    params = c.params(
        outer=outer,
        **{"in": tuple(n for (n, _), _ in extents)},
        out=tuple(n for (_, n), _ in extents),
        inner=inner,
        row0=0,
        row1=extents[1][0][1],
        y_plane=math.prod(result[span.start :]),
        x_plane=math.prod(source[span.start :]),
    )
    table = c.const(np.concatenate([t for _, t in extents]), "positions")
    operands = (m.y, m.x, table, c.const(value, "outside"), params)
    rowwise = None
    if span.start == 2 and 2 in tables:
        window = row_window(m, tables[2][:, None])
        rowwise = by_rows(m, window, (("row0", -1, "row"), ("row1", -1, "next")))
    instance = {"E": m.x.dtype.nbytes}
    header = "aot_resize.h"
    c.call("aot_resize_nearest", *operands, instance=instance, header=header, rowwise=rowwise)


def row_window(m: Match | Resize, table: np.ndarray[Any, Any]) -> Window | None:
    """The window of rows behind a `table` of the rows that each row of a result is made of.

    None where these are not among rows from a first one on that is a fraction of the result's row.
    """
    height, result, taps = m.x.shape[2], m.y.shape[2], table.shape[1]
    forms = [(height, 0, result), (height - 1, 0, max(1, result - 1))]
    forms.append((2 * height, result - height, 2 * result))  # centres of pixels
    for stride, before, per in forms:
        unit = math.gcd(stride, before, per)
        # Positions that are whole numbers may come with the element before, which counts nothing.
        for more in range(2):
            first = before // unit + more
            window = Window(1, height, taps, stride // unit, 1, first, per // unit)
            if all(set(own) <= set(window.rows(r)) for r, own in enumerate(table.tolist())):
                return window
    return None


def by_rows(
    m: Match | Resize, window: Window | None, fields: tuple[tuple[str, int, str], ...]
) -> Rowwise | None:
    """How a kernel with `y_plane` and `x_plane` makes rows of y, None if it cannot: batches,
    channels that are stored plain, a row, or a `window` of another kind."""
    if window is None or m.x.rank != 4 or m.x.shape[0] != 1 or m.y.shape[2] < 2:
        return None
    planes, width, own, lanes = stored(m.x)[1], m.y.shape[3], m.x.shape[3], m.x.layout.block or 1
    apart = (Planes(0, planes, width * lanes, "y_plane"), Planes(1, planes, own * lanes, "x_plane"))
    return Rowwise(m.y.shape[2], (0,), window, fields, planes=apart)


def _weighted_calls(c: Recorder, m: Match, todo: list[AxisPlan]) -> None:
    """Record one call of aot_resize_axis_f32 per axis of `todo`, on integers converted to float32.

    The axes that shrink most come first, so that tensors between stay small.
    """
    todo = sorted(todo, key=lambda p: (p.result / p.source, p.axis))
    logical, here, result = list(m.x.shape), m.x, m.y
    if integers := m.x.dtype is not F32:
        here, result = (c.temp(v.shape, F32, v.layout, "floats") for v in (m.x, m.y))
        c.call(f"aot_cast_{m.x.dtype.short}_f32", here, m.x, _count(c, m.x), header="aot_cast.h")
    for i, p in enumerate(todo):
        physical = m.x.layout.physical(tuple(logical))
        logical[p.axis] = p.result
        last = i + 1 == len(todo)
        to = result if last else c.temp(logical, F32, m.x.layout, "resized")
        table, w = weights(m, p)
        params = c.params(
            outer=math.prod(physical[: p.axis]),
            o0=0,
            o1=p.result,
            inner=(inner := math.prod(physical[p.axis + 1 :])),
            taps=table.shape[1],
            outside=float(m.extrapolation_value),
            y_plane=p.result * inner,
            x_plane=p.source * inner,
            top=0,
        )
        operands = (to, here, c.const(table, "positions"), c.const(w, "weights"), params)
        instance, header = {"ROWS": int(p.axis == 2)}, "aot_resize.h"
        rowwise = _axis_rowwise(m, p, physical, table)
        c.call("aot_resize_axis_f32", *operands, instance=instance, header=header, rowwise=rowwise)
        here = to
    if integers:
        c.call(f"aot_cast_f32_{m.y.dtype.short}", m.y, here, _count(c, m.y), header="aot_cast.h")


def _count(c: Recorder, value: ValueRef) -> ParamFields:
    """The parameters of a conversion of all elements of `value` as they are stored."""
    return c.params(n=math.prod(stored(value)))


def _axis_rowwise(
    m: Match, p: AxisPlan, source: tuple[int, ...], table: np.ndarray[Any, Any]
) -> Rowwise | None:
    """How the height or width of what is stored as `source` is resized row by row."""
    if m.x.rank != 4 or m.x.shape[0] != 1 or p.axis < 2:
        return None
    _, planes, height, width, lanes = (*source, 1)[:5]
    if p.axis == 2:
        window, length = row_window(m, table), width * lanes
        apart = tuple(Planes(k, planes, length, f"{n}_plane") for k, n in enumerate("yx"))
        fields = (("o0", -1, "row"), ("o1", -1, "next"), ("top", -1, "top"))
        made = Rowwise(p.result, (0,), window, fields, planes=apart)
        return made if window and p.result > 1 else None
    # As a whole the axes before are planes and rows: in a row they are planes.
    steps, names = (p.result * lanes, width * lanes), ("y_plane", "x_plane")
    apart = tuple(Planes(k, planes, steps[k], names[k]) for k in range(2))
    sizes = tuple((names[k], -1, str(height * steps[k])) for k in range(2))
    made = Rowwise(height, (0, 1), fields=(("outer", -1, str(planes)), *sizes), planes=apart)
    return made if height > 1 else None


def _scaled(*factors: float) -> np.ndarray[Any, Any]:
    """Scales of a case as a float32 vector."""
    return np.array(factors, np.float32)


@resize.cases
def cases() -> Iterator[Case]:
    """Resize(X, roi, scales, sizes): every mode and rule for coordinates, up and down."""
    x, none = f32(1, 5, 6, 7), None
    two, odd = _scaled(1, 1, 2, 2), _scaled(1, 1, 1.6, 0.6)
    for transform in TRANSFORMS[:5]:
        for mode in MODES:
            yield case(
                x,
                none,
                none,
                i64(1, 5, 9, 4),
                const=(3,),
                mode=mode,
                coordinate_transformation_mode=transform,
            )
    yield case(
        x, none, two, const=(2,), coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    clear = _scaled(1, 1, 1.6, 0.55)  # oracles disagree where float32 decides between elements
    for rounding in ROUNDING:
        yield case(x, none, clear, const=(2,), nearest_mode=rounding)
    for mode in MODES:
        yield case(
            x, none, odd, const=(2,), mode=mode, coordinate_transformation_mode="align_corners"
        )
    yield case(x, none, odd, const=(2,), mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5)
    yield case(x, none, _scaled(1, 1, 0.4, 0.6), const=(2,), mode="linear", antialias=1)
    yield case(x, none, _scaled(1, 1, 0.4, 0.6), const=(2,), mode="cubic", antialias=1)
    yield case(x, none, none, i64(3, 14), const=(3,), mode="linear", axes=[2, 3])
    yield case(ints(1, 2, 3, 4, dtype="uint8", low=0, high=99), none, two, const=(2,))
    yield case(f32(1, 2, 9), none, none, i64(1, 2, 4), const=(3,), mode="linear")
    roi = np.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 0.9], np.float32)
    for mode in MODES[1:]:
        yield case(
            x,
            roi,
            none,
            i64(1, 5, 3, 3),
            const=(1, 3),
            mode=mode,
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=10.0,
        )
    policy = "not_larger"
    yield case(x, none, none, i64(9, 9), const=(3,), axes=[2, 3], keep_aspect_ratio_policy=policy)
