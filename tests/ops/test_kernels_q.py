# SPDX-License-Identifier: Apache-2.0
"""Portable int8 kernels: right on odd shapes for every tile size, with no stray access."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_kernels_conv import runs_here

from aot.target import load_target
from sanitizers import SANITIZED

HERE = Path(__file__).resolve().parents[1]


#: Architecture (packing and tiles differ), core, vector width.
#: Where the target has dot products, also the flags that give them ("" = their plain C).
TARGETS = [
    ("arm", "cortex-m0", 1, ""),
    ("arm", "cortex-m3", 1, ""),
    ("riscv32", "rv32imac", 1, ""),
    ("x86_64", "x86-64", 4, ""),
    ("x86_64", "x86-64-v3", 8, ""),
    ("x86_64", "x86-64-v4", 16, ""),
    ("aarch64", "aarch64-linux", 4, ""),
    ("aarch64", "cortex-a76", 4, ""),
    ("x86_64", "x86-64-v3-vnni", 8, "-mavxvnni"),
    ("x86_64", "x86-64-v4-vnni", 16, ""),
    ("x86_64", "x86-64-v4-vnni", 16, "-mavx512vnni"),
    ("x86_64", "x86-64-v4-vnni", 8, "-mavx512vnni -mavx512vl"),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("arch", "cpu", "vlen", "unit"), TARGETS)
def test_kernels_match_numpy(arch: str, cpu: str, vlen: int, unit: str, tmp_path: Path) -> None:
    if not runs_here(vlen):
        pytest.skip(f"this CPU has no vectors of {vlen} floats")
    if unit and not load_target(cpu).runs_here():
        pytest.skip(f"this CPU has no unit of {cpu}: {', '.join(load_target(cpu).missing_flags())}")
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
    command = [sys.executable, script, "conv_portable", arch, cpu, str(vlen)]
    done = subprocess.run(
        [*command, str(tmp_path), *SANITIZED.split(), *unit.split()],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "cases right" in done.stdout
