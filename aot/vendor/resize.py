# SPDX-License-Identifier: Apache-2.0
"""A matched Resize: which axes change, and where their outputs lie on the input."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.vendor.match import Match, NodeRef, ValueRef

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
class Resize:
    """A matched Resize: its operands, and its attributes by name (`mode`, `antialias`, …).

    `roi`, `scales` and `sizes` are absent (None) or, once `checks` hold, constants.
    """

    x: ValueRef
    y: ValueRef
    roi: ValueRef | None
    scales: ValueRef | None
    sizes: ValueRef | None
    node: NodeRef

    def __getattr__(self, name: str) -> Any:
        """The attribute `name` of the operator, or its default; AttributeError for a name it does
        not have.
        """
        if name not in ATTRIBUTES:
            raise AttributeError(name)
        return self.node.attr(name, ATTRIBUTES[name])

    @classmethod
    def of(cls, m: Match) -> Resize:
        """The record of a match whose root is a Resize with operands x, roi, scales and sizes."""
        return cls(m.x, m.y, m.roi, m.scales, m.sizes, m.root)

    def checks(self) -> Iterator[tuple[bool, str]]:
        """Checks that mode and sizes are known, so that all positions can be computed at compile
        time.
        """
        yield from known_form(self)

    def plans(self) -> list[AxisPlan]:
        """The axes whose elements change: each with `axis`, `source` and `result` extents."""
        return plans(self)

    def positions(self, plan: AxisPlan) -> np.ndarray[Any, Any]:
        """Where each output lies on the axis of the input (float64, in elements)."""
        return positions(plan, self.coordinate_transformation_mode)

    def nearest(self, plan: AxisPlan) -> np.ndarray[Any, Any]:
        """The input index of each output (int32), -1 outside the cropped region."""
        return nearest(plan, self.coordinate_transformation_mode, self.nearest_mode)


def _values(value: Any) -> list[float]:
    """The elements of a constant as floats, in order; [] for an absent or computed value."""
    return [] if value is None or value.data is None else [float(v) for v in value.data.ravel()]


def plans(m: Match | Resize) -> list[AxisPlan]:
    """A plan for every axis that a Resize changes; axes that stay as they are have none.

    Sizes or scales, whichever the node has, belong to m.axes (all axes if it lists none). With
    sizes, keep_aspect_ratio_policy makes one ratio of all; an axis is cropped to its part of roi
    with tf_crop_and_resize only.
    """
    axes = [a % m.x.rank for a in m.axes or range(m.x.rank)]
    scales = _values(m.scales)
    sizes = _values(m.sizes)
    ratios = [(1, 1)] * len(axes)
    if sizes:
        # Both sizes are kept beside the quotient, which is rounded.
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


def positions(axis_plan: AxisPlan, transform: str) -> np.ndarray[Any, Any]:
    """Where each output lies on the input's axis (float64).

    Between two sizes the product is exact before the one division: what lies at an element, or half
    way between two, does so to the last bit.
    """
    i = np.arange(axis_plan.result, dtype=np.float64)
    if transform == "align_corners":
        if axis_plan.result == 1:
            return i * 0.0
        # As onnx's tests have it: the last position of the size before it is rounded down.
        if axis_plan.given:
            return i * ((axis_plan.source - 1) / (axis_plan.scale * axis_plan.source - 1))
        return i * (axis_plan.source - 1) / (axis_plan.result - 1)
    if transform == "tf_crop_and_resize":
        last = axis_plan.source - 1
        if axis_plan.result == 1:
            return i + 0.5 * (axis_plan.start + axis_plan.end) * last
        return axis_plan.start * last + i * (axis_plan.end - axis_plan.start) * last / (
            axis_plan.result - 1
        )
    if transform == "pytorch_half_pixel" and axis_plan.result == 1:
        return i * 0.0
    x = i if transform == "asymmetric" else i + 0.5
    source, result = (1, axis_plan.scale) if axis_plan.given else axis_plan.ratio
    x = x * source / result
    if transform in ("asymmetric", "tf_half_pixel_for_nn"):
        return x
    x = x - 0.5
    if transform == "half_pixel_symmetric":
        x = x + axis_plan.source / 2 * (1 - axis_plan.result * source / (result * axis_plan.source))
    return x


def rounded_positions(axis_plan: AxisPlan, transform: str) -> np.ndarray[Any, Any]:
    """Positions of outputs on the input's axis in float32, rounded at every step as onnxruntime
    does.

    A factor like 0.6 is not exact: 3 / 0.6 is 5 in float32 and a little less in float64, which
    names another element.
    """
    i, scale = np.arange(axis_plan.result, dtype=np.float32), np.float32(axis_plan.scale)
    source, result = np.float32(axis_plan.source), np.float32(axis_plan.result)
    one, half = np.float32(1), np.float32(0.5)
    if scale == 1:
        return i
    if transform == "asymmetric":
        return np.asarray(i / scale)
    if transform == "tf_half_pixel_for_nn":
        return np.asarray((i + half) / scale)
    # A single result has no distance to a next one, and would divide by 0.
    if transform == "align_corners":
        return np.asarray(i * (source - one) / (result - one)) if axis_plan.result > 1 else i * 0
    if transform == "tf_crop_and_resize":
        start, end, last = np.float32(axis_plan.start), np.float32(axis_plan.end), source - one
        if axis_plan.result == 1:
            return np.full(1, 0.5 * float(start + end) * float(last)).astype(np.float32)
        return np.asarray(start * last + (i * (end - start) * last) / (result - one))
    if transform == "half_pixel_symmetric":
        offset = source * half * (one - result / (scale * source))
        wide = (i.astype(np.float64) + 0.5) / float(scale)
        return np.asarray((float(offset) + wide - 0.5).astype(np.float32))
    if transform == "pytorch_half_pixel" and axis_plan.result == 1:
        return i * 0
    return np.asarray((i + half) / scale - half)


#: Transforms by whose float32 positions the nearest element is chosen where the factor is given,
#: and how near to the middle between two such a position is in the middle (as in onnxruntime).
ROUNDED = ("asymmetric", "half_pixel", "half_pixel_symmetric", "tf_half_pixel_for_nn")
MIDDLE = 1e-6


def _deciding(axis_plan: AxisPlan, transform: str, rounding: str) -> np.ndarray[Any, Any]:
    """The positions (float64) from which the nearest element of each output is chosen.

    Where the model gives the factor they are rounded as in onnxruntime, and a position very near
    the middle of two elements counts as the middle.
    """
    rounded = transform in ROUNDED or (transform == "pytorch_half_pixel" and axis_plan.result > 1)
    if not axis_plan.given or not rounded:
        return positions(axis_plan, transform)
    x = rounded_positions(axis_plan, transform).astype(np.float64)
    middle = np.floor(x) + 0.5
    if rounding.startswith("round"):
        x = np.where(np.abs(x - middle) < MIDDLE, middle, x)
    return x


def nearest(axis_plan: AxisPlan, transform: str, rounding: str) -> np.ndarray[Any, Any]:
    """The input index of each output along an axis (int32); -1 outside the cropped region.

    `transform` and `rounding` are ONNX's coordinate_transformation_mode and nearest_mode.
    """
    x = _deciding(axis_plan, transform, rounding)
    if rounding == "floor":
        near = np.floor(x)
    elif rounding == "ceil":
        near = np.ceil(x)
    elif rounding == "round_prefer_floor":
        near = np.ceil(x - 0.5)
    else:
        near = np.floor(x + 0.5)
    table: np.ndarray[Any, Any] = np.clip(near, 0, axis_plan.source - 1).astype(np.int32)
    if transform == "tf_crop_and_resize":
        table[(x < 0) | (x > axis_plan.source - 1)] = -1
    return table


def known_form(m: Match | Resize) -> Iterator[tuple[bool, str]]:
    """Checks that modes are known and sizes, scales and roi are constants as far as they are
    needed.
    """
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


def _constant_factors(m: Match | Resize) -> Iterator[tuple[bool, str]]:
    """Checks that sizes or scales are constant; nearest may span three neighbouring axes at
    most.
    """
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
