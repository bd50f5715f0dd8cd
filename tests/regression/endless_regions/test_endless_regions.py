# SPDX-License-Identifier: Apache-2.0
"""RoiAlign with as many samples as pixels (sampling_ratio 0) took years for a region of 10^9.

Samples beyond the image are zeros: they are counted now, and not visited.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot

IMAGE = np.random.default_rng(5).standard_normal((1, 2, 5, 4)).astype(np.float32)
REGIONS = np.array(
    [
        [-(2.0**29), -(2.0**29), 2.0**29, 2.0**29],
        [0, 0, 1e9, 1e9],
        [0, 0, 300, 200],  # few enough to be visited one by one, and not
        [-150, -90, 250, 110],
        [1, 1, 3, 4],
        [-3e38, -3e38, 3e38, 3e38],  # wider than float32
        [0, 0, np.nan, 4],  # of the least width
        [5, 5, 1e30, 1e30],  # nothing but zeros
    ],
    np.float32,
)


def places(start: float, end: float, bins: int, size: int) -> list[tuple[int, Any]]:
    """For each bin: how many samples it has, and where those within the image are (float32)."""
    length = np.float32(np.float32(end) - np.float32(start)) / np.float32(bins)
    found = []
    for k in range(bins):
        first = np.float32(start) + np.float32(k) * length
        count = int(np.ceil(length)) if 0 < length < 2**30 else 0
        near = int(np.clip(np.rint(-first), 0, count))  # a window around the image is enough
        i = np.arange(max(0, near - 400), min(count, near + 400 + size)).astype(np.float32)
        at = first + (i + np.float32(0.5)) * length / np.float32(max(count, 1))
        found.append((count, at[(at >= -1) & (at <= size)]))
    return found


def weights(at: Any, size: int) -> Any:
    """What each sample takes of each pixel of an axis."""
    at = np.clip(at.astype(np.float64), 0, size - 1)
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(size)))


def aligned(region: Any, mode: str) -> Any:
    """RoiAlign of one region into 2 x 2 bins, without the shift by half a pixel."""
    x1, y1, x2, y2 = region
    out = np.zeros((2, 2, 2))
    for i, (down, rows) in enumerate(places(y1, max(y1 + 1, y2), 2, 5)):
        for j, (along, columns) in enumerate(places(x1, max(x1 + 1, x2), 2, 4)):
            samples = down * along
            v, w = weights(rows, 5), weights(columns, 4)
            if mode == "avg":
                out[:, i, j] = np.einsum("rh,chw,sw->c", v, IMAGE[0], w) / max(samples, 1)
                continue
            parts = np.einsum("rh,chw,sw->crshw", v, IMAGE[0], w).reshape(2, -1, 20)
            taken = (v[:, None, :, None] * w[None, :, None, :]).reshape(-1, 20) > 0
            for c in range(2):
                best = [
                    max(p[t].max(), *([0.0] if t.sum() < 4 else [-np.inf]))  # a weight of 0 counts
                    for p, t in zip(parts[c], taken, strict=True)
                ]
                out[c, i, j] = max([*best, *([0.0] if len(best) < samples or not best else [])])
    return out


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_a_region_beyond_the_image(mode: str, tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info("r", TensorProto.FLOAT, REGIONS.shape)]
    data = [
        numpy_helper.from_array(IMAGE, "x"),
        numpy_helper.from_array(np.zeros(len(REGIONS), np.int64), "b"),
    ]
    node = helper.make_node(
        "RoiAlign",
        ["x", "r", "b"],
        ["y"],
        mode=mode,
        output_height=2,
        output_width=2,
        sampling_ratio=0,
        coordinate_transformation_mode="output_half_pixel",
    )
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "g", ends, result, data)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    aot.compile(model, tmp_path / "o", name="n").build()
    np.savez(tmp_path / "in.npz", r=REGIONS)
    command = [sys.executable, "-m", "aot", "run", str(tmp_path / "o")]
    command += ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    subprocess.run(command, check=True, timeout=20, capture_output=True)
    y = np.load(tmp_path / "out.npz")["y"]
    for region, got in zip(REGIONS, y, strict=True):
        want = np.zeros((2, 2, 2)) if np.nanmax(region) > 1e29 else aligned(region, mode)
        assert np.allclose(got, want, rtol=1e-4, atol=1e-6 * np.abs(want).max()), region
