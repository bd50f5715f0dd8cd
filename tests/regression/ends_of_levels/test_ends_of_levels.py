# SPDX-License-Identifier: Apache-2.0
"""A result that one level of a library stores in blocks first, and another as it is, was taken for
two different results: a last convolution of five channels had no library of several levels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import aot
from aot.target import machine
from aot.tools.run import execute, open_out
from graphs import model


@pytest.mark.skipif(machine() != "x86_64", reason="levels of x86-64 run on x86-64")
def test_each_level_ends_in_its_own_way(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 24, 3, 4), (5, 24, 1, 1)))
    net = model([("Conv", "x w", "y")], {"x": x.shape}, {"y": [1, 5, 3, 4]}, {"w": w})
    aot.compile(net, tmp_path / "o", target="x86-64:base,v3").build()
    for level in ("x86-64", "x86-64-v3"):
        built = replace(open_out(tmp_path / "o"), level=level)
        want = np.einsum("oc,ncij->noij", w[:, :, 0, 0], x)
        np.testing.assert_allclose(execute(built, [x])[0], want, rtol=1e-4, atol=1e-5)
