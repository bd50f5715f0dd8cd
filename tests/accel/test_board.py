# SPDX-License-Identifier: Apache-2.0
"""The accelerator on boards: a real interrupt of the interrupt controller ends the core's sleep."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from accel_harness import FOLDER, SOURCES, WARNINGS

from aot.emit_c.board import board_files
from aot.placement import Needs
from aot.target import load_target
from needs import need

MAIN = Path(__file__).parent / "board_main.c"


@pytest.mark.parametrize("name", ["cortex-m3", "cortex-m4", "cortex-m7", "rv32imac", "rv64gc"])
def test_interrupt(name, tmp_path):
    target = load_target(name)
    compiler = need(target.compiler)
    emulator = need(target.emulator[0])
    for path, text in board_files(target, Needs(0, 0, 0)).items():
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text)
    board = tmp_path / "board"
    own = [str(FOLDER / s) for s in (*SOURCES, "ax1_driver.c", "ax1_board.c")]
    flags = ["-O2", "-DAX1_MACS=64", '-DAX1_BOARD="ax1_board.h"', f"-I{FOLDER}", f"-I{board}"]
    link = ["-nostartfiles", "-Wl,--gc-sections", f"-T{board}/link.ld"]
    out = tmp_path / "main.elf"
    objects = []
    for source in (*own, str(MAIN), f"{board}/startup.c", f"{board}/semihost.c"):
        made = tmp_path / (Path(source).stem + ".o")
        warnings = [] if "board/" in source else WARNINGS.split()
        parts = [*warnings, *target.cflags, *flags, "-c", source, "-o", str(made)]
        subprocess.run([compiler, *parts], check=True)
        objects.append(str(made))
    parts = [*target.cflags, *objects, *target.ldflags, *link, "-o", str(out)]
    subprocess.run([compiler, *parts], check=True)
    command = [emulator, *target.emulator[1:], "-icount", "shift=0", "-nographic", "-monitor"]
    command += ["none", "-serial", "none", "-semihosting-config", "enable=on,target=native"]
    found = subprocess.run(
        [*command, "-kernel", str(out)], timeout=60, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
