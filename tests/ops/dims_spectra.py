# SPDX-License-Identifier: Apache-2.0
"""Transforms to frequencies beside dimensions that a run says, for test_dims.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def families(one: Callable[..., Any]) -> Iterator[Any]:
    """Transforms beside a dimension and of one that zeros fill up; frames of samples.

    `one` makes a family of one operator on x.
    """
    numbers = {"one": 1, "eight": 8, "two": 2, "four": 4}
    consts = {k: np.array(v) for k, v in numbers.items()} | {
        "w": np.hanning(6).astype(np.float32)[1:5]
    }
    yield one("DFT", "x eight one", ("N", 5, 1), consts=consts)
    yield one("DFT", "x eight one", (2, "N", 2), consts=consts)
    frames = {"ranges": {"N": (4, 20)}, "sizes": [{"N": n} for n in (4, 5, 11, 20)]}
    yield one("STFT", "x two w", (2, "N", 1), consts=consts, **frames)
    yield one("STFT", "x two w four", (2, "N", 1), {"onesided": 0}, consts=consts, **frames)
