# SPDX-License-Identifier: Apache-2.0
"""Softmax and LogSoftmax along one axis."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from aot.ir.dtypes import F64
from aot.ir.operators import Along, AxisOf, Exact
from aot.ir.splits import Split
from aot.ops.kernels import FLOATS
from aot.ops.registry import op
from aot.vendor import Match, Recorder, UnsupportedError
from aot.vendor.cases import Case, case, f32, full


def split_at(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """(outer, axis, inner) element counts around `axis` (negative: from the end)."""
    axis %= max(1, len(shape))
    return math.prod(shape[:axis]), math.prod(shape[axis : axis + 1]), math.prod(shape[axis + 1 :])


for _name, _log in (("Softmax", 0), ("LogSoftmax", 1)):
    _exact = [] if _log else [Exact(rounds_once=True)]
    _made = op(
        _name,
        "x",
        traits=[Along("axis", -math.inf), *_exact],
        types=FLOATS,
        axis=AxisOf("x", -1),
    )

    @_made.lower
    def to_kernel(c: Recorder, m: Match, log: int = _log) -> None:
        """Record aot_softmax on x [outer, axis, inner]; `log` 1 is for LogSoftmax.

        UnsupportedError for float64 with --accuracy strict.
        """
        outer, axis, inner = split_at(m.x.shape, m.axis)
        if m.x.dtype is F64 and c.accuracy == "strict":
            raise UnsupportedError(
                "float64 exp needs the C library, whose last bits differ between systems",
                hint="use --accuracy normal, or float32",
            )
        params = c.params(outer=outer, axis=axis, inner=inner)
        # Every line is a softmax of its own, so threads share the lines.
        line = axis * inner * m.x.dtype.nbytes
        c.call(
            f"aot_softmax_{m.x.dtype.short}",
            m.y,
            m.x,
            params,
            instance={"LOG": log},
            inplace=[(m.y, m.x)],
            splits=[Split.pieces("outer", outer, [(0, line), (1, line)])],
        )

    @_made.cases
    def cases() -> Iterator[Case]:
        """Softmax or LogSoftmax(input): each axis, large numbers, infinities."""
        yield case(f32(2, 3, 4), axis=1)
        yield case(f32(2, 37, low=-20, high=20))
        yield case(f32(2, 5, 3, 19), axis=-3)
        yield case(f32(5, 16), axis=0)
        yield case(full((2, 5), 3e38))
        yield case(f32(2, 5, 3).astype(np.float64), axis=1)
        yield case(np.array([[-np.inf, 0, 1], [-np.inf] * 3, [np.nan, 0, 1]], np.float32))
