# SPDX-License-Identifier: Apache-2.0
"""Resize: positions and weights are tables made here, one axis at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aot.ir.dtypes import F32
from aot.ir.graph_nodes import attribute
from aot.ir.layout import Layout
from aot.ir.operators import Moves, SizedBy
from aot.ops.moves import stored
from aot.ops.registry import op
from aot.shapes.cures import Sizing, as_data, sizings
from aot.vendor.cases import Case, case, f32, i64, ints
from aot.vendor.match import Match, NodeRef, ValueRef
from aot.vendor.recorder import Recorder

if TYPE_CHECKING:
    import onnx_ir as ir

TRANSFORMS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
MODES = ("nearest", "linear", "cubic")
ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")

ATTRIBUTES: dict[str, Any] = {
    "mode": "nearest",
    "coordinate_transformation_mode": "half_pixel",
    "nearest_mode": "round_prefer_floor",
    "cubic_coeff_a": -0.75,
    "exclude_outside": 0,
    "extrapolation_value": 0.0,
    "antialias": 0,
    "axes": None,
    "keep_aspect_ratio_policy": "stretch",
}


def _picks(node: ir.Node) -> bool:
    """Whether a Resize gives elements of its input."""
    rule = str(attribute(node, "coordinate_transformation_mode", "half_pixel"))
    return str(attribute(node, "mode", "nearest")) == "nearest" and rule != "tf_crop_and_resize"


resize = op(
    "Resize",
    "x roi? scales? sizes?",
    traits=[SizedBy("roi scales sizes"), Moves("x", bytes_only=True, when=_picks)],
    **ATTRIBUTES,
)


sizings("Resize")(Sizing(real=True, examples={3: as_data}))
sizings("Upsample")(Sizing(real=True))


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """One resized axis: extents, the factor between them, and the region to crop (0..1).

    `given`: the model says the factor, not the size. `ratio`: else, of which two extents `scale` is
    the quotient (source, result).
    """

    axis: int
    source: int
    result: int
    scale: float
    start: float = 0.0
    end: float = 1.0
    given: bool = False
    ratio: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True)
class Spec:
    """A Resize inside a larger pattern: what `plans`, `weights` and `nearest` read of a match."""

    x: ValueRef
    y: ValueRef
    roi: ValueRef | None
    scales: ValueRef | None
    sizes: ValueRef | None
    node: NodeRef

    def __getattr__(self, name: str) -> Any:
        """An attribute of the operator, its default where it is absent."""
        if name not in ATTRIBUTES:
            raise AttributeError(name)
        return self.node.attr(name, ATTRIBUTES[name])


def _values(value: Any) -> list[float]:
    return [] if value is None or value.data is None else [float(v) for v in value.data.ravel()]


def plans(m: Match | Spec) -> list[AxisPlan]:
    """The axes whose elements change; others are left alone."""
    axes = [a % m.x.rank for a in m.axes or range(m.x.rank)]
    scales = _values(m.scales)
    sizes = _values(m.sizes)
    ratios = [(1, 1)] * len(axes)
    if sizes:
        ratios = [(m.x.shape[a], int(s)) for s, a in zip(sizes, axes, strict=True)]
        policy = m.keep_aspect_ratio_policy
        if policy != "stretch":
            decides = min if policy == "not_larger" else max
            ratios = [decides(ratios, key=lambda r: r[1] / r[0])] * len(axes)
        scales = [result / source for source, result in ratios]
    roi = _values(m.roi) or [0.0] * len(axes) + [1.0] * len(axes)
    cropped = m.coordinate_transformation_mode == "tf_crop_and_resize"
    found = []
    for i, axis in enumerate(axes):
        start, end = (roi[i], roi[i + len(axes)]) if cropped else (0.0, 1.0)
        extents = m.x.shape[axis], m.y.shape[axis]
        plan = AxisPlan(axis, *extents, scales[i], start, end, not sizes, ratios[i])
        if plan.source != plan.result or plan.scale != 1 or (start, end) != (0.0, 1.0):
            found.append(plan)
    return found


def positions(p: AxisPlan, transform: str) -> np.ndarray[Any, Any]:
    """Where each output lies on the input's axis (float64).

    Between two sizes the product is exact before the one division: what lies at an element, or half
    way between two, does so to the last bit.
    """
    i = np.arange(p.result, dtype=np.float64)
    if transform == "align_corners":
        if p.result == 1:
            return i * 0.0
        # As onnx's tests have it: the last position of the size before it is rounded down.
        if p.given:
            return i * ((p.source - 1) / (p.scale * p.source - 1))
        return i * (p.source - 1) / (p.result - 1)
    if transform == "tf_crop_and_resize":
        last = p.source - 1
        if p.result == 1:
            return i + 0.5 * (p.start + p.end) * last
        return p.start * last + i * (p.end - p.start) * last / (p.result - 1)
    if transform == "pytorch_half_pixel" and p.result == 1:
        return i * 0.0
    x = i if transform == "asymmetric" else i + 0.5
    source, result = (1, p.scale) if p.given else p.ratio
    x = x * source / result
    if transform in ("asymmetric", "tf_half_pixel_for_nn"):
        return x
    x = x - 0.5
    if transform == "half_pixel_symmetric":
        x = x + p.source / 2 * (1 - p.result * source / (result * p.source))
    return x


def rounded_positions(p: AxisPlan, transform: str) -> np.ndarray[Any, Any]:
    """`positions` as onnxruntime has them, rounded to float32 at every step.

    Factors like 0.6 are not what they say: 3 / 0.6 is 5 in float32 and a little less in float64,
    which would be another element.
    """
    i, scale = np.arange(p.result, dtype=np.float32), np.float32(p.scale)
    source, result = np.float32(p.source), np.float32(p.result)
    one, half = np.float32(1), np.float32(0.5)
    if scale == 1:
        return i
    if transform == "asymmetric":
        return np.asarray(i / scale)
    if transform == "tf_half_pixel_for_nn":
        return np.asarray((i + half) / scale)
    if transform == "align_corners":
        return np.asarray(i * (source - one) / (result - one)) if p.result > 1 else i * 0
    if transform == "tf_crop_and_resize":
        start, end, last = np.float32(p.start), np.float32(p.end), source - one
        if p.result == 1:
            return np.full(1, 0.5 * float(start + end) * float(last)).astype(np.float32)
        return np.asarray(start * last + (i * (end - start) * last) / (result - one))
    if transform == "half_pixel_symmetric":
        offset = source * half * (one - result / (scale * source))
        wide = (i.astype(np.float64) + 0.5) / float(scale)
        return np.asarray((float(offset) + wide - 0.5).astype(np.float32))
    if transform == "pytorch_half_pixel" and p.result == 1:
        return i * 0
    return np.asarray((i + half) / scale - half)


#: Transforms by whose float32 positions the nearest element is chosen where the factor is given,
#: and how near to the middle between two such a position is in the middle (as in onnxruntime).
ROUNDED = ("asymmetric", "half_pixel", "half_pixel_symmetric", "tf_half_pixel_for_nn")
MIDDLE = 1e-6


def _deciding(p: AxisPlan, transform: str, rounding: str) -> np.ndarray[Any, Any]:
    """The positions whose nearest elements are meant (float64)."""
    rounded = transform in ROUNDED or (transform == "pytorch_half_pixel" and p.result > 1)
    if not p.given or not rounded:
        return positions(p, transform)
    x = rounded_positions(p, transform).astype(np.float64)
    middle = np.floor(x) + 0.5
    if rounding.startswith("round"):
        x = np.where(np.abs(x - middle) < MIDDLE, middle, x)
    return x


def nearest(p: AxisPlan, transform: str, rounding: str) -> np.ndarray[Any, Any]:
    """The input index of each output (int32), -1 outside the cropped region."""
    x = _deciding(p, transform, rounding)
    if rounding == "floor":
        near = np.floor(x)
    elif rounding == "ceil":
        near = np.ceil(x)
    elif rounding == "round_prefer_floor":
        near = np.ceil(x - 0.5)
    else:
        near = np.floor(x + 0.5)
    table: np.ndarray[Any, Any] = np.clip(near, 0, p.source - 1).astype(np.int32)
    if transform == "tf_crop_and_resize":
        table[(x < 0) | (x > p.source - 1)] = -1
    return table


def _triangle(d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    result: np.ndarray[Any, Any] = np.maximum(0.0, 1.0 - np.abs(d))
    return result


def _cubic(a: float) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Keys' cubic convolution with slope `a` at distance 1."""

    def weight(d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        t = np.abs(d)
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        result: np.ndarray[Any, Any] = np.where(t <= 1, near, np.where(t < 2, far, 0.0))
        return result

    return weight


def weights(m: Match | Spec, p: AxisPlan) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(indices int32, weights float32), each [outputs, taps]; index -1 marks an output outside."""
    transform = m.coordinate_transformation_mode
    x = positions(p, transform)
    cubic = m.mode == "cubic"
    kernel = _cubic(float(m.cubic_coeff_a)) if cubic else _triangle
    # Antialiasing widens the kernel when shrinking.
    shrink = min(p.scale, 1.0) if m.antialias else 1.0
    reach = (2 if cubic else 1) / shrink
    base = np.ceil(x) - 1
    first = math.floor(-reach) + 1
    offsets = np.arange(first, 2 - first)
    w = kernel((offsets[None, :] - (x - base)[:, None]) * shrink)
    at = base[:, None] + offsets[None, :]
    if m.exclude_outside:
        w = np.where((at < 0) | (at >= p.source), 0.0, w)
    w = w / w.sum(1, keepdims=True)
    table = np.clip(at, 0, p.source - 1).astype(np.int32)
    if transform == "tf_crop_and_resize":
        table[(x < 0) | (x > p.source - 1)] = -1
    used = np.flatnonzero((w != 0).any(0))
    low, high = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 1)
    return table[:, low:high], w[:, low:high].astype(np.float32)


@resize.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield from known_form(m)
    if m.mode != "nearest":
        yield m.x.dtype is F32, f"mode {m.mode} of {m.x.dtype} (needs float32)"


def known_form(m: Match | Spec) -> Iterator[tuple[bool, str]]:
    """Checks that the tables can be made at compile time."""
    transform = m.coordinate_transformation_mode
    yield 0 not in m.x.shape, f"an empty tensor {list(m.x.shape)}"
    if 0 in m.x.shape:
        return
    yield m.mode in MODES, f"mode {m.mode!r} (needs one of {', '.join(MODES)})"
    yield transform in TRANSFORMS, f"coordinate_transformation_mode {transform!r}"
    yield m.nearest_mode in ROUNDING, f"nearest_mode {m.nearest_mode!r}"
    yield from _constant_factors(m)
    if transform == "tf_crop_and_resize":
        yield m.roi is not None and m.roi.is_const, "roi is computed at run time (needs a constant)"


def _constant_factors(m: Match | Spec) -> Iterator[tuple[bool, str]]:
    given = (m.scales, m.sizes)
    known = any(v is not None and v.is_const and math.prod(v.shape) > 0 for v in given)
    yield known, "neither scales nor sizes are constant"
    yield 0 not in m.x.shape, f"an empty tensor {list(m.x.shape)}"
    if known and m.mode == "nearest":
        span = span_of([p.axis for p in plans(m)])
        yield len(span) <= 3, f"nearest over axes {list(span)} (at most 3 in a row)"


def span_of(axes: list[int]) -> range:
    """The shortest run of axes that holds all of `axes`."""
    return range(min(axes), max(axes) + 1) if axes else range(0)


@resize.layouts
def keeps_blocks(m: Match, incoming: dict[str, Layout], _vlen: int) -> dict[str, Layout]:
    """Channels in blocks stay so while only spatial axes are resized."""
    layout = incoming["x"]
    if not layout.blocked or any(p.axis < 2 for p in plans(m)):
        return {}
    return {"x": layout, "y": layout}


@resize.lower
def to_kernel(c: Recorder, m: Match) -> None:
    todo = plans(m)
    if not todo:
        c.view(m.y, m.x)
    elif m.mode == "nearest":
        _nearest_call(c, m, todo)
    else:
        _weighted_calls(c, m, todo)


def _nearest_call(c: Recorder, m: Match, todo: list[AxisPlan]) -> None:
    transform = m.coordinate_transformation_mode
    rounding = m.nearest_mode
    span = span_of([p.axis for p in todo])
    source, result = stored(m.x), stored(m.y)
    tables = {p.axis: nearest(p, transform, rounding) for p in todo}
    rows = [tables.get(a, np.arange(source[a], dtype=np.int32)) for a in span]
    missing = 3 - len(rows)
    rows = [np.zeros(1, np.int32)] * missing + rows
    value = np.full(1, m.extrapolation_value).astype(m.x.dtype.numpy)
    params = c.params(
        outer=math.prod(source[: span.start]),
        **{"in": (1,) * missing + source[span.start : span.stop]},
        out=(1,) * missing + result[span.start : span.stop],
        inner=math.prod(source[span.stop :]),
    )
    table = c.const(np.concatenate(rows), "positions")
    instance = {"E": m.x.dtype.nbytes}
    operands = (m.y, m.x, table, c.const(value, "outside"), params)
    c.call("aot_resize_nearest", *operands, instance=instance, header="aot_resize.h")


def _weighted_calls(c: Recorder, m: Match, todo: list[AxisPlan]) -> None:
    """One pass per axis, the ones that shrink most first: what lies between stays small."""
    todo = sorted(todo, key=lambda p: (p.result / p.source, p.axis))
    logical, here = list(m.x.shape), m.x
    for i, p in enumerate(todo):
        physical = m.x.layout.physical(tuple(logical))
        logical[p.axis] = p.result
        last = i + 1 == len(todo)
        to = m.y if last else c.temp(logical, m.x.dtype, m.x.layout, "resized")
        table, w = weights(m, p)
        params = c.params(
            outer=math.prod(physical[: p.axis]),
            **{"in": p.source},
            out=p.result,
            inner=math.prod(physical[p.axis + 1 :]),
            taps=table.shape[1],
            outside=float(m.extrapolation_value),
        )
        operands = (to, here, c.const(table, "positions"), c.const(w, "weights"), params)
        c.call("aot_resize_axis_f32", *operands, header="aot_resize.h")
        here = to


def _scaled(*factors: float) -> np.ndarray[Any, Any]:
    return np.array(factors, np.float32)


@resize.cases
def cases() -> Iterator[Case]:
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
