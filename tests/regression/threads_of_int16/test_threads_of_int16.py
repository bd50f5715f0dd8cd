# SPDX-License-Identifier: Apache-2.0
"""Threads shared a sum of int16 quantised values as if a value had one byte: results were wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

import aot
from aot.cli import main
from quant_graphs import Net


def summed(count: int) -> onnx.ModelProto:
    """y = x + r, int16 quantised values [count]."""
    zero, kind = np.int16(0), (np.int16, (count,))
    net = Net(x=kind, r=kind)
    total = net.add("Add", net.dq("x", 0.0002, zero), net.dq("r", 0.0003, zero))
    return net.model(**{net.q(total, 0.0003, zero): np.int16})


def test_each_thread_has_its_elements(tmp_path: Path) -> None:
    onnx.save(summed(100_003), tmp_path / "sum.onnx")
    bundle = aot.compile(tmp_path / "sum.onnx", tmp_path / "out", threads=3).build()
    assert bundle.manifest["threads"]["calls"]
    assert main(["verify", str(bundle.out)]) == 0
