# SPDX-License-Identifier: Apache-2.0
"""MaxUnpool and TensorScatter: elements put where an index says."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from aot.dtypes import S64
from aot.lower_context import LowerContext
from aot.ops.registry import Case, case, f32, i64, op
from aot.partition.match import Match

unpool = op("MaxUnpool", "x index shape?", kernel_shape=None, pads=None, strides=None)
tensor_scatter = op("TensorScatter", "past update at?", axis=-2, mode="linear")


def pooled(m: Match) -> list[int]:
    """The spatial extents of the tensor that indices count in: what was pooled."""
    rank = len(m.kernel_shape)
    strides, pads = m.strides or [1] * rank, m.pads or [0] * (2 * rank)
    spans = zip(m.x.shape[2:], m.kernel_shape, strides, pads[:rank], pads[rank:], strict=True)
    return [(d - 1) * s - a - b + k for d, k, s, a, b in spans]


@unpool.check
def unpool_supported(m: Match) -> Iterator[tuple[bool, str]]:
    yield m.index.dtype is S64, f"indices of {m.index.dtype} (needs int64)"
    yield m.index.shape == m.x.shape, f"indices {list(m.index.shape)} for {list(m.x.shape)}"
    yield 3 <= m.x.rank <= 5, f"rank {m.x.rank} (needs 3 to 5)"
    fits = m.y.shape[:2] == m.x.shape[:2] and m.y.rank == m.x.rank
    yield fits, f"result {list(m.y.shape)} of {list(m.x.shape)}"


@unpool.lower
def unpool_to_kernel(c: LowerContext, m: Match) -> None:
    lead = [1] * (5 - m.x.rank)
    params = c.params(
        count=math.prod(m.x.shape),
        planes=math.prod(m.x.shape[:2]),
        **{"from": (*lead, *pooled(m)), "to": (*lead, *m.y.shape[2:])},
    )
    c.call("aot_unpool", m.y, m.x, m.index, params, instance={"E": m.x.dtype.nbytes})


@tensor_scatter.check
def scatter_supported(m: Match) -> Iterator[tuple[bool, str]]:
    axis = m.axis % m.past.rank
    yield m.mode in ("linear", "circular"), f"mode {m.mode!r}"
    yield axis > 0, "axis 0 (needs a batch before it)"
    if m.at is not None:
        yield m.at.dtype is S64, f"write_indices of {m.at.dtype} (needs int64)"
        fits = m.at.shape == m.past.shape[:1]
        yield fits, f"write_indices {list(m.at.shape)} for {list(m.past.shape)}"
    a, b = list(m.past.shape), list(m.update.shape)
    yield len(a) == len(b), f"update of rank {len(b)} for {a}"
    if len(a) == len(b):
        inside = b[axis] <= a[axis] and a[:axis] == b[:axis] and a[axis + 1 :] == b[axis + 1 :]
        yield inside, f"update {b} for {a}"


@tensor_scatter.lower
def scatter_to_kernel(c: LowerContext, m: Match) -> None:
    axis = m.axis % m.past.rank
    shape = m.past.shape
    params = c.params(
        outer=math.prod(shape[:axis]),
        share=math.prod(shape[1:axis]),
        extent=shape[axis],
        steps=m.update.shape[axis],
        row=math.prod(shape[axis + 1 :]),
    )
    c.call(
        "aot_tensor_scatter",
        m.y,
        m.past,
        m.update,
        m.at,
        params,
        instance={"E": m.past.dtype.nbytes, "CIRCULAR": int(m.mode == "circular")},
        header="aot_unpool.h",
        inplace=[(m.y, m.past)],
    )


@unpool.cases
def unpool_cases() -> Iterator[Case]:
    x = f32(1, 2, 2, 2)
    index = np.array([[[[1, 6], [9, 15]], [[16, 22], [29, 31]]]], np.int64)
    yield case(x, index, kernel_shape=[2, 2], strides=[2, 2])
    yield case(x, index, i64(1, 2, 5, 5), const=(2,), kernel_shape=[2, 2], strides=[2, 2])


@tensor_scatter.cases
def scatter_cases() -> Iterator[Case]:
    past, update = f32(2, 3, 5, 4), f32(2, 3, 2, 4, seed=1)
    yield case(past, update, i64(0, 3))
    yield case(past, update, i64(4, 13), mode="circular")
    yield case(past, update)
    yield case(f32(2, 5, 4), f32(2, 2, 4, seed=1), i64(1, 2), axis=1)
