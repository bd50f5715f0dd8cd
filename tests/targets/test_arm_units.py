# SPDX-License-Identifier: Apache-2.0
"""What 64-bit Arm has for numbers of 16 bits: instructions beside plain C, under QEMU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from needs import need

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "runtime_c" / "tests"
FLAGS = ("-std=c99", "-O1", "-static", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow",
         "-Wdouble-promotion", "-Werror", "-ffp-contract=off", "-DAOT_VLEN=4")  # fmt: skip


@pytest.mark.parametrize("test, march", [("cast", "armv8-a")])
def test_kernels_in_c(test: str, march: str, tmp_path: Path) -> None:
    """A program of runtime_c/tests passes on an emulated CPU that has every unit."""
    gcc = need("aarch64-linux-gnu-gcc", "apt-get install gcc-aarch64-linux-gnu")
    emulator = (need("qemu-aarch64", "apt-get install qemu-user"), "-cpu", "max")
    folders = (f"-I{ROOT}/runtime_c/include", f"-I{ROOT}/runtime_c/kernels")
    built = (*FLAGS, f"-march={march}", *folders, TESTS / f"test_{test}.c", "-lm")
    for words in ((gcc, *built, "-o", tmp_path / "test"), (*emulator, tmp_path / "test")):
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
