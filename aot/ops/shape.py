# SPDX-License-Identifier: Apache-2.0
"""Shape and Size: numbers that a tensor's type says, so no kernel computes them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_nodes import Array, attribute
from aot.shapes.evaluate import reads_shape

if TYPE_CHECKING:
    import onnx_ir as ir


@reads_shape("Shape")
def extents(node: ir.Node, shape: Sequence[int]) -> Array:
    """The extents of axes `start` to `end`, int64."""
    rank = len(shape)
    start = int(attribute(node, "start", 0))
    end = int(attribute(node, "end", rank))
    start, end = (max(0, v + rank) if v < 0 else min(v, rank) for v in (start, end))
    return np.array(shape[start:end], dtype=np.int64)


@reads_shape("Size")
def size(node: ir.Node, shape: Sequence[int]) -> Array:
    """The number of elements, an int64 of no axes."""
    return np.array(prod(shape), np.int64)
