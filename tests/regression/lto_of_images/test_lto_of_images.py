# SPDX-License-Identifier: Apache-2.0
"""-flto took away what only assembly names: images for boards did not link.

"undefined reference to `aot_start'", with CMAKE_INTERPROCEDURAL_OPTIMIZATION as with CFLAGS.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import aot
from aot.target import load_target
from graphs import model
from targets.images import need_tools

#: As the README of the bundle runs an image.
EMULATED = ["-icount", "shift=0", "-nographic", "-monitor", "none", "-serial", "none",
            "-semihosting-config", "enable=on,target=native", "-kernel"]  # fmt: skip


@pytest.mark.parametrize("name", ["cortex-m4", "rv32imac"])
@pytest.mark.parametrize(
    "flag", ["-DCMAKE_C_FLAGS=-flto", "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON"]
)
def test_images_link_and_run(name: str, flag: str, tmp_path: Path) -> None:
    need_tools(name)
    proto = model([("Relu", "x", "y")], {"x": [4]}, {"y": [4]})
    bundle = aot.compile(proto, tmp_path, target=name, name="net", configure=False).out / "bundle"
    build = tmp_path / "build"
    for command in (["-S", str(bundle), "-B", str(build), flag], ["--build", str(build)]):
        done = subprocess.run(["cmake", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    command = [*load_target(name).emulator, *EMULATED, str(build / "bin/net.elf")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "net: ran twice" in done.stderr
