# SPDX-License-Identifier: Apache-2.0
"""A transposed convolution as a plain one: all results of a stride are channels of one position.

Along an axis of stride s, output q * s + r reads x at q + (r + pad - t * dilation) / s for the taps
t for which that is whole. A plain convolution of stride 1 with s * s times the output channels
computes the s * s phases r of every position q; what it makes is then copied to its places. Taps
that a phase does not have get zero weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from aot.vendor.quantised_product import QuantisedProduct, Weights
from aot.vendor.strided_copy import Axis, strides
from aot.vendor.window_shape import WindowShape

#: Weights at most, in those of the transposed convolution; a copy per phase of a cropped result.
MOST_WEIGHTS, MOST_PHASES = 2.25, 16


@dataclass(frozen=True, slots=True)
class Phases:
    """The plain convolution, its positions along the axes, and the phases (strides) of each."""

    product: QuantisedProduct
    grid: tuple[int, ...]
    steps: tuple[int, ...]


def phases(found: QuantisedProduct, results: Sequence[int], growth: float) -> Phases | None:
    """The plain convolution for a transposed one whose results have the extents `results`.

    None where its weights would be more than `growth` times as many, in groups, on three axes, and
    for more phases than are worth a copy each.
    """
    window = found.window
    assert window is not None
    if found.groups > 1 or len(results) > 2 or math.prod(window.strides) > MOST_PHASES:
        return None
    axes = list(zip(window.kernel, window.strides, window.dilations, window.before, strict=True))
    taps = [_taps(*axis) for axis in axes]
    # All phases get the smallest kernel that holds each of them, so that one convolution makes all.
    lows = [min(0, *(t[2] for t in own)) for own in taps]
    kernel = tuple(max(t[2] for t in own) - low + 1 for own, low in zip(taps, lows, strict=True))
    if math.prod(kernel) * math.prod(window.strides) > growth * math.prod(window.kernel):
        return None
    w, many = found.w, math.prod(window.strides)
    made = np.zeros((*window.strides, *w.data.shape[:2], *kernel), np.int64)
    for places in np.ndindex(*(len(own) for own in taps)):
        each = [own[i] for own, i in zip(taps, places, strict=True)]
        where = tuple(t[2] - low for t, low in zip(each, lows, strict=True))
        part = w.data[(slice(None), slice(None), *(t[1] for t in each))]
        made[(*(t[0] for t in each), slice(None), slice(None), *where)] = part
    ones, before = (1,) * len(kernel), tuple(-low for low in lows)
    scale = np.tile(w.scale, many) if w.scale.size > 1 else w.scale
    product = replace(
        found,
        w=Weights(made.reshape(-1, w.data.shape[1], *kernel), scale),
        bias=np.tile(found.bias, many),
        window=WindowShape(kernel, ones, ones, before, before),
    )
    grid = tuple(-(-n // s) for n, s in zip(results, window.strides, strict=True))
    return Phases(product, grid, window.strides)


def _taps(kernel: int, step: int, dilation: int, pad: int) -> list[tuple[int, int, int]]:
    """(phase, tap, position beside that of the result) of everything that an axis adds up."""
    pairs = ((r, t, r + pad - t * dilation) for r in range(step) for t in range(kernel))
    return [(r, t, at // step) for r, t, at in pairs if at % step == 0]


def copies(
    found: Phases, images: int, channels: int, results: Sequence[int]
) -> list[tuple[list[Axis], int, int]]:
    """The copies to the places of the results: (axes, first element of y, first of the phases).

    One copy does where the strides divide the extents, else there is one per phase.
    """
    lead = (1,) * (2 - len(results))
    (height, width), (rows, columns) = (lead + tuple(v) for v in (results, found.grid))
    down, right = lead + found.steps
    n, q, p, j, i, c = strides((images, rows, columns, down, right, channels))
    m, y, x, d = strides((images, height, width, channels))
    whole = rows * down == height and columns * right == width
    made = []
    for a, b in [(0, 0)] if whole else np.ndindex(down, right):
        inner = [Axis(down, y, j)] if whole else []
        last = [Axis(right, x, i)] if whole else []
        tall, wide = -(-(height - a) // down), -(-(width - b) // right)
        axes = [Axis(images, m, n), Axis(tall, y * down, q), *inner]
        axes += [Axis(wide, x * right, p), *last, Axis(channels, d, c)]
        made.append((axes, a * y + b * x, a * j + b * i))
    return made
