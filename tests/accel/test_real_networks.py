# SPDX-License-Identifier: Apache-2.0
"""Real models on AX1: quantised values as of portable C, in one region; float32 ones verify."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from test_offload import outputs

import aot
from aot.cli import main

FULL = pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="AOT_FULL is not set")


@pytest.mark.parametrize(
    ("name", "machine", "requant"),
    [
        ("mlperf_ic_int8", "256", "onnx"),
        ("mlperf_kws_int8", "64", "tflite"),
        pytest.param("mlperf_vww_int8", "256", "onnx", marks=FULL),
        pytest.param("mlperf_ad_int8", "512", "onnx", marks=FULL),
        pytest.param("mlperf_sww_int8", "256", "tflite", marks=FULL),
        pytest.param("mobilenetv2_int8", "256", "onnx", marks=FULL),
    ],
)
def test_quantised(
    models_folder: Path, name: str, machine: str, requant: str, tmp_path: Path
) -> None:
    import onnx

    proto = onnx.load(str(models_folder / f"{name}.onnx"))
    one = {"requant": requant}
    own = {**one, "backends": (f"accel_sim:{machine}",), "require_backend": True}
    made, manifest = outputs(proto, tmp_path / "accel", **own)
    want, _ = outputs(proto, tmp_path / "c", **one)
    assert len(manifest["nodes"]) == len(manifest["regions"]) == 1
    for a, b in zip(made, want, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "name",
    [
        "mlperf_ad_f32",
        *(
            pytest.param(n, marks=FULL)
            for n in ("mlperf_ic_f32", "mlperf_vww_f32", "oww_embedding", "ultraface_rfb320")
        ),
    ],
)
def test_floats(models_folder: Path, name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    one = {"dims": {"unk__314": 1}} if name == "oww_embedding" else {}
    path = models_folder / f"{name}.onnx"
    bundle = aot.compile(path, out, backends=("accel_sim",), **one).build()
    assert main(["verify", str(out)]) == 0
    given = [n for n in bundle.manifest["nodes"] if n["backend"] == "accel_sim"]
    assert sum(n["macs"] for n in given) > 0.9 * sum(n["macs"] for n in bundle.manifest["nodes"])
