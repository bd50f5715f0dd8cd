# SPDX-License-Identifier: Apache-2.0
"""RISC-V with vectors of any length, compiled by clang."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from images import DIGITS, need_tools

import aot
from aot.cli import main
from aot.errors import BuildError
from aot.npz import read_npz
from needs import need

QEMU = ("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu", "-cpu")
APT = "apt-get install --no-install-recommends"


def test_integers_of_the_host_at_every_length(tmp_path: Path) -> None:
    """Same bytes; the sums are made by the instruction that multiplies, widens and adds."""
    need_tools("rv64gcv")
    x = np.random.default_rng(1).integers(-128, 128, (1, 1, 8, 8), np.int8)
    np.savez(tmp_path / "in.npz", image=x)
    x.tofile(tmp_path / "x.bin")
    for target in ("host", "rv64gcv"):
        model = DIGITS.with_name("digits_int8.onnx")
        aot.compile(model, tmp_path / target, target=target, name="digits").build()
    to = tmp_path / "out.npz"
    words = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(to)]
    assert main(["run", str(tmp_path / "host"), *words]) == 0
    want = read_npz(to)["probabilities"].tobytes()
    out = tmp_path / "rv64gcv"
    for bits in (128, 256, 1024):
        files = ("--input", f"0={tmp_path}/x.bin", "--output", f"0={tmp_path}/y.bin")
        cpu = f"rv64,v=true,vext_spec=v1.0,vlen={bits}"
        subprocess.run([*QEMU, cpu, out / "bin" / "digits", *files], check=True)
        assert (tmp_path / "y.bin").read_bytes() == want
    objdump = need("riscv64-linux-gnu-objdump")
    listed = [objdump, "-d", out / "lib" / "libdigits.a"]
    text = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
    assert text.count("vwmacc.vx") > 8


def test_a_missing_clang_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setenv("CC", "gcc")  # this machine's own
    monkeypatch.setattr(
        shutil, "which", lambda name, **more: None if "clang" in name else which(name, **more)
    )
    with pytest.raises(BuildError, match="the C compiler clang-16 was not found") as caught:
        aot.compile(DIGITS, tmp_path, target="rv64gcv")
    packages = "clang-16 gcc-riscv64-linux-gnu libc6-dev-riscv64-cross make"
    assert caught.value.hint == f"{APT} {packages}"


def test_a_missing_linker_is_named(tmp_path: Path) -> None:
    aot.compile(DIGITS, tmp_path, target="rv64gcv", configure=False)
    nowhere = [
        f"-DCMAKE_FIND_USE_{path}_PATH=OFF" for path in ("SYSTEM_ENVIRONMENT", "CMAKE_SYSTEM")
    ]
    command = ["cmake", "-S", tmp_path / "bundle", "-B", tmp_path / "build", *nowhere]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert f"{APT} gcc-riscv64-linux-gnu libc6-dev-riscv64-cross" in said
