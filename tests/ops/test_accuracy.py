# SPDX-License-Identifier: Apache-2.0
"""What `--accuracy` changes: contraction, Winograd and how large its tiles may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
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


@pytest.mark.parametrize(("accuracy", "tile"), [("strict", None), ("normal", 4), ("fast", 6)])
def test_winograd_tile_and_error(tmp_path: Path, accuracy: str, tile: int | None) -> None:
    bundle = aot.compile(MODEL, tmp_path / "out", target="x86-64-v2", accuracy=accuracy)
    tiles = {
        n["instance"].get("M")
        for n in bundle.manifest["nodes"]
        if "conv" in n["kernel"] or "wino" in n["kernel"]
    }
    assert tiles == {tile}
    x = RNG.standard_normal((1, 64, 48, 48)).astype(np.float32)
    session = onnxruntime.InferenceSession(MODEL.SerializeToString())
    want = session.run(None, {"x": x})[0]
    error = np.max(np.abs(np.asarray(bundle.load()(x)) - want)) / np.max(np.abs(want))
    assert error < (1e-3 if accuracy == "fast" else 1e-4)
