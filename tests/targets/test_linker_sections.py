# SPDX-License-Identifier: Apache-2.0
"""A linker script of a user's own, with and without the sections that a target file names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import aot
from targets.images import DIGITS, need_tools

ARENA = """
[[memory]]
name = "sram"
address = 0x60000000
size = "128K"
speed = 3
section = ".slow_ram"
use = ["arena"]
"""
#: All of the arena is in `sram`, or the part of it that `dtcm` has no room for.
MEMORIES = """
base = "cortex-m7"
stack = "8K"
[[memory]]
name = "flash"
address = 0x00000000
size = "1M"
use = ["code", "weights"]
[[memory]]
name = "dtcm"
address = 0x20000000
size = "12K"
use = [{uses}"data", "stack"]
"""
FIRMWARE = """
#include "net.h"
net_context model;
void aot_reset(void);
aot_status status;
void aot_reset(void) { status = net_init(&model, USED, NET_ARENA_BYTES); }
"""
PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(firmware C)
add_subdirectory("${MODEL}" model)
add_executable(firmware firmware.c)
target_link_libraries(firmware PRIVATE aot::net)
set(core -mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16)
target_compile_options(firmware PRIVATE ${core})
target_link_options(firmware PRIVATE ${core} -nostartfiles --specs=nosys.specs -Wl,--gc-sections
  "-T${CMAKE_CURRENT_SOURCE_DIR}/own.ld")
"""
SCRIPT = """
ENTRY(aot_reset)
MEMORY { flash : ORIGIN = 0, LENGTH = 1M
         ram : ORIGIN = 0x20000000, LENGTH = 64K
         slow : ORIGIN = 0x60000000, LENGTH = 128K }
SECTIONS {
    .text : { *(.text .text.* .rodata .rodata.*) } > flash
    .data : { *(.data .data.*) } > ram AT> flash
    .bss : { *(.bss .bss.* COMMON) } > ram
    RULE
    end = .;
}
"""
LACKS = "section .slow_ram is not in memory sram at 0x60000000"
NEEDS = ".slow_ram (NOLOAD) : { *(.slow_ram) } > sram"


@pytest.fixture(scope="module", params=["one", "split"])
def firmware(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a model whose arena is in the section .slow_ram, whole or in part."""
    need_tools("cortex-m7")
    folder = tmp_path_factory.mktemp("sections")
    text = MEMORIES.format(uses='"arena", ' * (request.param == "split")) + ARENA
    (folder / "chip.toml").write_text(text)
    bundle = folder / "out" / "bundle"
    target = str(folder / "chip.toml")
    aot.compile(DIGITS, folder / "out", target=target, name="net", arena=request.param)
    (folder / "CMakeLists.txt").write_text(PROJECT)
    (folder / "firmware.c").touch()
    given = [f"-DMODEL={bundle}", f"-DCMAKE_TOOLCHAIN_FILE={bundle / 'cmake/toolchain.cmake'}"]
    configure = ["cmake", "-S", str(folder), "-B", str(folder / "build"), *given]
    subprocess.run(configure, check=True, capture_output=True)
    return folder


def linked(firmware: Path, rule: str, used: str = "net_arena()") -> str:
    """What the linker says against a script with the `rule`; "" if nothing."""
    (firmware / "firmware.c").write_text(FIRMWARE.replace("USED", used))
    (firmware / "own.ld").write_text(SCRIPT.replace("RULE", rule))
    command = ["cmake", "--build", str(firmware / "build")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 or "ld:" in done.stderr, done.stderr
    return done.stderr if done.returncode else ""


def test_scripts_that_do_not_fit(firmware: Path) -> None:
    said = linked(firmware, "")
    assert LACKS in said and NEEDS in said, said
    elsewhere = linked(firmware, NEEDS.replace("> sram", "> ram"))
    assert LACKS in elsewhere, elsewhere


def test_scripts_that_fit(firmware: Path) -> None:
    """The section by its name or another one, or an arena that no program uses."""
    assert linked(firmware, NEEDS.replace("sram", "slow")) == ""
    assert linked(firmware, ".other (NOLOAD) : { *(.slow_ram) } > slow") == ""
    assert linked(firmware, "", used="NULL") == ""
