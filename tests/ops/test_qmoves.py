# SPDX-License-Identifier: Apache-2.0
"""What only moves or picks 16-bit quantised values works on quantised values: every code is
onnxruntime's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from aot.load import LoadOptions
from aot.normalise import normalise
from quant_graphs import S8, S16, U8, Net, i64, in_onnxruntime, normal

SHAPE = (1, 4, 6, 6)
U16 = np.uint16
MIDDLE = {S16: 0, U16: 32768}
CONDITION = np.arange(36).reshape(6, 6) % 3 == 0
ROWS = np.linspace(-9, 9, 36, dtype=np.float32).reshape(6, 6)
#: Scales of x, b and results; a result of scale 0 has the parameters of x.
SX, SB = 3e-4, 4.1e-4

Layer = Callable[[Net, str, str], str]
LAYERS: dict[str, tuple[Layer, float]] = {
    "max": (lambda n, x, b: n.add("Max", x, b), 5e-4),
    "min of three": (lambda n, x, b: n.add("Min", x, b, np.float32(1.234)), 5e-4),
    "max of constants": (lambda n, x, b: n.add("Max", x, ROWS[0]), 4e-4),
    "relu": (lambda n, x, b: n.add("Relu", n.add("Max", b, ROWS)), 5e-4),
    "clip": (lambda n, x, b: n.add("Clip", n.add("Min", x, b), np.float32(-2.00007)), 5e-4),
    "where": (lambda n, x, b: n.add("Where", CONDITION, x, b), 4e-4),
    "where constant": (lambda n, x, b: n.add("Where", CONDITION, np.float32(-0.3), x), 0),
    "pad": (lambda n, x, b: padded(n, x, "constant"), 5e-4),
    "pad with no code": (lambda n, x, b: padded(n, x, "constant", np.float32(1.23456)), 0),
    "edge": (lambda n, x, b: padded(n, x, "edge"), 0),
    "reflect": (lambda n, x, b: padded(n, b, "reflect"), 5e-4),
    "wrap": (lambda n, x, b: padded(n, b, "wrap"), 5e-4),
    "nearest": (lambda n, x, b: resized(n, x), 2e-4),
    "largest": (lambda n, x, b: n.add("ReduceMax", x, i64(1)), 5e-4),
    "smallest": (lambda n, x, b: n.add("ReduceMin", x, i64(1)), 0),
    "deep": (lambda n, x, b: n.add("SpaceToDepth", x, blocksize=2), 5e-4),
    "wide": (lambda n, x, b: n.add("DepthToSpace", picked(n, x, b), blocksize=2), 5e-4),
    "sum of both": (lambda n, x, b: n.add("Add", padded(n, x, "edge"), padded(n, b, "wrap")), 6e-4),
}  # fmt: skip


def padded(net: Net, x: str, mode: str, *value: np.float32) -> str:
    return net.add("Pad", x, i64(0, 0, 1, 2, 0, 0, 2, 1), *value, mode=mode)


def picked(net: Net, x: str, b: str) -> str:
    return net.add("Where", ~CONDITION, x, b)


def resized(net: Net, x: str) -> str:
    return net.add("Resize", x, "", np.array([1, 1, 2, 1.5], np.float32), mode="nearest")


def network(dtype: type) -> onnx.ModelProto:
    """Every layer on the same two inputs, each with an output of its own."""
    net = Net(x=(dtype, SHAPE), b=(dtype, SHAPE))
    zeros = dtype(MIDDLE[dtype] + 3), dtype(MIDDLE[dtype] - 70)
    made = {}
    for k, (layer, scale) in enumerate(LAYERS.values()):
        x, b = net.dq("x", SX, zeros[0]), net.dq("b", SB, zeros[1])
        result = scale or SX, zeros[0] if not scale else dtype(MIDDLE[dtype] + 9)
        net.q(layer(net, x, b), *result, out=f"y{k}")
        made[f"y{k}"] = dtype
    return net.model(**made)


@pytest.mark.parametrize("dtype", [S16, U16])
def test_every_code_is_that_of_onnxruntime(dtype: type, tmp_path: Path) -> None:
    model = network(dtype)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    kernels = {n["kernel"] for n in bundle.manifest["nodes"]}
    assert not [k for k in kernels if "f32" in k or "quantize" in k], kernels
    ends = np.iinfo(dtype)
    rng = np.random.default_rng(4)
    x, b = (rng.integers(ends.min, ends.max + 1, SHAPE).astype(dtype) for _ in range(2))
    want = in_onnxruntime(model, {"x": x, "b": b})
    got = bundle.load()(x, b)
    for name, theirs, ours in zip(LAYERS, want, got, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
        assert np.unique(theirs).size > 10, name


@pytest.mark.parametrize("dtype", [S8, U8])
def test_bytes_padded_with_what_is_no_code(dtype: type, tmp_path: Path) -> None:
    net = Net(x=(dtype, SHAPE))
    zero = dtype(3)
    net.q(padded(net, net.dq("x", 0.03, zero), "constant", np.float32(0.1234)), 0.03, zero, out="y")
    model = net.model(y=dtype)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    assert {n["kernel"] for n in bundle.manifest["nodes"]} == {"aot_pad"}
    x = np.arange(144).reshape(SHAPE).astype(np.uint8).view(dtype)
    np.testing.assert_array_equal(bundle.load()(x), in_onnxruntime(model, {"x": x})[0])


def test_normalisation_settles() -> None:
    """What the pass adds it does not add again, and the sum's operands are quantised values."""
    once = normal(network(S16))
    count = len(list(once.graph))
    normalise(once, LoadOptions())
    assert len(list(once.graph)) == count
