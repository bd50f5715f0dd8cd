# SPDX-License-Identifier: Apache-2.0
"""Firmware with two models in one arena, as examples/two_models/README.md says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from aot.cli import main
from aot.target import load_target
from targets.images import need_tools

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/two_models"


def test_firmware_with_two_models(tmp_path: Path) -> None:
    need_tools("cortex-m4")
    subprocess.run([sys.executable, EXAMPLE / "motion.py"], cwd=tmp_path, check=True)
    outs = {n: str(tmp_path / n) for n in ("motion", "digits", "both")}
    board = ["--target", "cortex-m4", "--no-configure", "-q"]
    words = [str(tmp_path / "motion.onnx"), "-o", outs["motion"], "--state", "before=kept"]
    assert main([*words, *board]) == 0
    words = [str(ROOT / "examples/digits/digits_int8.onnx"), "-o", outs["digits"]]
    assert main([*words, "--name", "digits", *board]) == 0
    words = ["link", outs["motion"], outs["digits"], "-o", outs["both"], "--name", "both"]
    assert main([*words, "--no-configure", "-q"]) == 0
    models = Path(outs["both"]) / "bundle"
    tools = models / "cmake/toolchain.cmake"
    build = tmp_path / "firmware"
    given = [f"-DMODELS={models}", f"-DCMAKE_TOOLCHAIN_FILE={tools}"]
    for step in (["-S", EXAMPLE, "-B", build, *given], ["--build", build]):
        subprocess.run(["cmake", *step], check=True, capture_output=True)
    program = [
        *(*load_target("cortex-m4").emulator, "-nographic", "-monitor", "none", "-serial", "none"),
        *("-semihosting-config", "enable=on,target=native", "-kernel", build / "firmware"),
    ]
    found = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    said = (found.stdout + found.stderr).split("\n")[:4]
    assert said == ["digit 3", "the same", "digit 7", "the same"]
