# SPDX-License-Identifier: Apache-2.0
"""Shape and Size: numbers that a tensor's type says, so no kernel computes them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array, attribute, shape_of
from aot.load.encode_strings import Strings, encodes
from aot.shapes.dynamic.dims import INT64
from aot.shapes.dynamic.rules import needed
from aot.shapes.evaluate import reads_shape


@reads_shape("Shape")
def extents(node: ir.Node, shape: Sequence[int]) -> Array:
    """The sizes of axes `start` to `end`, int64."""
    rank = len(shape)
    start = int(attribute(node, "start", 0))
    end = int(attribute(node, "end", rank))
    start, end = (max(0, v + rank) if v < 0 else min(v, rank) for v in (start, end))
    return np.array(shape[start:end], dtype=np.int64)


@reads_shape("Size")
def size(node: ir.Node, shape: Sequence[int]) -> Array:
    """The number of elements, an int64 of no axes."""
    return np.array(prod(shape), np.int64)


@encodes("Shape Size")
def of_strings(s: Strings, node: ir.Node) -> None:
    """Replace the Shape or Size of encoded strings by a constant without the axis of bytes."""
    read = reads_shape.of(node)
    assert read is not None
    data = np.asarray(read(node, shape_of(needed(node, 0))), np.int64)
    const = s.editor(node).const(data, "shape")
    s.replace(node, s.make(node, "Identity", [const], INT64, data.shape))
