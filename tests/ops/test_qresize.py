# SPDX-License-Identifier: Apache-2.0
"""Resizing of quantised values on integers against onnx.reference in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from aot.vendor.resize import TRANSFORMS
from quant_graphs import S8, Net, in_onnxruntime

RNG = np.random.default_rng(7)
KERNELS = {"aot_qresize_s8", "aot_from_blocked", "aot_to_blocked"}


def resized(model: onnx.ModelProto, x: np.ndarray, tmp_path: Path) -> np.ndarray:
    """What the compiled model makes of x; only the resizing runs, on quantised values."""
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    assert {n["kernel"].split("__")[0] for n in bundle.manifest["nodes"]} <= KERNELS
    return np.asarray(bundle.load()(x))


@pytest.mark.parametrize(("mode", "same"), [("linear", 1), ("linear", 0), ("cubic", 0)])
def test_quantised_values_are_those_of_float32(mode: str, same: int, tmp_path: Path) -> None:
    """One rounding of exact sums; where the real result is a half, those of onnxruntime."""
    shape = (1, 6, 20, 24)
    net = Net(x=(S8, shape))
    sizes = np.array([1, 6, 40, 48] if same else [1, 6, 33, 31], np.int64)
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": "half_pixel"}
    y = net.add("Resize", net.dq("x", 0.037, S8(5)), "", "", sizes, **attrs)
    net.q(y, 0.037 if same else 0.0313, S8(5), out="y")
    model = net.model(y=S8)
    x = RNG.integers(-128, 128, shape).astype(np.int8)
    got = resized(model, x, tmp_path).astype(int)
    want = in_onnxruntime(model, {"x": x})[0].astype(int)
    assert np.abs(got - want).max() <= 1
    assert np.mean(got != want) <= 0.001


#: Type, shape, sizes and attributes of resizings that one model holds.
WIDE: list[tuple[type, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (np.int16, (1, 4, 30, 34), (43, 51), {"mode": "linear"}),
    (np.uint16, (1, 4, 30, 34), (60, 17), {"mode": "cubic", "exclude_outside": 1}),
    (np.int16, (1, 2, 9, 10, 11), (12, 7, 25), {"mode": "linear"}),
    (np.uint16, (1, 4, 30, 34), (13, 40), {"mode": "linear", "antialias": 1}),
    (np.int16, (1, 4, 30, 34), (30, 12), {"mode": "cubic", "antialias": 1}),
    *(
        (np.int16, (1, 3, 21, 22), (34, 17), {"mode": m, "coordinate_transformation_mode": t})
        for m, transforms in (("linear", TRANSFORMS), ("cubic", TRANSFORMS[1::4]))
        for t in transforms
    ),
]


def test_16_bit_quantised_values_are_those_of_float32(tmp_path: Path) -> None:
    """Random quantised values of the whole range and of its ends, factors that no float32 holds."""
    net, feeds, rng = Net(), {}, np.random.default_rng(16)
    for k, (dtype, shape, size, attrs) in enumerate(WIDE):
        info, zero = np.iinfo(dtype), dtype(5 if dtype is np.int16 else 30000)
        x = rng.integers(info.min, info.max, shape, endpoint=True)
        x[:, 0], x[:, 1, :4] = np.where(x[:, 0] % 2, info.max, info.min), info.max
        feeds[f"x{k}"] = x.astype(dtype)
        net.inputs[f"x{k}"] = (np.dtype(dtype), shape)
        roi = np.array([0, 0, 0.1, -0.2, 1, 1, 0.8, 1.1], np.float32) if len(shape) == 4 else ""
        sizes = np.array([*shape[:2], *size], np.int64)
        value = net.dq(f"x{k}", 3e-4, zero)
        y = net.add("Resize", value, roi, "", sizes, extrapolation_value=1.5, **attrs)
        net.q(y, 2.9e-4, zero, out=f"y{k}")
    model = net.model(**{f"y{k}": np.dtype(v[0]) for k, v in enumerate(WIDE)})
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    assert {n["kernel"] for n in bundle.manifest["nodes"]} == {"aot_qresize16"}
    results = zip(bundle.load()(*feeds.values()), in_onnxruntime(model, feeds), WIDE, strict=True)
    for got, want, what in results:
        off = np.abs(np.asarray(got).astype(int) - want)
        assert off.max() <= 1, what
        assert np.mean(off > 0) <= 0.001, what


def test_weights_beyond_the_tables_stay_float(tmp_path: Path) -> None:
    """A cubic coefficient with which a weight is 4 or more."""
    for dtype in (np.int8, np.int16):
        net = Net(x=(dtype, (1, 2, 6, 7)))
        size = np.array([1, 2, 9, 11], np.int64)
        attrs: dict[str, Any] = {"mode": "cubic", "cubic_coeff_a": -32.0}
        value = net.add("Resize", net.dq("x", 0.01, dtype(0)), "", "", size, **attrs)
        net.q(value, 0.3, dtype(0), out="y")
        model = net.model(y=dtype)
        onnx.save(model, tmp_path / "m.onnx")
        bundle = aot.compile(tmp_path / "m.onnx", tmp_path / np.dtype(dtype).name)
        assert not [n for n in bundle.manifest["nodes"] if n["kernel"].startswith("aot_qresize")]
