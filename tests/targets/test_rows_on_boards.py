# SPDX-License-Identifier: Apache-2.0
"""Networks that whole tensors would not fit, row by row on emulated boards."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aot
from aot.cli import main
from aot.npz import read_npz
from aot.plan import plan_program
from aot.target import load_target
from streamed_graphs import Made
from targets.images import ROOT, need_tools

CASES = (
    ("cortex-m0", "mlperf_kws_int8", {"objective": "ram"}, 16 * 1024),
    ("cortex-m0", "mlperf_kws_int8", {"ram": 6 * 1024, "push": "input"}, 6 * 1024),
    ("cortex-m4", "mlperf_ic_int8", {"ram": 32 * 1024}, 32 * 1024),
    ("cortex-m4", "mlperf_ic_int8", {"ram": 12 * 1024, "push": "input"}, 12 * 1024),
)


@pytest.mark.parametrize(("core", "name", "options", "memory"), CASES)
def test_fits_and_gives_the_quantised_values_of_the_host(
    core: str, name: str, options: dict[str, Any], memory: int, models_folder: Path, tmp_path: Path
) -> None:
    need_tools(core)
    model, samples = models_folder / f"{name}.onnx", tmp_path / "in.npz"
    host = aot.compile(model, tmp_path / "host", target="host")
    found = host.manifest["inputs"][0]
    data = np.random.default_rng(4).integers(-128, 128, found["shape"]).astype(np.int8)
    np.savez(samples, **{found["name"]: data})
    board = aot.compile(model, tmp_path / "board", target=core, **options)
    assert board.manifest["memory"]["by_rows"]
    taken = board.manifest["memory"]
    assert taken["arena_bytes"] + taken["static_bytes"] + taken["stack_bytes"] <= memory
    results = []
    for bundle in (host, board):
        bundle.build()
        words = ["--inputs", str(samples), "--outputs", str(tmp_path / "out.npz")]
        assert main(["run", str(bundle.out), *words]) == 0
        results.append(read_npz(tmp_path / "out.npz"))
    for key, quantised in results[0].items():
        np.testing.assert_array_equal(quantised, results[1][key], err_msg=key)
        assert len(np.unique(quantised)) > 1


def test_steps_of_two_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions of each kind and odd heights, two rows at a time, as whole tensors give."""
    need_tools("cortex-m4")
    monkeypatch.setattr(plan_program, "MORE", 9.0)
    made = Made(11)
    value = made.values[0]
    for size, stride, depthwise in (
        (3, 1, 0),
        (3, 1, 1),
        (1, 1, 0),
        (3, 2, 1),
        (5, 1, 1),
        (3, 1, 0),
    ):
        name, (channels, height, width) = value
        wide = channels if depthwise else 12
        attrs = {"group": channels if depthwise else 1, "strides": [stride] * 2}
        kernel = made.weights(wide, 1 if depthwise else channels, size, size)
        values = made.quantised_values(name)
        real = made.net.add("Conv", values, kernel, **attrs, pads=[size // 2] * 4)
        value = made.made(real, (wide, -(-height // stride), -(-width // stride)))
    model = made.net.model(**{value[0]: np.int8})
    found = []
    for objective in ("latency", "ram"):
        bundle = aot.compile(
            model, tmp_path / objective, target="cortex-m4", objective=objective, name="net"
        )
        given = bundle.build().manifest["inputs"][0]
        x = np.random.default_rng(4).integers(-128, 128, given["shape"]).astype(np.int8)
        np.savez(tmp_path / "in.npz", **{given["name"]: x})
        files = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
        assert main(["run", str(bundle.out), *files]) == 0
        found += list(read_npz(tmp_path / "out.npz").values())
    text = (tmp_path / "ram/bundle/src/net_rows.c").read_text()
    assert text.count("r = step * 2") and text.count("step > 0 ? step * 2 - 1 : 0")
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) > 9


def test_firmware_takes_the_lines_of_a_camera(tmp_path: Path) -> None:
    """The example, as its README.md says."""
    need_tools("cortex-m4")
    digits, camera = ROOT / "examples/digits", ROOT / "examples/camera/camera.c"
    bundle = aot.compile(
        digits / "digits_int8.onnx", tmp_path / "out", target="cortex-m4", push="image"
    )
    shutil.copy(camera, bundle.out / "bundle/board/runner.c")
    subprocess.run(["cmake", "--build", bundle.out], check=True, capture_output=True)
    words = [
        *(*load_target("cortex-m4").emulator, "-nographic", "-monitor", "none", "-serial", "none"),
        *("-semihosting-config", "enable=on,target=native", "-kernel"),
        bundle.out / "bin/digits_int8.elf",
    ]
    found = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert (found.stdout + found.stderr).split("\n")[:2] == ["digit 3", "digit 7"]
