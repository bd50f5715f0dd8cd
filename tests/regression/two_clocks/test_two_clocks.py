# SPDX-License-Identifier: Apache-2.0
"""`bench --per-node` showed calls by the wall clock below a headline in CPU time: on a busy machine
a call took longer than the run it is a part of.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from aot.cli import main
from aot.tools import bench
from aot.tools.build import build
from aot.tools.run import open_out, profiled
from graphs import model


def test_calls_are_timed_by_the_clock_of_the_headline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    w = np.ones((512, 512), np.float32) / 512
    path, out = tmp_path / "net.onnx", tmp_path / "out"
    rows = [("MatMul", "x w", "a"), ("Softmax", "a", "y")]
    onnx.save(model(rows, {"x": [64, 512]}, {"y": [64, 512]}, {"w": w}), path)
    assert main([str(path), "-o", str(out), "-q"]) == 0
    build(out)
    assert main(["bench", str(out), "--per-node", "--repeat", "3"]) == 0
    head, title, *_ = capsys.readouterr().out.splitlines()
    assert " us CPU per run" in head or " ms CPU per run" in head
    assert re.fullmatch(r" +us CPU  share  kernel, nodes", title)
    built = open_out(out)
    found = profiled(built, 5)["calls"]
    for call in found:
        assert 0 < call["cpu_median_ns"] <= call["wall_median_ns"]
    for call in found:
        call["wall_median_ns"] *= 1000  # what a busy machine makes of it
    monkeypatch.setattr(bench, "profiled", lambda *_: {"calls": found})
    amounts = [c.amount for c in bench.bench_nodes(built, 5)]
    assert amounts == [c["cpu_median_ns"] for c in found]
