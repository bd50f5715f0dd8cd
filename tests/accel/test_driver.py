# SPDX-License-Identifier: Apache-2.0
"""The driver, on the simulator and on registers in memory; C that both compilers accept."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from accel_harness import FOLDER, SOURCES, WARNINGS

from accel_board import INCLUDES
from needs import need

MAIN = Path(__file__).parent / "driver_main.c"


def build(folder, compiler, sources, *flags):
    out = folder / "main"
    files = [str(FOLDER / s) for s in sources]
    command = [compiler, *WARNINGS.split(), *INCLUDES, *flags, "-o", str(out), str(MAIN)]
    subprocess.run([*command, *files], check=True)
    return out


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_simulator(tmp_path, compiler):
    need(compiler)
    flags = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    out = build(tmp_path, compiler, (*SOURCES, "ax1_driver.c"), *flags)
    assert subprocess.run([str(out)]).returncode == 0


def test_registers_in_memory(tmp_path):
    (tmp_path / "board.h").write_text("extern volatile uint32_t registers[64];\n")
    flags = ["-DAX1_MMIO_BASE=registers", '-DAX1_BOARD="board.h"', f"-I{tmp_path}", "-O1"]
    out = build(tmp_path, "gcc", ("ax1_driver.c",), *flags)
    assert subprocess.run([str(out)]).returncode == 0


def test_two_machines_in_one_program(tmp_path):
    """Symbols carry version and size, so objects of different machines link together."""
    symbols = []
    for macs in (64, 512):
        names = set()
        for source in (*SOURCES, "ax1_driver.c"):
            out = tmp_path / f"{macs}_{source}.o"
            flags = f"-O0 -DAX1_MACS={macs} -c {FOLDER / source} -o {out}"
            subprocess.run(["gcc", *WARNINGS.split(), *INCLUDES, *flags.split()], check=True)
            listing = subprocess.run(
                ["nm", "-g", "--defined-only", str(out)], capture_output=True, text=True, check=True
            )
            names |= {line.split()[-1] for line in listing.stdout.splitlines()}
        assert all(n.startswith(f"ax1v1_{macs}_") for n in names)
        symbols.append(names)
    assert not symbols[0] & symbols[1]
