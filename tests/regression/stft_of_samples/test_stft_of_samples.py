# SPDX-License-Identifier: Apache-2.0
"""STFT of a signal [batch, samples] failed with a message about a Mul that no model has.

ONNX's text has a last axis of 1 or 2; onnxruntime takes a signal without it as real, and so do we.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import aot
from aot.errors import AotError
from graphs import model


def spectrum(shape: tuple[int, ...], window: bool) -> onnx.ModelProto:
    """Frames of 8 samples, 4 apart, of a signal of this shape."""
    named = "x step w n" if window else "x step  n"
    rows = [("STFT", named, "y", {"onesided": 1})]
    constants = {"step": np.array(4), "n": np.array(8)}
    if window:
        constants["w"] = np.hanning(8).astype(np.float32)
    made = model(rows, {"x": shape}, {"y": None}, constants, opset=17)
    made.graph.node[0].input[:] = ["x", "step", "w" if window else "", "n"]
    return made


@pytest.mark.parametrize("window", [True, False])
def test_a_signal_without_a_last_axis(window: bool, tmp_path: Path) -> None:
    proto = spectrum((2, 16), window)
    x = np.random.default_rng(3).standard_normal((2, 16)).astype(np.float32)
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    ours = aot.compile(proto, tmp_path, name="net").load()(x)
    assert ours.shape == want.shape == (2, 3, 5, 2)
    np.testing.assert_allclose(ours, want, rtol=1e-4, atol=1e-5)


def test_other_ranks_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(AotError, match="a signal of rank 4"):
        aot.compile(spectrum((2, 2, 16, 1), True), tmp_path, name="net", configure=False)
