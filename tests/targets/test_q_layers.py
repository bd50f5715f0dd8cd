# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers and resizing of quantised values on cores without FPU and with DSP: the host's
quantised values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from aot.cli import main
from aot.npz import read_npz
from quant_graphs import S8, Net
from targets.images import need_tools

RNG = np.random.default_rng(9)
FORMS: dict[str, dict[str, Any]] = {"LSTM": {}, "GRU": {"linear_before_reset": 1}}


def model() -> onnx.ModelProto:
    """An LSTM and a GRU over eight steps, and rows resized."""
    net = Net(x=(S8, (8, 1, 11)), image=(S8, (1, 5, 6, 7)))
    value, depth, hidden = net.dq("x", 0.02, S8(-9)), 11, 13
    for i, (kind, attributes) in enumerate(FORMS.items()):
        rows = (4 - i) * hidden
        operands = [value]
        for size in (depth, hidden):
            w = RNG.integers(-127, 128, (1, rows, size)).astype(S8)
            operands.append(net.dq(w, 0.003, S8(0)))
        made = net.add(kind, *operands, hidden_size=hidden, **attributes)
        flat = net.add("Squeeze", made, np.array([1], np.int64))
        quantised = net.q(flat, 2 / 255, S8(0), out=f"y{i}")
        value, depth = net.dq(quantised, 2 / 255, S8(0)), hidden
    sizes = np.array([1, 5, 9, 11], np.int64)
    big = net.add("Resize", net.dq("image", 0.03, S8(4)), "", "", sizes, mode="linear")
    net.q(big, 0.028, S8(-2), out="z")
    return net.model(y0=S8, y1=S8, z=S8)


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "rv32imac"])
def test_same_quantised_values_as_the_host(core: str, tmp_path: Path) -> None:
    need_tools(core)
    path, samples = tmp_path / "layers.onnx", tmp_path / "in.npz"
    onnx.save(model(), path)
    x = RNG.integers(-128, 128, (8, 1, 11)).astype(S8)
    np.savez(samples, x=x, image=RNG.integers(-128, 128, (1, 5, 6, 7)).astype(S8))
    results = []
    for target in ("host", core):
        out = tmp_path / target
        bundle = aot.compile(path, out, target=target).build()
        assert not any("_f32" in n["kernel"] for n in bundle.manifest["nodes"])
        words = ["--inputs", str(samples), "--outputs", str(tmp_path / "out.npz")]
        assert main(["run", str(out), *words]) == 0
        results.append(read_npz(tmp_path / "out.npz"))
    for name in ("y0", "y1", "z"):
        np.testing.assert_array_equal(results[0][name], results[1][name], err_msg=name)
        assert np.unique(results[0][name]).size > 2
