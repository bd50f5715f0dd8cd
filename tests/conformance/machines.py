# SPDX-License-Identifier: Apache-2.0
"""Where the tests run: on this machine, in QEMU's aarch64, on an emulated Cortex-M4."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ARM = ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
BOARD = (
    *("--specs=nano.specs", "--specs=nosys.specs", "-nostartfiles", f"-T{HERE / 'board.ld'}"),
    *("-include", str(HERE / "board.h"), "-fno-builtin-fprintf"),
)
QEMU_BOARD = (
    *("qemu-system-arm", "-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none"),
    *("-semihosting-config", "enable=on,target=native", "-kernel"),
)


@dataclass(frozen=True)
class Machine:
    """A target of aotc with its compiler, flags and the command before an executable.

    `arguments` tells whether the executable is given the names of its files; else they are in.bin
    and out.bin of the folder it is started in.
    """

    name: str
    target: str
    vlen: int
    compiler: str
    flags: tuple[str, ...] = ()
    emulator: tuple[str, ...] = ()
    arguments: bool = True

    def missing(self) -> Sequence[str]:
        """Programs that are not installed."""
        wanted = [self.compiler, *self.emulator[:1]]
        return [p for p in wanted if shutil.which(p) is None]


HOST = Machine("x86-64", "x86-64", 4, "gcc")
MACHINES = {
    "x86-64": HOST,
    "aarch64": Machine(
        "aarch64",
        "aarch64-linux",
        4,
        "aarch64-linux-gnu-gcc",
        ("-march=armv8-a",),
        ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
    ),
    "cortex-m4": Machine(
        "cortex-m4", "cortex-m4", 1, "arm-none-eabi-gcc", (*ARM, *BOARD), QEMU_BOARD, False
    ),
}
