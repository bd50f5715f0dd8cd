# SPDX-License-Identifier: Apache-2.0
"""Cores without FPU: the library of an integer network calls no floating-point routine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import aot
from targets.images import ROOT, need_tools

DIGITS = ROOT / "examples" / "digits"
NM = {"cortex-m0": "arm-none-eabi-nm", "rv32imac": "riscv64-unknown-elf-nm"}
#: libgcc's, in the names of the Arm ABI and of all others (__addsf3, __fixdfsi), and libm's.
ROUTINE = re.compile(r"__aeabi_c?[fd]|__aeabi_u?[il]2[fd]|__\w*[sd]f|^\w+f$")


def called(model: Path, target: str, requant: str, folder: Path) -> set[str]:
    """What the library of a model takes from elsewhere."""
    bundle = aot.compile(model, folder, target=target, requant=requant, name="net").build()
    command = [NM[target], "--undefined-only", str(bundle.out / "lib/libnet.a")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in text.splitlines() if line.startswith(" ")}
    assert any(n.startswith("net_") for n in names)
    return {n for n in names if not n.startswith("net_")}


@pytest.mark.parametrize("requant", ["onnx", "tflite"])
@pytest.mark.parametrize("target", sorted(NM))
def test_integer_networks_stay_integer(target: str, requant: str, tmp_path: Path) -> None:
    need_tools(target)
    names = called(DIGITS / "digits_int8.onnx", target, requant, tmp_path)
    assert not [n for n in names if ROUTINE.search(n)], names


def test_float_networks_do_not(tmp_path: Path) -> None:
    """The names looked for are those the compiler uses."""
    need_tools("rv32imac")
    for target in NM:
        names = called(DIGITS / "digits.onnx", target, "onnx", tmp_path / target)
        assert [n for n in names if ROUTINE.search(n)], names
