# SPDX-License-Identifier: Apache-2.0
"""The C simulator as a shared library behind its registers."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aot.vendor.accel_sim as package
from aot.vendor.accel_sim.sources import SIMULATOR as SOURCES
from aot.vendor.accel_sim.timing import Region

FOLDER = Path(package.__file__).parent
WARNINGS = "-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wdouble-promotion -Werror"
CTRL, STATUS, ENTRY, CYCLES, SEED = 0x08, 0x0C, 0x10, 0xA0, 0xD0
FAULT_PC, FAULT_ADDR = 0xC8, 0xCC


@dataclass(frozen=True)
class Outcome:
    fault: int
    status: int
    cycles: int
    busy: list[int]
    stalled: list[int]
    pc: int
    address: int
    regions: list[bytes]


@functools.cache
def library(macs: int, sanitize: bool = False) -> Path:
    """Built once per run of the tests."""
    folder = Path(tempfile.mkdtemp(prefix=f"ax1_{macs}_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    out = folder / "libax1.so"
    flags = ["-O2", "-fPIC", "-shared", f"-DAX1_MACS={macs}"]
    if sanitize:
        flags += ["-fsanitize=undefined", "-fno-sanitize-recover=undefined"]
    command = [os.environ.get("CC", "gcc"), *WARNINGS.split(), *flags, "-o", str(out)]
    subprocess.run([*command, *(str(FOLDER / s) for s in SOURCES)], check=True)
    return out


class Simulator:
    """The machine of one configuration; registers by number."""

    def __init__(self, macs: int, sanitize: bool = False) -> None:
        lib = ctypes.CDLL(str(library(macs, sanitize)))
        self.read = lib[f"ax1v1_{macs}_mmio_read"]
        self.write = lib[f"ax1v1_{macs}_mmio_write"]
        self.stepped = lib[f"ax1v1_{macs}_sim_stepped"]
        self.advance = lib[f"ax1v1_{macs}_sim_advance"]
        self.interrupt = lib[f"ax1v1_{macs}_sim_interrupt"]
        self.read.restype = ctypes.c_uint32
        self.write.argtypes = [ctypes.c_uint32, ctypes.c_uint32]
        self.advance.argtypes = [ctypes.c_uint64]

    def set_up(self, buffers: Sequence[ctypes.Array], kinds: Sequence[Region]) -> None:
        for n in range(8):
            self.write(0x60 + 4 * n, 0)
        for n, (buffer, kind) in enumerate(zip(buffers, kinds, strict=True)):
            address = ctypes.addressof(buffer)
            self.write(0x20 + 8 * n, address & 0xFFFFFFFF)
            self.write(0x24 + 8 * n, address >> 32)
            self.write(0x60 + 4 * n, kind.size)
            self.write(0x80 + 4 * n, kind.flash + 2 * kind.writable)

    def run(
        self, regions: Sequence[bytes], kinds: Sequence[Region], seed: int = 0, entry: int = 0
    ) -> Outcome:
        buffers = [(ctypes.c_uint8 * max(1, len(r))).from_buffer_copy(r or b"\0") for r in regions]
        self.write(CTRL, 4)
        self.set_up(buffers, kinds)
        self.write(SEED, seed)
        self.write(ENTRY, entry)
        self.write(CTRL, 1)
        status = self.read(STATUS)
        return Outcome(
            status >> 8 & 255,
            status >> 16,
            self.read(CYCLES) | self.read(CYCLES + 4) << 32,
            [self.read(0xA8 + 4 * u) for u in range(4)],
            [self.read(0xB8 + 4 * u) for u in range(4)],
            self.read(FAULT_PC),
            self.read(FAULT_ADDR),
            [bytes(b)[: len(r)] for b, r in zip(buffers, regions, strict=True)],
        )
