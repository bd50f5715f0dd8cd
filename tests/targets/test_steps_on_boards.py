# SPDX-License-Identifier: Apache-2.0
"""A run in steps on an emulated board: the bits of a whole run, and its instructions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import aot
from aot.cli import main
from aot.npz import read_npz
from aot.tools.bench import Board, bench
from aot.tools.run import open_out
from targets.images import ROOT, need_tools

DIGITS = ROOT / "examples/digits/digits_int8.onnx"
BOUND = 20_000


def test_steps_cost_two_percent_at_most(tmp_path: Path) -> None:
    need_tools("cortex-m4")
    samples = tmp_path / "in.npz"
    data = np.random.default_rng(3).integers(-128, 128, (1, 1, 8, 8)).astype(np.int8)
    np.savez(samples, image=data)
    results, counts = [], []
    for macs in (0, BOUND):
        bundle = aot.compile(DIGITS, tmp_path / str(macs), target="cortex-m4", slice_macs=macs)
        bundle.build()
        words = ["--inputs", str(samples), "--outputs", str(tmp_path / "out.npz")]
        assert main(["run", str(bundle.out), *words]) == 0
        results.append(read_npz(tmp_path / "out.npz"))
        found = bench(open_out(bundle.out))
        assert isinstance(found, Board)
        counts.append(found.instructions[-1])
    assert any(s["end_row"] for s in bundle.manifest["slices"]["slices"])
    assert [v.tobytes() for v in results[0].values()] == [v.tobytes() for v in results[1].values()]
    assert counts[0] < counts[1] <= 1.02 * counts[0]
    (code,) = (bundle.out / "bundle/src").glob("*_run.c")
    assert "_rows(" in code.read_text(encoding="ascii")
