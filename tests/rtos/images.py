# SPDX-License-Identifier: Apache-2.0
"""Images of beats.c: a network beside a control loop of 1 kHz, run under QEMU in simulated time."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import aot
from aot.target import load_target
from needs import need

HERE = Path(__file__).parent
TARGETS = ("cortex-m4", "cortex-m33", "rv32imac")
#: The names of FreeRTOS's code for their cores.
PORTS = {
    "cortex-m4": "GCC_ARM_CM4F",
    "cortex-m33": "GCC_ARM_CM33_NTZ_NONSECURE",
    "rv32imac": "GCC_RISC_V_GENERIC",
}
#: An instruction takes 2 to this power ns of simulated time: 62.5 or 125 million per second.
SHIFTS = {"cortex-m4": 4, "cortex-m33": 4, "rv32imac": 3}
#: Multiplications of a slice for NAME_step. The longest one is shorter than a beat on each target.
SLICE_MACS = 8 * 1024
#: The rate of QEMU's timer on RISC-V; other targets name the rate of theirs.
MTIME_HZ = 10_000_000


@dataclass(frozen=True)
class Beats:
    """What the program found.

    `late` of the beats began when the next one was due; `worst_ns` is the longest time from when a
    beat was due to its begin. `wrong` of the runs had another result than the first one, which is
    `result`. The network's task has `stack` bytes of stack, of which `unused` were never written.
    """

    beats: int
    late: int
    worst_ns: int
    runs: int
    wrong: int
    stack: int
    unused: int
    result: bytes


def sample(bundle: aot.Bundle) -> bytes:
    """Random int8 numbers of a fixed seed for the only input of a network."""
    (entry,) = bundle.manifest["inputs"]
    assert entry["dtype"] == "int8", entry
    return np.random.default_rng(5).integers(-128, 128, entry["shape"]).astype(np.int8).tobytes()


def images(model: Path, folder: Path, target: str, seconds: int, *ways: str) -> dict[str, Path]:
    """Images of `model` for a board, by the ways of beats.c, built in `folder`.

    The way DEVICE stands alone, since its network is for the accelerator. The kernel is FreeRTOS
    where FREERTOS_KERNEL_PATH is set, else the one in this folder.
    """
    found = load_target(target)
    for program in (found.compiler, found.emulator[0]):
        need(program)
    device = "DEVICE" in ways
    bundle = aot.compile(
        *(model, folder / "out"),
        target=target,
        name="net",
        backends="accel_sim:64" if device else (),
        require_backend=device,
        slice_macs=SLICE_MACS if "STEP" in ways else 0,
        configure=False,
    )
    numbers = ", ".join(map(str, sample(bundle)))
    (results,) = bundle.manifest["outputs"]
    (folder / "sample.h").write_text(
        f"#define RESULT_BYTES {results['nbytes']}\n"
        f"static const unsigned char sample[] = {{{numbers}}};\n"
    )
    given = {
        "MODEL": folder / "out" / "bundle",
        "SAMPLE": folder,
        "CMAKE_TOOLCHAIN_FILE": folder / "out" / "bundle" / "cmake" / "toolchain.cmake",
        "CMAKE_BUILD_TYPE": "Release",
        "AOT_WERROR": "ON",
        "CLOCK_HZ": found.tick_hz or MTIME_HZ,
        "WAYS": ";".join(ways),
        "BEATS": seconds * 1000,
        "CPU_FLAGS": ";".join(found.cflags),
        "LINK_FLAGS": ";".join(found.ldflags),
        "FREERTOS_KERNEL_PATH": os.environ.get("FREERTOS_KERNEL_PATH", ""),
        "FREERTOS_PORT": PORTS[target],
        "FREERTOS_RISCV_EXTENSION": "RISCV_MTIME_CLINT_no_extensions",
    }
    build = folder / "build"
    words = [f"-D{name}={value}" for name, value in given.items()]
    for step in (["-S", str(HERE), "-B", str(build), *words], ["--build", str(build)]):
        done = subprocess.run(["cmake", *step], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return {way: build / way for way in ways}


def beats(program: Path, target: str) -> Beats:
    """What the program prints under QEMU; time passes with instructions, idle time in no time."""
    done = subprocess.run(
        [
            *(*load_target(target).emulator, "-icount", f"shift={SHIFTS[target]},sleep=off"),
            *("-nographic", "-monitor", "none", "-serial", "none"),
            *("-semihosting-config", "enable=on,target=native", "-kernel", str(program)),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    numbers, _, result = said.partition(" result ")
    words = numbers.split()
    return Beats(
        **{name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)},
        result=bytes(int(byte, 16) for byte in result.split()),
    )
