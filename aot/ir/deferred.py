# SPDX-License-Identifier: Apache-2.0
"""Large constants that are made while they are written, a part at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Bytes from which a packed copy of weights is not kept in memory.
LARGE = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Deferred:
    """An array of `shape` whose elements, in order, are those of the arrays that `parts` makes.

    Two with equal `key` have equal elements. `source` keeps alive the memory that `key` names.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    key: Hashable
    parts: Callable[[], Iterator[Array]]
    source: Array

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize


#: What a program has as a constant.
Constant = Array | Deferred


def memory_of(data: Array) -> Hashable:
    """Where the elements of an array are: equal for two views of the same elements."""
    held = data.__array_interface__
    return held["data"][0], held["typestr"], data.shape, data.strides


def whole(data: Constant) -> Array:
    """All elements of a constant, in its shape."""
    if isinstance(data, Deferred):
        return np.concatenate([p.reshape(-1) for p in data.parts()]).reshape(data.shape)
    return data


def parts_of(data: Constant) -> Iterator[Array]:
    """The elements of a constant as contiguous arrays."""
    if isinstance(data, Deferred):
        yield from data.parts()
    else:
        yield np.ascontiguousarray(data)
