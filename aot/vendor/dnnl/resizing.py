# SPDX-License-Identifier: Apache-2.0
"""Resize of spatial axes to nearest elements or linearly, where the library's positions are ONNX's.

The library counts positions from the middle of an element, x = (y + 1/2) * in / out - 1/2, and
rounds them to the nearest element. Other rules of ONNX often come to the same indices: all are
compared when the model is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.vendor import OP, Case, Match, Recorder, Resize, case, f32, wildcard
from aot.vendor.dnnl.base import Array, Checks, declare, floats, record, type_of
from aot.vendor.dnnl.pools import blocks_that_arrive

#: Positions nearer to a half than this may be rounded either way; and how exact linear ones are.
HALF, EXACT = 1e-3, 1e-5


def _middle(source: int, result: int) -> Array:
    """The library's positions on an axis of `source` elements, of `result` outputs."""
    found: Array = (np.arange(result) + 0.5) * source / result - 0.5
    return found


def _same_elements(source: int, wanted: Array) -> bool:
    """Whether the library's nearest elements are those of the indices `wanted`."""
    x = _middle(source, len(wanted))
    distance = np.abs(np.abs(x - np.floor(x)) - 0.5)
    own = np.clip(np.floor(x + 0.5), 0, source - 1)
    clear = (distance > HALF) | (x < 0) | (x > source - 1)
    return bool(clear.all() and (own == wanted).all())


def _same_positions(source: int, wanted: Array) -> bool:
    """Whether the library's positions are `wanted`, but for what lies outside."""
    both = (_middle(source, len(wanted)), wanted)
    own, other = (np.clip(x, 0, source - 1) for x in both)
    return bool(np.abs(own - other).max(initial=0) < EXACT)


def positions_agree(m: Match) -> Checks:
    """Checks of a Resize of floats along spatial axes, nearest or linear.

    oneDNN has its own rule for positions: they are compared with those of ONNX, axis by axis.
    """
    yield from floats(m.x)
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
    spec = Resize.of(m)
    reasons = list(spec.checks())
    yield from reasons
    # Positions are computed from the attributes, so these have to be valid.
    if not all(ok for ok, _ in reasons):
        return
    mode, transform = spec.mode, spec.coordinate_transformation_mode
    yield mode in ("nearest", "linear"), f"mode {mode!r} (needs nearest or linear)"
    yield not spec.antialias, "antialias 1 (needs 0)"
    yield transform != "tf_crop_and_resize", f"positions {transform!r}"
    for p in spec.plans():
        yield p.axis >= 2, f"axis {p.axis} is resized (needs spatial ones)"
        if mode == "nearest":
            same = _same_elements(p.source, spec.nearest(p))
        else:
            same = _same_positions(p.source, spec.positions(p))
        yield same, f"positions {transform!r} of axis {p.axis} are not the library's"


def to_resampling(c: Recorder, m: Match) -> None:
    """Record the primitive of a Resize, nearest or linear, and its call."""
    linear = Resize.of(m).mode == "linear"
    block = m.x.layout.block
    ends = {"x": m.x.shape, "y": m.y.shape}
    fields = {"type": type_of(m.x), "rank": m.x.rank, "block": block, "linear": linear, **ends}
    macs = math.prod(m.y.shape) * (2 ** (m.x.rank - 2) if linear else 1)
    record(c, "aot_dnnl_resize", fields, [m.y, m.x], macs)


def cases() -> Iterator[Case]:
    """Resize(X, roi, scales, sizes): linear and nearest, 1-D and 2-D."""
    twice = np.array([1, 1, 2, 2], np.float32)
    for attrs in (
        {"mode": "linear"},
        {"mode": "nearest"},
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ):
        named: dict[str, Any] = attrs
        yield case(f32(1, 20, 5, 6), None, twice, const=(2,), **named)
    sizes = np.array([1, 7, 4, 11])
    yield case(f32(1, 7, 6, 5), None, None, sizes, const=(3,), mode="linear")
    yield case(f32(2, 3, 6), None, None, np.array([2, 3, 18]), const=(3,), mode="nearest")


declare(
    "resize",
    OP.Resize(*map(wildcard, ("x", "roi", "scales", "sizes")), _optional=3),
    positions_agree,
    lower=to_resampling,
    layouts=blocks_that_arrive,
    cases=cases,
)
