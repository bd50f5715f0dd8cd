# SPDX-License-Identifier: Apache-2.0
"""Activations of a convolution's exact sums, with no quantised values between: onnxruntime's
quantised values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from quant_graphs import S8, U8, Net, in_onnxruntime

SHAPE, CHANNELS = (1, 12, 40, 40), 8
Layer = Callable[[Net, str], str]

#: The layer behind the product, the scale of y, what the sums are multiplied with.
LAYERS: dict[str, tuple[Layer, float, float]] = {
    "sigmoid": (lambda n, v: n.add("Sigmoid", v), 1 / 256, 1),
    "sigmoid of large sums": (lambda n, v: n.add("Sigmoid", v), 1 / 256, 300),
    "tanh": (lambda n, v: n.add("Tanh", v), 1 / 128, 1),
    "swish": (lambda n, v: n.add("Mul", v, n.add("Sigmoid", v)), 0.03, 1),
    "hard swish": (lambda n, v: n.add("HardSwish", v), 0.04, 1.5),
    "leaky": (lambda n, v: n.add("LeakyRelu", v, alpha=0.1), 0.05, 2),
    "gelu": (lambda n, v: n.add("Gelu", v), 0.02, 1),
    "elu": (lambda n, v: n.add("Elu", v), 0.02, 1),
    "mish": (lambda n, v: n.add("Mish", v), 0.03, 1),
    "softplus": (lambda n, v: n.add("Softplus", v), 0.02, 1),
    "exponential": (lambda n, v: n.add("Exp", v), 0.1, 0.7),
    "a number, then": (lambda n, v: n.add("Tanh", n.add("Mul", v, np.float32(0.7))), 1 / 128, 1),
    "subtracted": (lambda n, v: n.add("Tanh", n.add("Sub", np.float32(0.3), v)), 1 / 128, 1),
    "sloped": (lambda n, v: n.add("PRelu", v, np.float32([0.2])), 0.05, 2),
    "limited": (lambda n, v: n.add("Clip", n.add("LeakyRelu", v), np.float32(-0.02)), 0.02, 1),
}


def weighted(net: Net, dtype: type, reach: float, dense: bool) -> str:
    """A product of random quantised values; its results have a deviation of about `reach`."""
    rng = np.random.default_rng(7)
    shape = (60, CHANNELS) if dense else (CHANNELS, SHAPE[1], 3, 3)
    depth = 60 if dense else SHAPE[1] * 9
    quantised = rng.integers(-127, 128, shape).astype(S8)
    step = reach / (np.sqrt(depth) * 74 * 74 * 0.03)
    scales = rng.uniform(step / 2, step * 1.5, CHANNELS).astype(np.float32)
    w = net.dq(quantised, scales, np.zeros(CHANNELS, S8), axis=1 if dense else 0)
    x = net.dq("x", 0.03, dtype(-7 if dtype is S8 else 121))
    bias = (rng.integers(-3000, 3000, CHANNELS) * np.float32(0.03) * scales).astype(np.float32)
    if dense:
        return str(net.add("Add", net.add("MatMul", x, w), bias))
    return str(net.add("Conv", x, w, bias, pads=[1, 1, 1, 1]))


@pytest.mark.parametrize(("dtype", "dense"), [(S8, False), (U8, True)])
def test_quantised_values_are_those_of_onnxruntime(
    dtype: type, dense: bool, tmp_path: Path
) -> None:
    net, made = Net(x=(dtype, (1200, 60) if dense else SHAPE)), {}
    for k, (layer, scale, reach) in enumerate(LAYERS.values()):
        zero = -128 if "sigmoid" in list(LAYERS)[k] else -60
        zero += 0 if dtype is S8 else 128
        result = layer(net, weighted(net, dtype, reach * (1 + k / 100), dense))
        net.q(result, scale, dtype(zero), out=f"y{k}")
        made[f"y{k}"] = dtype
    model = net.model(**made)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    kernels = {n["kernel"] for n in bundle.manifest["nodes"]}
    assert not [k for k in kernels if "f32" in k or "quantize" in k], kernels
    ends = np.iinfo(dtype)
    x = np.random.default_rng(9).integers(ends.min, ends.max + 1, net.inputs["x"][1]).astype(dtype)
    results = zip(LAYERS, in_onnxruntime(model, {"x": x}), bundle.load()(x), strict=True)
    for name, want, got in results:
        off = np.abs(want.astype(int) - got)
        assert off.max() <= 1 and np.mean(off > 0) <= 0.001, (name, off.max(), np.mean(off > 0))
        assert np.unique(want).size > 30, name


@pytest.mark.parametrize("op", ["Sin", "Reciprocal"])
def test_what_no_table_is_close_to_stays_float(op: str, tmp_path: Path) -> None:
    net = Net(x=(S8, SHAPE))
    net.q(net.add(op, weighted(net, S8, 3000.0, dense=False)), 0.01, S8(0), out="y")
    onnx.save(net.model(y=S8), tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    kernels = {n["kernel"] for n in bundle.manifest["nodes"]}
    assert not [k for k in kernels if "qconv" in k or "s32" in k], kernels


@pytest.mark.parametrize("behind", ["Sigmoid", "Add"])
def test_a_gemm_and_what_follows_is_one_integer_call(behind: str, tmp_path: Path) -> None:
    """Weights are transposed, the bias is a row: as in a fully connected layer of PyTorch."""
    rng, given = np.random.default_rng(5), {"x": (S8, (300, 60))}
    net = Net(**given, **({"r": (S8, (300, 8))} if behind == "Add" else {}))
    scales = rng.uniform(2e-4, 6e-4, 8).astype(np.float32)
    w = net.dq(rng.integers(-127, 128, (8, 60)).astype(S8), scales, np.zeros(8, S8), axis=0)
    bias = (rng.integers(-3000, 3000, 8) * np.float32(0.03) * scales).astype(np.float32)
    dot = net.add("Gemm", net.dq("x", 0.03, S8(-7)), w, bias, transB=1)
    if behind == "Add":
        net.q(net.add("Add", dot, net.dq("r", 0.02, S8(11))), 0.03, S8(-4), out="y")
    else:
        net.q(net.add("Sigmoid", dot), 1 / 256, S8(-128), out="y")
    model = net.model(y=S8)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    assert len(bundle.manifest["nodes"]) == 1, bundle.manifest["nodes"]
    fed = {k: rng.integers(-128, 128, shape).astype(t) for k, (t, shape) in net.inputs.items()}
    want, got = in_onnxruntime(model, fed)[0], bundle.load()(*fed.values())
    off = np.abs(want.astype(int) - got)
    assert off.max() <= 1 and np.mean(off > 0) <= 0.002, (off.max(), np.mean(off > 0))
    assert np.unique(want).size > 30
