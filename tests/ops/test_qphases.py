# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions of quantised values as plain ones: the bits of the general kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from quant_graphs import S8, U8, Net, quantised_values

SQUARE = {"strides": [2, 2]}
FORMS = (
    ((2, 2), SQUARE, 1),
    ((3, 3), {**SQUARE, "pads": [1, 1, 1, 1], "output_padding": [1, 1]}, 1),
    ((3, 3), {**SQUARE, "pads": [1, 1, 1, 1]}, 4),  # cropped: a copy per phase
    ((3, 4), {"strides": [3, 2], "pads": [0, 2, 1, 0], "dilations": [2, 1]}, 6),
)


@pytest.mark.sample(4)
@pytest.mark.parametrize(("kernel", "attributes", "copies"), FORMS)
@pytest.mark.parametrize("dtype", [S8, U8])
def test_the_general_kernel_agrees(
    kernel: tuple[int, int],
    attributes: dict[str, list[int]],
    copies: int,
    dtype: type,
    tmp_path: Path,
) -> None:
    net = Net(x=(dtype, (2, 6, 5, 7)))
    scales = np.linspace(0.005, 0.01, 20, dtype=np.float32)
    weights = net.dq(quantised_values(6, 20, *kernel), scales, np.zeros(20, S8), axis=1)
    bias = np.linspace(-1, 2, 20, dtype=np.float32)
    made = net.add("ConvTranspose", net.dq("x", 0.03, dtype(3)), weights, bias, **attributes)
    net.q(made, 0.12, dtype(9), out="y")
    onnx.save(net.model(y=dtype), tmp_path / "m.onnx")
    x, found = quantised_values(2, 6, 5, 7, dtype=dtype), []
    for objective in ("latency", "ram"):
        bundle = aot.compile(tmp_path / "m.onnx", tmp_path / objective, objective=objective)
        found.append(np.asarray(bundle.load()(x)))
        kernels = [n["kernel"] for n in bundle.manifest["nodes"]]
        assert ("aot_qconv_ref" in kernels) == (objective == "ram")
        assert kernels.count("aot_strided_copy") == (copies if objective == "latency" else 0)
    assert np.array_equal(*found)
    assert np.unique(found[0]).size > 60
