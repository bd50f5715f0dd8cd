# SPDX-License-Identifier: Apache-2.0
"""Dimensions that runs say, of which a model can take some sizes only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from aot.cli import main
from aot.errors import AotError
from graphs import model


def test_parts_fill_the_axis_or_the_run_is_refused(tmp_path: Path) -> None:
    """A Split in [2, 3] of a dimension takes runs of 5 alone."""
    nodes = [("Split", "x sizes", "a b", {"axis": 0})]
    sizes = {"sizes": np.array([2, 3], np.int64)}
    proto = model(nodes, {"x": ("N", 2)}, {"a": None, "b": None}, sizes)
    net = aot.compile(proto, tmp_path / "out", name="net", dims={"N": (1, 9)}).load()
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    a, b = net(x)
    np.testing.assert_array_equal(np.concatenate([a, b]), x)
    for n in (4, 6):
        with pytest.raises(AotError, match="status 3"):
            net(np.ones((n, 2), np.float32))


def test_verify_leaves_out_sizes_that_the_model_cannot_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [("Split", "x sizes", "a b", {"axis": 0})]
    sizes = {"sizes": np.array([2, 3], np.int64)}
    proto = model(nodes, {"x": ("N", 2)}, {"a": None, "b": None}, sizes)
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    out = str(tmp_path / "out")
    assert main([str(path), "-o", out, "--dim", "N=1..5", "-q"]) == 0
    aot.Bundle(tmp_path / "out").build()
    assert main(["verify", out]) == 0
    said = capsys.readouterr().out
    assert "most/a" in said and "least, x [1, 2]: left out, onnxruntime cannot run" in said
