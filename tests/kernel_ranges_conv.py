# SPDX-License-Identifier: Apache-2.0
"""Ranges of output rows: kernels called for some rows, holding only the image rows these read.

Part of kernel_cases_conv.py. Every range gives the bits that a call for all rows gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from aot.ops import conv_plan as plan
from aot.ops.conv_plan import ConvShape, KernelCall
from aot.ops.conv_winograd import plan_winograd
from aot.vendor.activations import Act
from kernel_harness import Library, blocked, exact, fresh, unblocked

Array = np.ndarray[Any, Any]
SAME = {"kh": 3, "kw": 3, "pt": 1, "pl": 1}


@dataclass(frozen=True)
class Ranged:
    """A layer, its planner, lanes of its input and output; ranges begin at multiples of `step`."""

    shape: ConvShape
    planner: Callable[..., KernelCall]
    x_lanes: int
    y_lanes: int
    step: int = 1
    residual: bool = True


def layers(v: int) -> Iterator[Ranged]:
    """Every kernel with padding, strides and dilation that the ranges cut."""
    shapes = (
        ConvShape(1, 20, 9, 7, 33, 9, 7, **SAME),
        ConvShape(2, 5, 11, 6, 18, 7, 4, 5, 3, 2, 2, 1, 1, 3, 2),
        ConvShape(1, 17, 8, 9, 16, 8, 9, 3, 3, 1, 1, 3, 2, 3, 2),
        ConvShape(1, 24, 6, 15, 40, 6, 15, 1, 1),
        ConvShape(1, 12, 8, 5, 24, 8, 5, **SAME, groups=3),
    )
    for i, s in enumerate(shapes):
        few = partial(plan.plan_blocked, y_plain=True)
        yield Ranged(s, few if i % 2 else plan.plan_blocked, v, 1 if i % 2 else v)
        if s.groups == 1:
            few = partial(plan.plan_plain, y_plain=True)
            yield Ranged(s, plan.plan_plain if i % 2 else few, 1, v if i % 2 else 1)
        deep = replace(s, ic=19, oc=19, groups=19)
        yield Ranged(deep, plan.plan_depthwise, v, v, residual=False)
    for t in (4, 6, 8):
        yield Ranged(shapes[0], partial(plan_winograd, points=t), v, v, step=t - 2)
    strided = ConvShape(1, 20, 17, 9, 33, 9, 5, 3, 3, 2, 2, pt=1, pl=1)
    yield Ranged(strided, partial(plan_winograd, points=5), v, v, step=2)


def rows_read(s: ConvShape, y0: int, y1: int, step: int) -> tuple[int, int]:
    """The image rows that output rows y0..y1-1, in whole tiles of `step` rows, are made of."""
    y1 = -(-y1 // step) * step
    first = min(max(0, y0 * s.sh - s.pt), s.ih - 1)
    last = (y1 - 1) * s.sh - s.pt + (s.kh - 1) * s.dh
    return first, max(first + 1, min(s.ih, last + 1))


def store(data: Array, lanes: int) -> Array:
    """Plain or blocked."""
    return exact(data) if lanes == 1 else blocked(data, lanes)


class Ranges:
    """The layers with their data, to build a library for and to run."""

    def __init__(self, v: int) -> None:
        rng = np.random.default_rng(11)
        self.items = []
        for layer in layers(v):
            s = layer.shape
            shapes = ((s.n, s.ic, s.ih, s.iw), (s.oc, s.ic // s.groups, s.kh, s.kw), (s.oc,))
            x, w, b, r = (
                rng.uniform(-1, 1, dims).astype(np.float32)
                for dims in (*shapes, (s.n, s.oc, s.oh, s.ow))
            )
            self.items.append((layer, layer.planner(s, w, b, v, Act(2, 0.25)), x, r))

    def signatures(self) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
        """What the library must contain."""
        return [(call.kernel, tuple(call.instance.items())) for _, call, *_ in self.items]

    def wrong(self, library: Library) -> Iterator[str]:
        """The ranges that differ from the whole."""
        for layer, call, x, r in self.items:
            oh = layer.shape.oh
            whole = run(library, layer, call, x, r, 0, oh)
            cuts = sorted({0, *(k // layer.step * layer.step for k in (1, 2, oh // 2, oh - 1)), oh})
            for i, y0 in enumerate(cuts):
                for y1 in cuts[i + 1 :]:
                    part = run(library, layer, call, x, r, y0, y1)
                    if part.tobytes() != whole[:, :, y0:y1].tobytes():
                        yield f"rows {y0}..{y1 - 1} of {oh}: {call.kernel} {layer.shape}"


def run(
    library: Library, layer: Ranged, call: KernelCall, x: Array, r: Array, y0: int, y1: int
) -> Array:
    """Output rows y0..y1-1, from buffers that hold the rows needed and no others."""
    s = layer.shape
    x0, x1 = rows_read(s, y0, y1, layer.step)
    xl, yl = layer.x_lanes, layer.y_lanes
    x_plane, y_plane = (x1 - x0) * s.iw * xl, (y1 - y0) * s.ow * yl
    out = (s.n, s.oc, y1 - y0, s.ow)
    fields = call.fields | {
        "y0": y0,
        "y1": y1,
        "x_row0": x0,
        "y_row0": y0,
        "x_plane": x_plane,
        "x_batch": x_plane * -(-s.ic // xl),
        "y_plane": y_plane,
        "y_batch": y_plane * -(-s.oc // yl),
    }
    y = fresh(s.n * -(-s.oc // yl) * y_plane)
    arrays: list[Array | None] = [
        y,
        store(x[:, :, x0:x1], xl),
        exact(call.weights),
        exact(call.bias),
    ]
    if layer.residual:
        arrays.append(store(r[:, :, y0:y1], yl))
    if call.scratch is not None:
        arrays.append(fresh(call.scratch // 4) if call.scratch else None)
    library.bind((call.kernel, tuple(call.instance.items())), arrays, fields)()
    return np.ascontiguousarray(unblocked(y, out, yl))
