# SPDX-License-Identifier: Apache-2.0
"""MaxUnpool: elements put where the indices of a MaxPool say.

An index outside the pooled tensor ends the run: AOT_OUT_OF_RANGE.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import S64
from aot.ir.graph_nodes import attribute, shape_of
from aot.ops.registry import op
from aot.shapes.cures import Role, Sizing, sizings
from aot.shapes.infer_node import solves
from aot.shapes.operands import lists, operands_fit
from aot.shapes.partial_values import PartialValues, lookup
from aot.shapes.types import Type
from aot.vendor import Match, Recorder
from aot.vendor.cases import Case, case, f32, i64

unpool = op(
    "MaxUnpool",
    "x index shape?",
    kernel_shape=None,
    pads=None,
    strides=None,
    rules=[operands_fit.by(lists((2, "output_shape")))],
)


def unpooled(role: Role, count: int) -> list[int]:
    """An example of an output shape: the least one that the maxima of the first input come from."""
    if role.data is None or len(role.data) != count:
        return [1] * count
    kernel = attribute(role.node, "kernel_shape")
    strides = attribute(role.node, "strides") or [1] * len(kernel)
    sizes = zip(role.data[2:], kernel, strides, strict=True)
    return [*role.data[:2], *((n - 1) * step + taps for n, taps, step in sizes)]


sizings("MaxUnpool")(Sizing(examples={2: unpooled}))


@solves("MaxUnpool")
def unpool_type(node: ir.Node, partial_values: PartialValues) -> Type | None:
    """The type of a MaxUnpool whose output_shape is known; None otherwise."""
    if len(node.inputs) < 3:
        return None
    data, wanted = node.inputs[0], lookup(node.inputs[2], partial_values)
    if data is None or wanted is None or data.dtype is None:
        return None
    shape = tuple(s for s in wanted.items() if s is not None and s >= 0)
    return (int(data.dtype), shape) if len(shape) == len(shape_of(data)) else None


def pooled(m: Match) -> list[int]:
    """The spatial sizes of the tensor that was pooled, in which the indices count."""
    rank = len(m.kernel_shape)
    strides, pads = m.strides or [1] * rank, m.pads or [0] * (2 * rank)
    spans = zip(m.x.shape[2:], m.kernel_shape, strides, pads[:rank], pads[rank:], strict=True)
    return [(d - 1) * s - a - b + k for d, k, s, a, b in spans]


@unpool.check
def unpool_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of shapes, and that constant int64 indices are inside the pooled tensor."""
    yield m.index.dtype is S64, f"indices of {m.index.dtype} (needs int64)"
    yield m.index.shape == m.x.shape, f"indices {list(m.index.shape)} for {list(m.x.shape)}"
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
    fits = m.y.shape[:2] == m.x.shape[:2] and m.y.rank == m.x.rank
    yield fits, f"result {list(m.y.shape)} of {list(m.x.shape)}"
    if fits and 3 <= m.x.rank <= 5 and m.index.data is not None:
        count = math.prod((*m.x.shape[:2], *pooled(m)))
        outside = [int(i) for i in np.ravel(m.index.data) if not 0 <= i < count]
        yield not outside, f"index {outside[:1]} (needs 0 to {count - 1})"


@unpool.lower
def unpool_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_unpool, from positions in the pooled tensor to those in the result."""
    lead = [1] * (5 - m.x.rank)
    params = c.params(
        count=math.prod(m.x.shape),
        planes=math.prod(m.x.shape[:2]),
        **{"from": (*lead, *pooled(m)), "to": (*lead, *m.y.shape[2:])},
    )
    bytes_each = {"E": m.x.dtype.nbytes}
    c.call("aot_unpool", m.y, m.x, m.index, params, instance=bytes_each, status=True)


@unpool.cases
def unpool_cases() -> Iterator[Case]:
    """MaxUnpool(X, I, output_shape): indices as MaxPool gives them."""
    x = f32(1, 2, 2, 2)
    index = np.array([[[[1, 6], [9, 15]], [[16, 22], [29, 31]]]], np.int64)
    yield case(x, index, kernel_shape=[2, 2], strides=[2, 2])
    yield case(x, index, i64(1, 2, 5, 5), const=(2,), kernel_shape=[2, 2], strides=[2, 2])
