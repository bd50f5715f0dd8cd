# SPDX-License-Identifier: Apache-2.0
"""How big a tensor may be: counted in Python's unbounded integers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

#: Kernels count with int32_t.
MAX_ELEMENTS = (1 << 31) - 1
MAX_RANK = 64
"""Axes that NumPy, and so everything that feeds a bundle from Python, can hold."""
#: Sizes, axes and the bounds of slices are this small; more elements are data, slow to evaluate.
SMALL_ELEMENTS = 1024


def excess(shape: Sequence[int]) -> str:
    """The reason why a tensor of `shape` is refused, "" if it is not."""
    if len(shape) > MAX_RANK:
        return f"it has {len(shape)} axes (limit {MAX_RANK})"
    for axis, size in enumerate(shape):
        if size < 0:
            return f"dimension {axis} is {size} (negative)"
    count = prod(shape)
    if count > MAX_ELEMENTS:
        return f"shape {list(shape)} has {count} elements (limit {MAX_ELEMENTS})"
    if max(shape, default=0) > MAX_ELEMENTS:  # and another one is 0
        return f"dimension {max(shape)} of shape {list(shape)} is beyond the limit {MAX_ELEMENTS}"
    return ""
