# SPDX-License-Identifier: Apache-2.0
"""What `--accuracy` changes: contraction, Winograd and how large its tiles may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aot
import graphs

RNG = np.random.default_rng(3)
W = (RNG.standard_normal((32, 64, 3, 3)) / 24).astype(np.float32)
MODEL = graphs.model(
    [("Conv", "x w", "y", {"pads": [1, 1, 1, 1]})],
    {"x": (1, 64, 48, 48)},
    {"y": (1, 32, 48, 48)},
    {"w": W},
)


DIRECT = 5e-7  # what the direct kernel errs by at most, as a root of mean squares of the results


@pytest.mark.parametrize(
    ("accuracy", "tile", "times"), [("strict", None, 1), ("normal", 4, 2), ("fast", 6, 10)]
)
def test_winograd_tile_and_error(
    tmp_path: Path, accuracy: str, tile: int | None, times: int
) -> None:
    bundle = aot.compile(MODEL, tmp_path / "out", target="x86-64-v2", accuracy=accuracy)
    tiles = {
        n["instance"].get("M")
        for n in bundle.manifest["nodes"]
        if "conv" in n["kernel"] or "wino" in n["kernel"]
    }
    assert tiles == {tile}
    x = RNG.standard_normal((1, 64, 48, 48)).astype(np.float32)
    padded = np.pad(x[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    want = np.tensordot(W.astype(np.float64), windows, ((1, 2, 3), (0, 3, 4)))
    error = np.asarray(bundle.load()(x))[0] - want
    assert np.sqrt((error**2).mean() / (want**2).mean()) < times * DIRECT
