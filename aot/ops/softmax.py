# SPDX-License-Identifier: Apache-2.0
"""Softmax and LogSoftmax along one axis."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from aot.dtypes import F32
from aot.lower_context import LowerContext
from aot.ops.registry import Case, case, f32, full, op
from aot.partition.match import Match


def split_at(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """(outer, axis, inner) element counts around `axis` (negative: from the end)."""
    axis %= max(1, len(shape))
    return math.prod(shape[:axis]), math.prod(shape[axis : axis + 1]), math.prod(shape[axis + 1 :])


for _name, _log in (("Softmax", 0), ("LogSoftmax", 1)):
    _made = op(_name, "x", axis=-1)

    @_made.check
    def supported(m: Match) -> Iterator[tuple[bool, str]]:
        yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"

    @_made.lower
    def to_kernel(c: LowerContext, m: Match, log: int = _log) -> None:
        outer, axis, inner = split_at(m.x.shape, m.axis)
        params = c.params(outer=outer, axis=axis, inner=inner)
        c.call("aot_softmax_f32", m.y, m.x, params, instance={"LOG": log}, inplace=[(m.y, m.x)])

    @_made.cases
    def cases() -> Iterator[Case]:
        yield case(f32(2, 3, 4), axis=1)
        yield case(f32(2, 37, low=-20, high=20))
        yield case(f32(2, 5, 3, 19), axis=-3)
        yield case(f32(5, 16), axis=0)
        yield case(full((2, 5), 3e38))
        yield case(np.array([[-np.inf, 0, 1], [-np.inf] * 3, [np.nan, 0, 1]], np.float32))
