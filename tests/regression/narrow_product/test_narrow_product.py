# SPDX-License-Identifier: Apache-2.0
"""Products of two activations took up to 64 times their right operand to pack it.

Whole columns were packed, as wide as the widest group of vectors: 25.6 MB for a dot product of
100 000 elements, and one of 2^25 was refused. Columns are packed in blocks, as many vectors as
there are; sums are the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aot
from aot.ops import conv_plan
from aot.options import Accuracy, Options
from aot.pipeline import compile_model
from graphs import model

ROWS = [("MatMul", "a b", "y")]


def arena(a: list[int], b: list[int], target: str) -> int:
    """Bytes of the arena where inputs and outputs are the caller's."""
    proto = model(ROWS, {"a": a, "b": b}, {"y": None})
    return compile_model(proto, Options(name="n", target=target, io="caller")).plan.arena_bytes


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64-linux"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1, 100_000], [100_000, 1]),
        ([100_000], [100_000]),
        ([64, 4096], [4096, 3]),
        ([1 << 25], [1 << 25]),
        ([8, 4096], [4096, 128]),
    ],
)
def test_no_more_than_the_operand_to_pack_it(a: list[int], b: list[int], target: str) -> None:
    assert arena(a, b, target) <= 4 * int(np.prod(b))


@pytest.mark.sample(4)
@pytest.mark.parametrize("accuracy", ["strict", "normal"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([3, 2100], [2100, 1]),
        ([2, 5, 2100], [2, 2100, 70]),
        ([7, 1030], [1030, 19]),
        ([513], [513]),
    ],
)
def test_sums_are_those_of_whole_columns(
    a: list[int], b: list[int], accuracy: Accuracy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in (a, b))
    proto = model(ROWS, {"a": a, "b": b}, {"y": None})
    results = []
    for run in (conv_plan.GEMM_RUN, 1 << 20):  # in blocks, and whole
        monkeypatch.setattr(conv_plan, "GEMM_RUN", run)
        made = aot.compile(proto, tmp_path / str(run), name="n", accuracy=accuracy)
        results.append(np.asarray(made.load()(x, w)))
    assert results[0].tobytes() == results[1].tobytes()
    want = x.astype(np.float64) @ w
    np.testing.assert_allclose(results[0], want, rtol=1e-5, atol=1e-4)
