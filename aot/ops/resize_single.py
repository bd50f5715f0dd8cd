# SPDX-License-Identifier: Apache-2.0
"""Positions and weights of Resize rounded to float32 as onnxruntime rounds them, step by step.

With quantised values of 16 bits a position that is 2^-20 off moves an output by a sixteenth of a
code, so that integers agree with float32 only if they start from its weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aot.ir.graph_nodes import Array
from aot.vendor.resize import AxisPlan, Resize, nearest, positions, rounded_positions

F = np.float32
#: A position that differs by more from the exact one does not mean the same.
NEAR = 1e-3


def single_positions(axis_plan: AxisPlan, transform: str) -> Array:
    """The positions of outputs on an axis in float32, rounded as onnxruntime rounds them.

    Where that differs much from the exact positions it would mean other elements: then these are
    rounded once.
    """
    exact = positions(axis_plan, transform)
    found = rounded_positions(axis_plan, transform)
    agree = np.abs(found - exact).max(initial=0.0) < NEAR
    return found if agree else np.asarray(exact.astype(np.float32))


def single_weights(resize: Resize, axis_plan: AxisPlan) -> tuple[Array, Array]:
    """(indices int32, weights float32) of one axis, each [outputs, taps], in every mode.

    An index -1 marks an output outside.
    """
    transform = resize.coordinate_transformation_mode
    if resize.mode == "nearest":
        near = nearest(axis_plan, transform, resize.nearest_mode)[:, None]
        return near, np.ones(near.shape, np.float32)
    x = single_positions(axis_plan, transform)
    if resize.antialias:
        at, w = _filtered(resize, axis_plan, x)
    else:
        at, w = (
            _cubic(resize, axis_plan, x) if resize.mode == "cubic" else linear(x, axis_plan.source)
        )
    outside = (x < 0) | (x > axis_plan.source - 1)
    if transform == "tf_crop_and_resize":
        at[outside] = -1
    w[np.abs(w) < 2.0**-60] = 0  # far below the last bit of any sum, and no subnormal
    return at, w


def linear(x: Array, source: int) -> tuple[Array, Array]:
    """(indices int32, weights float32), each [outputs, 2], of the neighbours of positions `x`.

    Positions are clipped to the axis of `source` inputs; at its end the last input counts twice by
    half.
    """
    x = np.clip(x, F(0), F(source - 1))
    first = np.minimum(x.astype(np.int32), source - 1)
    second = np.minimum(first + 1, source - 1).astype(np.int32)
    far, near = np.abs(x - first.astype(np.float32)), np.abs(x - second.astype(np.float32))
    w = np.stack([near, far], 1).astype(np.float32)
    w[first == second] = 0.5
    return np.stack([first, second], 1).astype(np.int32), w


def _cubic(resize: Resize, axis_plan: AxisPlan, x: Array) -> tuple[Array, Array]:
    """(indices int32, weights float32), each [outputs, 4], of Keys' polynomials at positions `x`.

    Operations are in the order of onnxruntime's, each rounded to float32.
    """
    a, one, whole = F(resize.cubic_coeff_a), F(1), np.floor(x)
    d = x - whole

    def outer(t: Array) -> Array:
        """The polynomial of the two outer neighbours at distance `t` from 1 to 2."""
        return np.asarray(((a * t - F(5) * a) * t + F(8) * a) * t - F(4) * a)

    def inner(t: Array) -> Array:
        """The polynomial of the two inner neighbours at distance `t` from 0 to 1."""
        return np.asarray(((a + F(2)) * t - (a + F(3))) * t * t + one)

    w = np.stack([outer(d + one), inner(d), inner(one - d), outer(F(2) - d)], 1)
    at = whole.astype(np.int32)[:, None] + np.arange(-1, 3, dtype=np.int32)
    if resize.exclude_outside:
        w = np.where((at < 0) | (at >= axis_plan.source), F(0), w)
        w = w / _in_order(w)[:, None]
    return np.clip(at, 0, axis_plan.source - 1).astype(np.int32), w.astype(np.float32)


def _in_order(w: Array) -> Array:
    """The float32 sum of each row, added from left to right."""
    total = np.zeros(len(w), np.float32)
    for column in w.T:
        total = total + column
    return total


def _filter(resize: Resize, d: Array) -> Array:
    """The antialiasing filter (triangle or cubic) at distances `d`, in float32."""
    t, one = np.abs(d), F(1)
    if resize.mode == "linear":
        return np.asarray(np.where(t < one, one - t, F(0)))
    a = F(resize.cubic_coeff_a)
    near = ((a + F(2)) * t - (a + F(3))) * t * t + one
    far = (((t - F(5)) * t + F(8)) * t - F(4)) * a
    return np.asarray(np.where(t < one, near, np.where(t < F(2), far, F(0))))


def _filtered(resize: Resize, axis_plan: AxisPlan, x: Array) -> tuple[Array, Array]:
    """(indices int32, weights float32), each [outputs, taps], of a Resize with antialias.

    Elements outside count for the first and the last input, or not at all with exclude_outside.
    """
    half = F(0.5)
    wide = F(1) / F(axis_plan.scale)
    reach = F(1 if resize.mode == "linear" else 2)
    # A filter that shrinks the image has to cover all elements between two results.
    support = reach * wide if wide >= 1 else reach
    shrink = F(1) / wide if wide >= 1 else F(1)
    centre = half + x
    first = np.floor(centre - support + half).astype(np.int64)
    last = np.floor(centre + support + half).astype(np.int64)
    rows = [
        _row(resize, axis_plan.source, (int(a), int(b)), c, shrink)
        for a, b, c in zip(first, last, centre, strict=True)
    ]
    taps = max(len(w) for _, w in rows)
    at, table = np.zeros((len(rows), taps), np.int32), np.zeros((len(rows), taps), np.float32)
    for i, (start, w) in enumerate(rows):
        at[i] = np.minimum(start + np.arange(taps), axis_plan.source - 1)
        table[i, : len(w)] = w
    return at, table


def _row(
    resize: Resize, source: int, ends: tuple[int, int], centre: Any, shrink: Any
) -> tuple[int, Array]:
    """(first input, weights) of one output, whose filter reaches over the inputs `ends` (first,
    end).

    `centre` is its position plus one half, `shrink` the factor of distances.
    """
    cut = np.clip(ends, 0, source)
    low, high = cut if resize.exclude_outside else ends
    at = np.arange(low, high)
    w = _filter(resize, (at.astype(np.float32) - centre + F(0.5)) * shrink)
    total = _in_order(w[None])[0]
    kept = [F(0)] * int(cut[1] - cut[0])
    # Elements inside are added first, as onnxruntime does: the order decides the last bit.
    for k in sorted(range(len(at)), key=lambda k: not cut[0] <= at[k] < cut[1]):
        if kept:
            kept[int(np.clip(at[k], cut[0], cut[1] - 1) - cut[0])] += w[k]
    scale = F(1) if total == 0 else F(1) / total
    return int(min(cut[0], source - 1)), np.array(kept or [F(0)], np.float32) * scale
