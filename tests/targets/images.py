# SPDX-License-Identifier: Apache-2.0
"""The digits model built for a target, once per session; what each target needs here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from aot.api import compile as compile_model
from aot.target import load_target
from needs import need

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"

#: What `make test` runs, and what only AOT_FULL=1 does.
FAST = ("aarch64-linux", "cortex-m0", "cortex-m4", "cortex-m55", "rv32imac")
REST = ("armv7-linux", "riscv64-linux", "cortex-m3", "cortex-m7", "cortex-m33", "rv32imafc",
        "rv64gc", "cortex-a76", "aarch64-dotprod", "neoverse-n1", "cortex-m0plus",
        "cortex-m52", "cortex-m85", "rv32imc", "rv32imac_zba_zbb", "rv32imafcv")  # fmt: skip
ALL = FAST + REST

#: A user's firmware in CMake: `firmware.c` with the board's files and the bundle named by MODEL.
PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(firmware C)
add_subdirectory("${MODEL}" model)
add_executable(firmware firmware.c)
target_link_libraries(firmware PRIVATE aot::net aot::net-board)
"""

_built: dict[str, Path] = {}


def need_tools(name: str) -> None:
    """Compiler and emulator; the reason of a skip is the apt line."""
    target = load_target(name)
    for program, packages in (
        (target.compiler, target.packages),
        (target.emulator[0], target.emulator_packages),
    ):
        need(program, f"apt-get install --no-install-recommends {' '.join(packages)}")


def digits(name: str, folder: Path) -> Path:
    """OUT of the digits model for a target, built; made in `folder` the first time."""
    if name not in _built:
        need_tools(name)
        out = folder / name
        compile_model(DIGITS, out, target=name).build()
        _built[name] = out
    return _built[name]


def emulate(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the image by hand, as docs/targets.md says."""
    target = json.loads((out / "bundle" / "manifest.json").read_text())["target"]
    words = "".join(f",arg={a}" for a in ("digits", *arguments)) if arguments else ""
    command = [
        *(*target["emulator"], "-icount", "shift=0", "-nographic", "-monitor", "none"),
        *("-serial", "none", "-semihosting-config", f"enable=on,target=native{words}"),
        *("-kernel", str(out / "bin" / "digits.elf")),
    ]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )
