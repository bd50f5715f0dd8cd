# SPDX-License-Identifier: Apache-2.0
"""The digits model built for a target, once per session; what each target needs here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from elftools.elf.elffile import ELFFile

from aot.api import compile as compile_model
from aot.target import load_target
from needs import need

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"

#: What `make test` runs, and what only AOT_FULL=1 does.
FAST = ("aarch64-linux", "cortex-m0", "cortex-m4", "cortex-m55", "rv32imac")
REST = ("armv7-linux", "riscv64-linux", "rv64gcv", "cortex-m3", "cortex-m7", "cortex-m33",
        "rv32imafc",
        "rv64gc", "cortex-a53", "cortex-a72", "cortex-a76", "aarch64-dotprod",
        "aarch64-i8mm", "aarch64-bf16", "aarch64-fp16", "neoverse-n1", "cortex-m0plus",
        "cortex-m52", "cortex-m85", "rv32imc", "rv32imac_zba_zbb", "rv32imafcv")  # fmt: skip
ALL = FAST + REST

#: A user's firmware in CMake: `firmware.c` with the board's files and the bundle named by MODEL.
PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(firmware C)
add_subdirectory("${MODEL}" model)
add_executable(firmware firmware.c)
target_link_libraries(firmware PRIVATE aot::net aot::net-board)
"""

#: A program with an arena of its own and nothing else.
FIRMWARE = """
#include "net.h"
AOT_ALIGNED(NET_ARENA_ALIGN) static unsigned char arena[NET_ARENA_BYTES];
static net_context model;
int main(void) {
    aot_status status = net_init(&model, arena, sizeof arena);
    return status == AOT_OK ? (int)net_run(&model, NULL, NULL) : (int)status;
}
"""

_built: dict[str, Path] = {}


def own_image(model: Path, folder: Path, target: str) -> tuple[int, int]:
    """Bytes of flash and of RAM of FIRMWARE with the model, called `net`, whose OUT is
    `folder`/out."""
    out, own = folder / "out", folder / "own"
    compile_model(model, out, target=target, requant="tflite", name="net").build()
    own.mkdir()
    (own / "firmware.c").write_text(FIRMWARE)
    (own / "CMakeLists.txt").write_text(PROJECT)
    given = [
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DMODEL={out / 'bundle'}",
        f"-DCMAKE_TOOLCHAIN_FILE={out / 'bundle' / 'cmake' / 'toolchain.cmake'}",
    ]
    # Ninja links a program's objects in another order, which moves the padding between variables.
    make = ("-G", "Unix Makefiles")
    for step in (["-S", own, "-B", own, *make, *given], ["--build", own]):
        subprocess.run(["cmake", *step], check=True, capture_output=True)
    with (own / "firmware").open("rb") as file:
        parts = [s for s in ELFFile(file).iter_sections() if s["sh_flags"] & 2]
    loaded = sum(s.data_size for s in parts if s["sh_type"] == "SHT_PROGBITS")
    return loaded, sum(s.data_size for s in parts if s["sh_addr"] >= 0x20000000)


def need_tools(name: str) -> None:
    """Compiler and emulator; the reason of a skip is the apt line."""
    target = load_target(name)
    for program, packages in (
        (target.compiler, target.packages),
        (target.emulator[0], target.emulator_packages),
    ):
        need(program, f"apt-get install --no-install-recommends {' '.join(packages)}")


def digits(name: str, folder: Path) -> Path:
    """OUT of the digits model for a target, built; made in `folder` the first time."""
    if name not in _built:
        need_tools(name)
        out = folder / name
        compile_model(DIGITS, out, target=name).build()
        _built[name] = out
    return _built[name]


def emulate(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the image by hand, as docs/targets.md says."""
    target = json.loads((out / "bundle" / "manifest.json").read_text())["target"]
    words = "".join(f",arg={a}" for a in ("digits", *arguments)) if arguments else ""
    command = [
        *(*target["emulator"], "-icount", "shift=0", "-nographic", "-monitor", "none"),
        *("-serial", "none", "-semihosting-config", f"enable=on,target=native{words}"),
        *("-kernel", str(out / "bin" / "digits.elf")),
    ]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )
