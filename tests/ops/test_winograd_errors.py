# SPDX-License-Identifier: Apache-2.0
"""The errors of Winograd's algorithm that the compiler reckons with are those of its kernel.

`python tests/ops/test_winograd_errors.py` prints the table that aot/ops/conv_winograd.py has.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import kernel_cases_conv as cases
from aot.ops.conv_plan import ConvShape
from aot.ops.conv_winograd import ERRORS, STRIDED, plan_winograd
from kernel_harness import Library, blocked, exact, fresh, unblocked

CHANNELS, WIDTH = 48, 4
Array = np.ndarray[Any, Any]


def one_sum(x: Array, w: Array, s: ConvShape) -> Array:
    """The convolution with every result summed up in float32, product after product."""
    y = np.zeros((s.oc, s.oh, s.ow), np.float32)
    for a in range(s.kh):
        for b in range(s.kw):
            rows, columns = slice(a, a + s.sh * s.oh, s.sh), slice(b, b + s.sw * s.ow, s.sw)
            for c in range(s.ic):
                y += w[:, c, a, b, None, None] * x[c, rows, columns][None, : s.oh, : s.ow]
    return y


def factor(points: int, kh: int, kw: int, folder: Path) -> float:
    """The root mean square of the kernel's errors, divided by the one of a plain sum's."""
    rng = np.random.default_rng(0)
    stride = 2 if points == STRIDED else 1
    # Whole tiles without padding; an axis with a window of 1 has a tile of 1.
    high, wide = (points * 20 if k > 1 else 48 for k in (kh, kw))
    s = cases.shape(CHANNELS, 16, high, wide, kh=kh, kw=kw, sh=stride, sw=stride)
    x = np.maximum(rng.standard_normal((1, s.ic, s.ih, s.iw)), 0).astype(np.float32)
    w = rng.standard_normal((s.oc, s.ic, kh, kw)) / np.sqrt(s.ic * kh * kw)
    w = w.astype(np.float32)
    call = plan_winograd(s, w, None, WIDTH, points=points)
    signature = call.kernel, tuple(call.instance.items())
    y, scratch = fresh(s.oc * s.oh * s.ow), fresh(call.scratch // 4)
    arrays = [y, blocked(x, WIDTH), exact(call.weights), exact(call.bias), None, scratch]
    Library(folder, WIDTH, [signature]).bind(signature, arrays, call.fields)()
    exact_sums = cases.conv(x, w, None, s)[0]
    got = unblocked(y, (1, s.oc, s.oh, s.ow), WIDTH)[0]
    errors = [np.mean((values - exact_sums) ** 2) for values in (got, one_sum(x[0], w, s))]
    return float(np.sqrt(errors[0] / errors[1]))


def windows_of(lengths: tuple[int, ...]) -> tuple[int, int]:
    """A window of the lengths: one row of them, or rows and columns."""
    return (1, lengths[0]) if len(lengths) == 1 else (lengths[0], lengths[1])


@pytest.mark.sample(3)
@pytest.mark.parametrize(("points", "lengths"), list(ERRORS))
def test_errors(points: int, lengths: tuple[int, ...], tmp_path: Path) -> None:
    measured = factor(points, *windows_of(lengths), tmp_path)
    assert measured == pytest.approx(ERRORS[points, lengths], rel=0.1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for number, (count, sizes) in enumerate(ERRORS):
            error = factor(count, *windows_of(sizes), Path(made) / str(number))
            print(f"    ({count}, {sizes}): {error:.2f},")
