# SPDX-License-Identifier: Apache-2.0
"""A library for hosts on a board: CMake advised to install it, aotc had said nothing."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from aot.cli import main
from aot.errors import BackendError
from aot.vendor.backend import Backend
from graphs import model

PRODUCT = model([("MatMul", "x w", "y")], {"x": [2, 3], "w": [3, 4]}, {"y": [2, 4]})


@pytest.mark.parametrize("backend", ["dnnl", "cblas"])
@pytest.mark.parametrize("requested", ["--backend={}", "--keep=n0_MatMul={}"])
@pytest.mark.parametrize("target", ["cortex-m4", "rv32imac"])
def test_a_board_is_refused(
    backend: str, requested: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(PRODUCT, tmp_path / "m.onnx")
    out = tmp_path / "out"
    words = [str(tmp_path / "m.onnx"), "-o", str(out), requested.format(backend), "--no-configure"]
    assert main([*words, "--target", target]) == 1
    said = capsys.readouterr().err
    assert f"backend {backend} is for hosts, target {target} is a board" in said
    assert f"hint: leave {backend} out" in said
    assert not out.exists()
    assert main([*words, "-q", "--target", "aarch64-linux"]) == 0


def test_both_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(PRODUCT, tmp_path / "m.onnx")
    words = ["explain", str(tmp_path / "m.onnx"), "--backend", "dnnl,cblas"]
    assert main([*words, "--target", "cortex-m0"]) == 1
    said = capsys.readouterr().err
    assert "backend dnnl is for hosts" in said and "backend cblas is for hosts" in said


def test_a_system_exists() -> None:
    with pytest.raises(BackendError, match="systems='linux': not some of"):
        Backend("acme", systems="linux")  # type: ignore[arg-type]
