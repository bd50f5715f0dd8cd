# SPDX-License-Identifier: Apache-2.0
"""ConvTranspose of quantised values in groups: onnxruntime's sums (onnx.reference adds its bias
wrong)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from quant_graphs import S8, S16, U8, Net, in_onnxruntime, quantised_values


@pytest.mark.parametrize(("groups", "wide"), [(3, 2), (6, 1)])
@pytest.mark.parametrize("dtype", [S8, S16])
def test_groups(
    groups: int, wide: int, dtype: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # onnxruntime's own rounding may differ by one: the numbers must not depend on other tests.
    monkeypatch.setattr("quant_graphs.RNG", np.random.default_rng(11))
    step = 0.03 if dtype is S8 else 3e-4
    net = Net(x=(dtype, (1, 6, 7, 5)))
    scales, zeros = np.linspace(0.005, 0.01, wide, dtype=np.float32), np.zeros(wide, S8)
    weights = net.dq(quantised_values(6, wide, 3, 3), scales, zeros if wide > 1 else S8(0), axis=1)
    bias = np.linspace(-1, 2, groups * wide, dtype=np.float32)
    made = net.add(
        "ConvTranspose", net.dq("x", step, dtype(3)), weights, bias, strides=[2, 1], group=groups
    )
    net.q(made, 4 * step, dtype(-5), out="y")
    model = net.model(y=dtype)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    kernels = {n["kernel"] for n in bundle.manifest["nodes"]}
    assert "aot_qconv_ref" in kernels and not [k for k in kernels if "f32" in k]
    x = quantised_values(1, 6, 7, 5, dtype=dtype)
    want = in_onnxruntime(model, {"x": x})[0].astype(int)
    got = np.asarray(bundle.load()(x)).astype(int)
    assert np.abs(got - want).max() <= 1 and np.mean(got != want) <= 0.003
    assert np.unique(want).size > 60


@pytest.mark.parametrize("dtype", [S8, U8])
def test_a_float_operator_between_8_bit_convolutions_costs_no_reorder(
    dtype: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quant_graphs.RNG", np.random.default_rng(12))
    net, ends = Net(x=(dtype, (1, 16, 6, 5))), dtype(3)

    def conv(x: str, out: str = "") -> str:
        weights = net.dq(quantised_values(16, 16, 3, 3), 0.01, S8(0))
        return net.q(net.add("Conv", net.dq(x, 0.03, ends), weights), 0.1, ends, out=out)

    rng = np.random.default_rng(13)
    weights = rng.normal(0, 0.1, (16, 32, 2, 2)).astype(np.float32)
    large = net.add("ConvTranspose", net.dq(conv("x"), 0.1, ends), weights, strides=[2, 2])
    half = net.add("Conv", large, rng.normal(0, 0.1, (16, 32, 1, 1)).astype(np.float32))
    conv(net.q(half, 0.03, ends), out="y")
    model = net.model(y=dtype)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    kernels = [n["kernel"] for n in bundle.manifest["nodes"]]
    assert {"aot_dequantize_s8_blocked", "aot_quantize_s8_blocked"} <= set(kernels)
    assert kernels.count("aot_to_blocked") == kernels.count("aot_from_blocked") == 1  # x and y
    x = quantised_values(1, 16, 6, 5, dtype=dtype)
    want = in_onnxruntime(model, {"x": x})[0].astype(int)
    got = np.asarray(bundle.load()(x)).astype(int)
    assert np.abs(got - want).max() <= 1 and np.mean(got != want) <= 0.01
    assert np.unique(want).size > 60
