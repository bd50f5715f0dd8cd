# SPDX-License-Identifier: Apache-2.0
"""A balanced twelfth of onnx's own tests; all of them, sanitised, with AOT_FULL=1.

Refusals are allowed and counted, so that coverage cannot shrink unseen; nothing else but a pass is.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
import run
import suite

FULL = bool(os.environ.get("AOT_FULL"))
#: Refused tests of the whole suite on onnx 1.23.2; newer ones may bring more.
REFUSED_SHARE = 0.18


def test_onnx_conformance(tmp_path: Path) -> None:
    chosen = list(range(len(suite.collect()))) if FULL else suite.sample(12)
    assert len(chosen) > 300
    rows = []
    for start in range(0, len(chosen), run.BATCH):
        rows += run.work((chosen[start : start + run.BATCH], FULL, "x86-64"))
    defects = [f"{r[3]}: {r[1]}: {r[4][:300]}" for r in rows if r[3] in suite.DEFECTS]
    assert not defects, "\n".join(defects)
    counts = Counter(r[3] for r in rows)
    assert counts[suite.REFUSED] <= REFUSED_SHARE * len(rows), counts


def test_a_wrong_expectation_is_seen() -> None:
    """The judge is no rubber stamp: the same test with a changed output fails."""
    test = next(t for t in suite.collect() if t.name == "test_relu")
    inputs, outputs = test.data_sets[0]
    spoilt = [outputs[0] + 0.01]
    copy = suite.Test("node", "spoilt", test.model, [(inputs, spoilt)], test.rtol, test.atol)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite, "collect", lambda: (copy,))
        assert [r[3] for r in run.work(([0], False, "x86-64"))] == [suite.WRONG]
