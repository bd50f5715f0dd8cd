# SPDX-License-Identifier: Apache-2.0
"""Threads shared the rows of a product so that one was left alone: kernels sum it in another order
than a row among others, and its bits were not those of one thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot
from aot.ir.splits import Split

ROWS, DEPTH, COLUMNS = 19, 4096, 128


@pytest.mark.parametrize("tile", [4, 6, 14])
def test_no_part_is_a_row_alone(tile: int) -> None:
    for rows in range(2, 500):
        split = Split.rows_of_product(rows, [], tile)
        assert split.units == rows and rows % split.tile != 1 and split.tile >= min(tile, rows)


def test_bits_of_four_threads(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((DEPTH, COLUMNS)).astype(np.float32)
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, (ROWS, size))
        for n, size in (("x", DEPTH), ("y", COLUMNS))
    ]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "m.onnx")
    out = tmp_path / "out"
    aot.compile(tmp_path / "m.onnx", out, threads=4).build()
    np.savez(tmp_path / "x.npz", x=rng.standard_normal((ROWS, DEPTH)).astype(np.float32))
    found = []
    for threads in "14":
        to = tmp_path / f"{threads}.npz"
        words = ["run", out, "--inputs", tmp_path / "x.npz", "--outputs", to]
        environment = {**os.environ, "AOT_THREADS": threads}
        subprocess.run([sys.executable, "-m", "aot", *words], env=environment, check=True)
        found.append(np.load(to)["y"].tobytes())
    assert found[0] == found[1]
