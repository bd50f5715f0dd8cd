# SPDX-License-Identifier: Apache-2.0
"""Constants per channel between quantised values, and PRelu: onnxruntime's quantised values,
computed on integers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from quant_graphs import S8, S16, U8, Net, in_onnxruntime

U16 = np.uint16
SHAPE = (1, 6, 32, 32)
FACTORS = np.array([0.7, -0.31, 1.9, 0, 1e-6, -2], np.float32).reshape(6, 1, 1)
ADDENDS = np.array([0.4, -0.9, 1e-7, 0, 2.5, -0.0625], np.float32).reshape(6, 1, 1)
WHOLE = (np.arange(1024, dtype=np.float32) / 512 - 1).reshape(32, 32)
HALVES = np.array([0.5, 1.5, -0.5, 2, -3, 0.25], np.float32).reshape(6, 1, 1)

Layer = Callable[[Net, str], str]
LAYERS: dict[str, Layer] = {
    "product": lambda n, x: n.add("Mul", x, FACTORS),
    "quotient": lambda n, x: n.add("Div", x, FACTORS + np.float32(3.3)),
    "sum": lambda n, x: n.add("Add", x, ADDENDS),
    "difference": lambda n, x: n.add("Sub", ADDENDS, x),
    "slopes": lambda n, x: n.add("PRelu", x, FACTORS),
    "slope of every element": lambda n, x: n.add("PRelu", x, WHOLE),
    "both": lambda n, x: n.add("Add", n.add("Mul", x, FACTORS / 3), ADDENDS),
    "quotient and sum": lambda n, x: n.add("Add", n.add("Div", x, HALVES + 4), WHOLE[0]),
    "both, relu": lambda n, x: n.add("Relu", n.add("Add", n.add("Mul", x, HALVES), WHOLE[:, :1])),
    "product, clip": lambda n, x: n.add("Clip", n.add("Mul", x, -HALVES), np.float32(-1)),
    "last axis": lambda n, x: n.add("Mul", x, WHOLE[5]),
}


def network(dtype: type, scales: tuple[float, float]) -> onnx.ModelProto:
    """Every layer on the same quantised values, each with an output of its own."""
    net, made = Net(x=(dtype, SHAPE)), {}
    ends = np.iinfo(dtype)
    middle = (int(ends.min) + int(ends.max) + 1) // 2
    for k, layer in enumerate(LAYERS.values()):
        x = net.dq("x", scales[0], dtype(middle + 3))
        net.q(layer(net, x), scales[1], dtype(middle - 2), out=f"y{k}")
        made[f"y{k}"] = dtype
    return net.model(**made)


@pytest.mark.parametrize(
    ("dtype", "scales"),
    [
        (S8, (0.03, 0.047)),
        (U8, (0.03125, 0.0625)),  # halves abound
        (S16, (1e-4, 1.7e-4)),
        (U16, (2.0**-13, 2.0**-12)),
    ],
)
def test_every_code_is_that_of_onnxruntime(
    dtype: type, scales: tuple[float, float], tmp_path: Path
) -> None:
    model = network(dtype, scales)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    kernels = {n["kernel"] for n in bundle.manifest["nodes"]}
    assert not [k for k in kernels if "f32" in k or "quantize" in k], kernels
    if np.dtype(dtype).itemsize == 1:
        x = np.resize(np.arange(256, dtype=np.uint8).view(dtype), SHAPE)
    else:
        x = np.random.default_rng(3).integers(0, 65536, SHAPE, np.uint16).view(dtype)
    for name, theirs, ours in zip(
        LAYERS, in_onnxruntime(model, {"x": x}), bundle.load()(x), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
        assert np.unique(theirs).size > 20, name


@pytest.mark.parametrize(
    "constants",
    [
        np.array([1, np.inf, 1, 1, 1, 1], np.float32),
        np.array([1, 1e-30, 1, 1, 1, 1], np.float32),
        np.array([1, 3e10, 1, 1, 1, 1], np.float32),
    ],
)
def test_what_fixed_point_does_not_hold_stays_float(constants: np.ndarray, tmp_path: Path) -> None:
    net = Net(x=(S8, (1, 6, 4, 4)))
    made = net.add("Mul", net.dq("x", 0.03, S8(3)), constants.reshape(6, 1, 1))
    net.q(made, 0.05, S8(0), out="y")
    onnx.save(net.model(y=S8), tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    assert "aot_mul_f32" in {n["kernel"] for n in bundle.manifest["nodes"]}


def test_a_batch_normalisation_that_no_convolution_takes(tmp_path: Path) -> None:
    """onnxruntime rounds its factors to float32 in another order: some quantised values are one
    off."""
    net = Net(x=(S16, SHAPE))
    rng = np.random.default_rng(8)
    four = [rng.uniform(0.5, 1.5, 6).astype(np.float32) for _ in range(4)]
    x = net.dq("x", 1e-4, S16(0))
    net.q(net.add("BatchNormalization", x, *four), 2e-4, S16(100), out="y")
    model = net.model(y=S16)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    quantised = rng.integers(-32768, 32768, SHAPE).astype(S16)
    want = in_onnxruntime(model, {"x": quantised})[0].astype(int)
    got = np.asarray(bundle.load()(quantised)).astype(int)
    assert np.abs(got - want).max() <= 1 and np.mean(got != want) <= 0.001
    assert {n["kernel"] for n in bundle.manifest["nodes"]} == {"aot_qchannel_s16"}
