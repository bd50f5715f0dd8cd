# SPDX-License-Identifier: Apache-2.0
"""`aotc verify` called a difference of 117 quantised values "ok", because it does not gate."""

from __future__ import annotations

import numpy as np

from aot.tools.compare import compare
from aot.tools.layerwise import not_gated


def test_what_differs_is_not_ok() -> None:
    ours, theirs = np.array([0, 117], np.int8), np.array([0, 0], np.int8)
    found = compare("y", ours, theirs, "int8")
    assert not found.passed and "MISMATCH, 1 of 2 differ" in found.text()
    shown = not_gated(found)
    assert shown.passed and "differs, 1 of 2 differ" in shown.text()
    assert not_gated(compare("y", ours, ours, "int8")).text().endswith(": ok")
    assert not not_gated(compare("y", ours, theirs[:1], "int8")).passed
