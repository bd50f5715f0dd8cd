# SPDX-License-Identifier: Apache-2.0
"""Products of int16 quantised values and int8 weights on every kind of core: each quantised value
is that of the host's general kernel."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from aot.cli import main
from aot.npz import read_npz
from quant_graphs import S8, S16, Net, quantised_values, scales
from targets.images import need_tools

FULL = pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="AOT_FULL is not set")
RNG = np.random.default_rng(15)
#: Plain C without FPU, DSP instructions and vectors; both arithmetics where a core has a form of
#: its own for each.
CASES = (
    ("cortex-m33", "tflite"),
    ("cortex-m55", "onnx"),
    ("cortex-m55", "tflite"),
    pytest.param("cortex-m0", "onnx", marks=FULL),
    pytest.param("cortex-m4", "onnx", marks=FULL),
)
ZERO = S16(-300)
KERNELS = ("aot_qconv_s16", "aot_qdwconv_s16", "aot_qfc_s16")


def layer(net: Net, x: str, shape: tuple[int, ...], out: str, **attributes: Any) -> str:
    """A convolution with weights of `shape`, a scale per output channel."""
    steps = scales(*RNG.uniform(0.004, 0.02, shape[0]))
    w = net.dq(quantised_values(*shape), steps, np.zeros(shape[0], S8), axis=0)
    bias = net.dq(
        RNG.integers(-9999, 9999, shape[0]).astype(np.int32),
        scales(*(np.float32(0.0007) * steps)),
        np.zeros(shape[0], np.int32),
        axis=0,
    )
    made = net.add("Conv", net.dq(x, 0.0007, ZERO), w, bias, **attributes)
    made = net.add("Relu", made) if out in "bd" else made
    name: str = net.q(made, 0.0007, ZERO, out=out)
    return name


@functools.lru_cache
def odd_shapes() -> onnx.ModelProto:
    """Odd runs, channels that fill no block, borders, strides, dilations, few and many rows."""
    net = Net(x=(S16, (1, 3, 9, 7)))
    a = layer(net, "x", (14, 3, 3, 3), "a", pads=[1, 1, 1, 1])
    b = layer(net, a, (14, 1, 3, 3), "b", group=14, pads=[1, 1, 1, 1])
    c = layer(net, b, (9, 14, 1, 1), "c", strides=[2, 2])
    d = layer(net, c, (16, 9, 2, 3), "d", pads=[0, 2, 1, 2], dilations=[1, 2])
    e = layer(net, d, (8, 16, 1, 1), "e")
    f = layer(net, e, (8, 1, 2, 2), "f", group=8, strides=[1, 2], pads=[1, 0, 1, 0])
    flat = net.add("Reshape", net.dq(f, 0.0007, ZERO), np.array([1, -1], np.int64))
    shape = [int(np.prod(flat_shape(net.model(f=S16)))), 5]
    y = net.add("MatMul", flat, net.dq(quantised_values(*shape), 0.002, S8(0)))
    net.q(y, 0.0009, S16(3), out="y")
    rows = net.add("MatMul", net.dq(c, 0.0007, ZERO), net.dq(quantised_values(4, 6), 0.01, S8(0)))
    net.q(rows, 0.001, S16(0), out="z")
    return net.model(**{name: S16 for name in "abcdefyz"})


def flat_shape(model: onnx.ModelProto) -> list[int]:
    """The shape of the last output of a model, by inference."""
    found = onnx.shape_inference.infer_shapes(model).graph.output[-1].type.tensor_type.shape
    return [d.dim_value for d in found.dim]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The host's results by arithmetic, with the model and the inputs."""
    folder = tmp_path_factory.mktemp("int16")
    onnx.save(odd_shapes(), folder / "m.onnx")
    given = RNG.integers(-32768, 32768, (1, 3, 9, 7)).astype(S16)
    np.savez(folder / "in.npz", x=given)
    results: dict[str, Any] = {"folder": folder}
    for requant in ("onnx", "tflite"):
        bundle = aot.compile(folder / "m.onnx", folder / requant, requant=requant)
        kernels = {n["kernel"] for n in bundle.manifest["nodes"]}
        assert "aot_qconv_ref" in kernels and not kernels & {*KERNELS}
        results[requant] = dict(zip("abcdefyz", bundle.load()(given), strict=True))
    return results


@pytest.mark.parametrize(("core", "requant"), CASES)
def test_same_quantised_values_as_the_host(
    core: str, requant: str, wanted: dict[str, Any], tmp_path: Path
) -> None:
    need_tools(core)
    folder = wanted["folder"]
    aot.compile(folder / "m.onnx", tmp_path, target=core, requant=requant).build()
    words = ["--inputs", str(folder / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    assert main(["run", str(tmp_path), *words]) == 0
    got = read_npz(tmp_path / "out.npz")
    for name, want in wanted[requant].items():
        np.testing.assert_array_equal(got[name], want, err_msg=name)
        assert np.unique(want).size > 4
    calls = json.loads((tmp_path / "bundle" / "manifest.json").read_text())["nodes"]
    assert {n["kernel"] for n in calls} >= {*KERNELS}
