# SPDX-License-Identifier: Apache-2.0
"""Test cases of the patterns that are no products: shapes that fill no vector, each way of work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.vendor import Case, case, f32, quantised_values

#: Windows: padded and strided, uneven and on one axis.
WINDOWS: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 5, 9, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 17, 6, 7), {"kernel_shape": [2, 4], "strides": [2, 1]}),
    ((1, 3, 11), {"kernel_shape": [5], "strides": [3]}),
)
#: The positions of a Resize that the library has.
POSITIONS = ("half_pixel", "align_corners", "asymmetric")


def pool_cases() -> Iterator[Case]:
    """Pooling of floats in windows."""
    for shape, window in WINDOWS:
        named: dict[str, Any] = {f"pool.{k}": v for k, v in window.items()}
        yield case(f32(*shape), **named)


def qmaxpool_cases() -> Iterator[Case]:
    """Maxima of int8 values in windows."""
    yield from (case(quantised_values(*shape), **window) for shape, window in WINDOWS)


def mean_cases() -> Iterator[Case]:
    """Means of floats over all positions of images and of a sequence."""
    yield from (case(f32(*shape)) for shape in ((2, 21, 5, 6), (1, 3, 7)))


def softmax_cases() -> Iterator[Case]:
    """Rows along the last axis, and along channels of an image."""
    yield case(f32(3, 21), axis=-1)
    yield case(f32(2, 5, 3, 7), axis=1)


def prelu_cases() -> Iterator[Case]:
    """A slope for each channel, and one for all."""
    yield case(f32(2, 21, 5, 6), f32(21, 1, 1), const=(1,))
    yield case(f32(3, 7), f32(1), const=(1,))


def resize_cases() -> Iterator[Case]:
    """Larger and smaller images, by each way to count positions."""
    for how in POSITIONS:
        sizes = np.array([1, 7, 4, 11])
        attrs: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": how}
        yield case(f32(1, 7, 6, 5), None, None, sizes, const=(3,), **attrs)


def unary_cases() -> Iterator[Case]:
    """An image and a vector of no whole number of lanes."""
    yield from (case(f32(*shape)) for shape in ((2, 5, 3, 7), (21,)))


def pair_cases() -> Iterator[Case]:
    """Operands of one shape, a factor per channel, a constant row; quotients are finite."""
    yield case(f32(2, 5, 3, 7), f32(2, 5, 3, 7, seed=1, low=0.5))
    yield case(f32(2, 5, 3, 7), f32(5, 1, 1, seed=1, low=0.5))
    yield case(f32(3, 11), f32(11, seed=1, low=0.5), const=(1,))


def dense_cases() -> Iterator[Case]:
    """A product of rows by a constant matrix with a constant bias."""
    operands = f32(4, 19), f32(19, 7, low=-0.3, high=0.3, seed=1), f32(7, seed=2)
    yield case(*operands, const=(1, 2))
