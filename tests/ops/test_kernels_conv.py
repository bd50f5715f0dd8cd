# SPDX-License-Identifier: Apache-2.0
"""Convolution and matrix kernels: right on odd shapes at every width, with no stray access."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sanitizers import SANITIZED

HERE = Path(__file__).resolve().parents[1]


def runs_here(vlen: int) -> bool:
    flag = {16: "avx512f", 8: "avx2"}.get(vlen)
    cpuinfo = Path("/proc/cpuinfo")
    return flag is None or (cpuinfo.exists() and flag in cpuinfo.read_text())


@pytest.mark.sample(2)
@pytest.mark.parametrize("vlen", [1, 4, 8, 16])
def test_kernels_match_numpy(vlen: int, tmp_path: Path) -> None:
    if not runs_here(vlen):
        pytest.skip(f"this CPU has no vectors of {vlen} floats")
    find = ["gcc", "-print-file-name=libasan.so"]
    asan = subprocess.run(find, capture_output=True, text=True, check=True).stdout.strip()
    env = {
        **os.environ,
        "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)]),
        "PYTHONMALLOC": "malloc",
    }
    script = str(HERE / "kernel_cases_conv.py")
    done = subprocess.run(
        [sys.executable, script, str(vlen), str(tmp_path), *SANITIZED.split()],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "cases right" in done.stdout
