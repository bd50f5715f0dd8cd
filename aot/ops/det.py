# SPDX-License-Identifier: Apache-2.0
"""Det: determinants of square matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from aot.ir.dtypes import F32, F64
from aot.ops.registry import op
from aot.vendor import Case, Match, Recorder, case, f32

det = op("Det", "x", types=(F32, F64))


@det.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that x holds square matrices in its last two axes."""
    square = m.x.rank >= 2 and m.x.shape[-1] == m.x.shape[-2]
    yield square, f"shape {list(m.x.shape)} (needs square matrices)"


@det.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_det, with scratch for one matrix in doubles."""
    n = m.x.shape[-1]
    work = c.scratch(8 * n * n)
    params = c.params(batch=math.prod(m.x.shape[:-2]), n=n)
    c.call(f"aot_det_{m.x.dtype.short}", m.y, m.x, work, params, header="aot_det.h")


@det.cases
def cases() -> Iterator[Case]:
    """Det(X [*, M, M]): batches, one matrix, zeros, a 0 on the diagonal."""
    yield case(f32(3, 4, 4))
    yield case(f32(5, 5).astype(np.float64))
    yield case(np.zeros((2, 3, 3), np.float32))
    yield case(np.array([[0, 1, 2], [1, 0, 3], [4, -3, 8]], np.float32))
    yield case(f32(2, 2, 1, 1))
