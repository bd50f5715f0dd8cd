# SPDX-License-Identifier: Apache-2.0
"""A slice of the tail of joined values may be taken before their head is there.

The order of least memory does so; the check of the program asked for every byte of the joined
values and ended the compilation with an internal error.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx.reference import ReferenceEvaluator

import aot
from graphs import model


def test_a_slice_of_what_is_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    state = {"hidden_size": 5, "layout": 1}
    rows = [
        ("Neg", "x", "tail0"),
        ("Exp", "x", "head0"),
        ("LSTM", "q w r", "all last", state),
        ("Concat", "head0 tail0", "joined", {"axis": 0}),
        ("Split", "joined parts", "head tail", {"axis": 0}),
    ]
    consts = {
        "parts": np.array([7, 3]),
        "w": rng.standard_normal((1, 20, 2)).astype(np.float32),
        "r": rng.standard_normal((1, 20, 5)).astype(np.float32),
    }
    outputs = {"tail": None, "last": None, "head": None}
    proto = model(rows, {"x": [5, 1, 1], "q": [1, 1, 2]}, outputs, consts)
    feeds = {"x": rng.standard_normal((5, 1, 1)), "q": rng.standard_normal((1, 1, 2))}
    feeds = {k: v.astype(np.float32) for k, v in feeds.items()}
    want = ReferenceEvaluator(proto).run(None, feeds)
    got = aot.compile(proto, tmp_path / "out", name="n").load()(*feeds.values())
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
