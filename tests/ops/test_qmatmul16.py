# SPDX-License-Identifier: Apache-2.0
"""Products of two computed operands of 16-bit quantised values: the rounded real numbers,
exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from quant_graphs import Net, in_onnxruntime

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(29)


def drawn(dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def in_integers(
    pair: tuple[Array, Array], scales: tuple[float, ...], zeros: tuple[int, ...], relu: bool
) -> Array:
    """Exact sums, one multiplication in float64, one rounding."""
    a, b = (v.astype(np.int64) - z for v, z in zip(pair, zeros, strict=False))
    s = [float(np.float32(v)) for v in scales]
    whole = np.rint(np.maximum(a @ b, 0 if relu else -(2**62)) * (s[0] * s[1] / s[2]))
    info = np.iinfo(pair[0].dtype)
    return np.clip(whole + zeros[2], info.min, info.max).astype(np.int64)


@pytest.mark.parametrize(
    ("dtype", "shapes", "scales", "zeros", "relu"),
    [
        (np.int16, ((2, 3, 8, 40), (3, 40, 9)), (3e-4, 2e-4, 4e-3), (0, 0, 0), False),
        (np.uint16, ((30, 64), (2, 64, 20)), (1e-4, 5e-3, 0.1), (30000, 4, 65535), True),
        (np.int16, ((1, 9), (9, 4)), (1.0, 0.5, 0.5000001), (-32768, 32767, 5), False),  # saturated
        (np.int16, ((40, 1), (1, 70)), (2.0**-10, 2.0**-7, 2.0**-2), (0, 0, -3), False),  # halves
    ],
)
def test_sums_in_64_bits(
    dtype: Any,
    shapes: tuple[tuple[int, ...], ...],
    scales: tuple[float, ...],
    zeros: tuple[int, ...],
    relu: bool,
    tmp_path: Path,
) -> None:
    pair = drawn(dtype, *shapes[0]), drawn(dtype, *shapes[1])
    net = Net(a=(dtype, shapes[0]), b=(dtype, shapes[1]))
    read = [net.dq(n, scales[k], dtype(zeros[k])) for k, n in enumerate("ab")]
    made = net.add("MatMul", *read)
    net.q(net.add("Relu", made) if relu else made, scales[2], dtype(zeros[2]), out="y")
    model = net.model(y=dtype)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    assert [n["kernel"] for n in bundle.manifest["nodes"]] == ["aot_qmatmul_ref"]
    got = np.asarray(bundle.load()(*pair)).astype(int)
    np.testing.assert_array_equal(got, in_integers(pair, scales, zeros, relu))
    far = np.abs(got - in_onnxruntime(model, {"a": pair[0], "b": pair[1]})[0].astype(int))
    assert far.max() <= 1  # its float32 sums are off


def test_a_step_larger_than_a_code_stays_float(tmp_path: Path) -> None:
    net = Net(a=(np.int16, (3, 4)), b=(np.int16, (4, 5)))
    read = [net.dq(n, 1.5, np.int16(0)) for n in "ab"]
    net.q(net.add("MatMul", *read), 1.0, np.int16(0), out="y")
    onnx.save(net.model(y=np.int16), tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    assert any("f32" in n["kernel"] for n in bundle.manifest["nodes"])
