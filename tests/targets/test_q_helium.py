# SPDX-License-Identifier: Apache-2.0
"""Sums, averages and maxima of quantised values in Cortex-M55's vectors: every code is that of the
host."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from aot.cli import main
from aot.npz import read_npz
from quant_graphs import S8, Net, quantised_values, scales
from targets.images import need_tools

RNG = np.random.default_rng(8)
SHAPE = (1, 7, 5, 3)


@functools.lru_cache
def elementwise() -> onnx.ModelProto:
    """Rows that are no multiple of four, results beyond the quantised values, and halves between
    them."""
    net = Net(x=(S8, SHAPE), z=(S8, SHAPE))
    x, z = net.dq("x", 0.05, S8(-7)), net.dq("z", 0.025, S8(90))
    net.q(net.add("Add", x, z), 0.04, S8(3), out="a")
    net.q(net.add("Sub", z, x), 0.1, S8(0), out="b")
    net.q(net.add("Relu", net.add("Add", x, x)), 0.1, S8(-128), out="c")
    w = net.dq(
        quantised_values(7, 7, 3, 3), scales(*np.linspace(0.004, 0.01, 7)), np.zeros(7, S8), axis=0
    )
    conv = net.q(net.add("Conv", x, w, pads=[1, 1, 1, 1]), 0.08, S8(5))
    net.q(net.add("Add", net.dq(conv, 0.08, S8(5)), z), 0.09, S8(-4), out="d")
    net.q(net.add("AveragePool", x, kernel_shape=[3, 2], pads=[1, 0, 0, 1]), 0.03, S8(1), out="e")
    net.q(net.add("GlobalAveragePool", x), 0.05, S8(-7), out="f")
    net.add("MaxPool", "d", kernel_shape=[3, 2], pads=[1, 0, 0, 1], out="g")
    return net.model(**{name: S8 for name in "abcdefg"})


@pytest.mark.parametrize("requant", ["onnx", "tflite"])
def test_same_quantised_values_as_the_host(requant: str, tmp_path: Path) -> None:
    need_tools("cortex-m55")
    model, samples = tmp_path / "m.onnx", tmp_path / "in.npz"
    onnx.save(elementwise(), model)
    given = {name: RNG.integers(-128, 128, SHAPE).astype(np.int8) for name in "xz"}
    np.savez(samples, **given)
    results = []
    for target in ("host", "cortex-m55"):
        out = tmp_path / target
        aot.compile(model, out, target=target, requant=requant).build()
        words = ["--inputs", str(samples), "--outputs", str(tmp_path / "out.npz")]
        assert main(["run", str(out), *words]) == 0
        results.append(read_npz(tmp_path / "out.npz"))
    for name in "abcdefg":
        np.testing.assert_array_equal(results[0][name], results[1][name], err_msg=name)
        assert np.unique(results[0][name]).size > 2
    calls = (tmp_path / "cortex-m55" / "bundle" / "manifest.json").read_text()
    for kernel in (
        "aot_qadd_s8",
        "aot_qconv_epilogue_s8__mve",
        "aot_qavgpool_s8",
        "aot_maxpool_s8_blocked",
    ):
        assert f'"{kernel}"' in calls
