# SPDX-License-Identifier: Apache-2.0
"""Programs in C that use the driver of AX1, on this machine and on QEMU's boards."""

from __future__ import annotations

import subprocess
from pathlib import Path

import aot.vendor.accel_sim as package
from aot.emit_c.board import board_files
from aot.plan.board_memory import Needs
from aot.target import load_target
from aot.vendor.accel_sim.sources import DRIVER, SIMULATOR
from needs import need

FOLDER = Path(package.__file__).parent
#: The driver and the header of macros that it takes: `aot/port.h`.
INCLUDES = [f"-I{FOLDER}", f"-I{Path(__file__).parents[1] / 'runtime_c/include'}"]
SOURCES = [str(FOLDER / source) for source in (*SIMULATOR, *DRIVER)]
WARNINGS = (
    *("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow"),
    *("-Wdouble-promotion", "-Werror"),
)


def hosted(folder: Path, main: Path, header: str = "") -> int:
    """The exit status of a program of this machine; `header` is the text for AX1_BOARD."""
    flags = ["-O1", "-DAX1_MACS=64", *INCLUDES, f"-I{folder}"]
    if header:
        (folder / "core.h").write_text(header)
        flags.append('-DAX1_BOARD="core.h"')
    out = folder / "main"
    subprocess.run(
        [need("gcc"), *WARNINGS, *flags, "-o", str(out), str(main), *SOURCES], check=True
    )
    return subprocess.run([str(out)], timeout=60).returncode


def on_board(name: str, folder: Path, main: Path) -> subprocess.CompletedProcess[str]:
    """What a program of the board `name` did under QEMU; its exit status is that of aot_exit."""
    target = load_target(name)
    compiler = need(target.compiler)
    emulator = need(target.emulator[0])
    for path, text in board_files(target, Needs(0, 0, 0)).items():
        file = folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text)
    board = folder / "board"
    flags = ["-O2", "-DAX1_MACS=64", '-DAX1_BOARD="ax1_board.h"', *INCLUDES, f"-I{board}"]
    link = ["-nostartfiles", "-Wl,--gc-sections", f"-T{board}/link.ld"]
    out = folder / "main.elf"
    objects = []
    for source in (*SOURCES, str(main), f"{board}/startup.c", f"{board}/semihost.c"):
        made = folder / (Path(source).stem + ".o")
        warnings = [] if "board/" in source else WARNINGS
        parts = [*warnings, *target.cflags, *flags, "-c", source, "-o", str(made)]
        subprocess.run([compiler, *parts], check=True)
        objects.append(str(made))
    parts = [*target.cflags, *objects, *target.ldflags, *link, "-o", str(out)]
    subprocess.run([compiler, *parts], check=True)
    command = [emulator, *target.emulator[1:], "-icount", "shift=0", "-nographic", "-monitor"]
    command += ["none", "-serial", "none", "-semihosting-config", "enable=on,target=native"]
    return subprocess.run(
        [*command, "-kernel", str(out)], timeout=60, capture_output=True, text=True, check=False
    )
