# SPDX-License-Identifier: Apache-2.0
"""How big a tensor may be: counted in Python's unbounded integers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

MAX_ELEMENTS = (1 << 31) - 1
SMALL_ELEMENTS = 1024


def excess(shape: Sequence[int]) -> str:
    """Why a tensor of `shape` is refused, "" if it is not."""
    for axis, size in enumerate(shape):
        if size < 0:
            return f"dimension {axis} is {size} (negative)"
    count = prod(shape)
    if count > MAX_ELEMENTS:
        return f"shape {list(shape)} has {count} elements (limit {MAX_ELEMENTS})"
    return ""
