# SPDX-License-Identifier: Apache-2.0
"""ConvTranspose of quantised values in groups: onnxruntime's sums (onnx.reference adds its bias
wrong)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from quant_graphs import S8, S16, Net, in_onnxruntime, quantised_values


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
