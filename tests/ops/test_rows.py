# SPDX-License-Identifier: Apache-2.0
"""Calls that are made row by row give the same values as whole tensors."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import aot
from quant_graphs import feeds_of
from streamed_graphs import random_network

#: More of them by AOT_FULL=1.
SEEDS = range(300, 340) if os.environ.get("AOT_FULL") else (8, 12)
#: Of networks of float32.
FLOATS = SEEDS if os.environ.get("AOT_FULL") else (7,)
CASES = [(k, False, "normal") for k in SEEDS]
CASES += [(k, True, a) for k in FLOATS for a in ("strict", "normal")]


@pytest.mark.parametrize(("seed", "floats", "accuracy"), CASES)
def test_same_values_as_whole_tensors(
    seed: int, floats: bool, accuracy: str, tmp_path: Path
) -> None:
    model = random_network(seed, floats)
    found = []
    for objective in ("flash", "ram"):
        options = {"objective": objective, "accuracy": accuracy}
        bundle = aot.compile(model, tmp_path / objective, name="net", **options)  # type: ignore[arg-type]
        feeds = [feeds_of(model, k) for k in range(2)]
        run = bundle.build().load()
        found.append([np.asarray(v) for feed in feeds for v in as_list(run(*feed.values()))])
    assert any(len(np.unique(v)) > 2 for v in found[0])
    for whole, rows in zip(*found, strict=True):
        np.testing.assert_array_equal(whole, rows)


def as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]
