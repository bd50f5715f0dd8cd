# SPDX-License-Identifier: Apache-2.0
"""TensorScatter: a cache of keys or values takes new rows, in place where it may."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from aot.ir.dtypes import S64
from aot.ir.operators import AxisOf, OneOf
from aot.ops.gather import call_checked, proven
from aot.ops.registry import op
from aot.vendor import Match, Recorder
from aot.vendor.cases import Case, case, f32, ints

scatter = op(
    "TensorScatter",
    "past update places?",
    axis=AxisOf("past", -2),
    mode=OneOf("linear circular", "linear"),
)


@scatter.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that new rows have the cache's other sizes, and one int64 position per sample."""
    axis = m.axis % m.past.rank
    yield axis > 0, f"axis {m.axis} (the first one is the batch)"
    own, new = list(m.past.shape), list(m.update.shape)
    fits = len(own) == len(new) and new[axis] <= own[axis]
    same = fits and own[:axis] + own[axis + 1 :] == new[:axis] + new[axis + 1 :]
    yield same, f"rows {new} for a cache {own}"
    if m.places is not None:
        yield m.places.dtype is S64, f"places of {m.places.dtype} (needs int64)"
        yield m.places.shape == m.past.shape[:1], f"places {m.places.shape} for a cache {own}"


@scatter.check
def inside(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that constant positions leave room for the rows, unless these wrap around."""
    if m.places is None or m.places.data is None or m.mode != "linear":
        return
    axis = m.axis % m.past.rank
    last = m.past.shape[axis] - m.update.shape[axis]
    bad = [int(p) for p in m.places.data if not 0 <= p <= last]
    yield not bad, f"a place {bad[:1]} outside 0..{last}"


@scatter.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_tensor_scatter: rows go to each sample's position, in place of the cache if
    possible.
    """
    axis = m.axis % m.past.rank
    shape = m.past.shape
    params = c.params(
        batch=shape[0],
        outer=math.prod(shape[1:axis]),
        extent=shape[axis],
        count=m.update.shape[axis],
        inner=math.prod(shape[axis + 1 :]),
    )
    room = (shape[axis] - m.update.shape[axis] + 1,)
    call_checked(
        c,
        "aot_tensor_scatter",
        m.places is None or m.mode == "circular" or proven(m.places, room, 0),
        m.y,
        m.past,
        m.update,
        m.places,
        params,
        instance={"CIRCULAR": int(m.mode == "circular"), "E": m.past.dtype.nbytes},
        inplace=[(m.y, m.past)],
    )


@scatter.cases
def cases() -> Iterator[Case]:
    """TensorScatter(past_cache, update, write_indices): linear and circular."""
    places = np.array([3, 0], np.int64)
    yield case(f32(2, 3, 6, 4), f32(2, 3, 2, 4, seed=1), places)
    yield case(f32(2, 3, 6, 4), f32(2, 3, 2, 4, seed=1))
    yield case(f32(2, 6, 4), f32(2, 3, 4, seed=1), places + 4, axis=1, mode="circular")
    yield case(ints(2, 5, 3, dtype="int8"), ints(2, 2, 3, dtype="int8", seed=1), places)
