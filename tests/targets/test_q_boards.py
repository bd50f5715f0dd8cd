# SPDX-License-Identifier: Apache-2.0
"""The int8 kernels' assembly on cores without vectors: every code is that of the host."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from aot.cli import main
from aot.npz import read_npz
from quant_graphs import S8, Net, quantised_values, scales
from targets.images import need_tools

RNG = np.random.default_rng(5)
#: Each with the loops of its own: Thumb-1, Thumb-2 and RISC-V.
CASES = (("cortex-m0", "onnx"), ("cortex-m3", "tflite"), ("rv32imac", "onnx"))


def weights(net: Net, *shape: int) -> str:
    """Dequantised weights, one scale per output channel."""
    scale = scales(*RNG.uniform(0.002, 0.02, shape[0]))
    name: str = net.dq(quantised_values(*shape), scale, np.zeros(shape[0], S8), axis=0)
    return name


def layer(net: Net, x: str, w: str, out: str, **attributes: Any) -> str:
    """A convolution of quantised values of scale 0.07 and zero point -11, to quantised values of
    the same."""
    y = net.add("Conv", net.dq(x, 0.07, S8(-11)), w, **attributes)
    name: str = net.q(y, 0.07, S8(-11), out=out)
    return name


@functools.lru_cache
def odd_shapes() -> onnx.ModelProto:
    """Runs of 1, 2, 3 and 4 k past the unrolled loops, channels that fill no panel, borders."""
    net = Net(x=(S8, (1, 3, 9, 7)))
    a = layer(net, "x", weights(net, 13, 3, 3, 3), "a", pads=[1, 1, 1, 1])
    b = layer(net, a, weights(net, 13, 1, 3, 3), "b", group=13, pads=[1, 1, 1, 1])
    c = layer(net, b, weights(net, 9, 13, 1, 1), "c", strides=[2, 2])
    d = layer(net, c, weights(net, 6, 9, 2, 3), "d", pads=[0, 1, 1, 1])
    e = layer(net, d, weights(net, 70, 6, 1, 1), "e")
    flat = net.add("Reshape", net.dq(e, 0.07, S8(-11)), np.array([1, -1], np.int64))
    y = net.add("MatMul", flat, net.dq(quantised_values(1400, 5), 0.002, S8(0)))
    net.q(y, 0.9, S8(3), out="y")
    return net.model(**{name: S8 for name in "abcdey"})


@pytest.mark.sample(2)
@pytest.mark.parametrize(("core", "requant"), CASES)
def test_same_quantised_values_as_the_host(core: str, requant: str, tmp_path: Path) -> None:
    need_tools(core)
    model, samples = tmp_path / "odd.onnx", tmp_path / "in.npz"
    onnx.save(odd_shapes(), model)
    np.savez(samples, x=RNG.integers(-128, 128, (1, 3, 9, 7)).astype(np.int8))
    results = []
    for target in ("host", core):
        out = tmp_path / target
        aot.compile(model, out, target=target, requant=requant).build()
        words = ["--inputs", str(samples), "--outputs", str(tmp_path / "out.npz")]
        assert main(["run", str(out), *words]) == 0
        results.append(read_npz(tmp_path / "out.npz"))
    for name in "abcdey":
        np.testing.assert_array_equal(results[0][name], results[1][name], err_msg=name)
        assert np.unique(results[0][name]).size > 2
