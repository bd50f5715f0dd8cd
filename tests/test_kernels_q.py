# SPDX-License-Identifier: Apache-2.0
"""Portable int8 kernels: right on odd shapes for every tile size, with no stray access."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SANITIZE = "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all".split()


@pytest.mark.parametrize("arch", ["arm/cortex-m0", "arm/cortex-m3", "riscv32", "x86_64"])
def test_kernels_match_numpy(arch: str, tmp_path: Path) -> None:
    find = ["gcc", "-print-file-name=libasan.so"]
    asan = subprocess.run(find, capture_output=True, text=True, check=True).stdout.strip()
    env = {
        **os.environ,
        "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)]),
        "PYTHONMALLOC": "malloc",
    }
    script = str(HERE / "kernel_cases_q.py")
    done = subprocess.run(
        [sys.executable, script, "qconv_portable", arch, str(tmp_path), *SANITIZE],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "cases right" in done.stdout
