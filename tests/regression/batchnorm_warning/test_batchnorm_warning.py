# SPDX-License-Identifier: Apache-2.0
"""BatchNormalization with a negative variance: one message, without NumPy's warning before it."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import aot
from aot.errors import AotError
from graphs import model


@pytest.mark.parametrize("variance", [-1.0, np.nan, np.inf])
def test_a_variance_without_a_root(tmp_path: Path, variance: float) -> None:
    consts = {"s": np.ones(2, np.float32), "v": np.full(2, variance, np.float32)}
    row = ("BatchNormalization", "x s s s v", "y")
    proto = model([row], {"x": [1, 2, 3]}, {"y": [1, 2, 3]}, consts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if np.isinf(variance):
            aot.compile(proto, tmp_path, configure=False)
            return
        with pytest.raises(AotError, match=f"variance there is {variance:g}"):
            aot.compile(proto, tmp_path, configure=False)
