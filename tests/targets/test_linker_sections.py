# SPDX-License-Identifier: Apache-2.0
"""A linker script of a user's own, with and without the sections that a target file names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import aot
from aot.cli import main
from aot.target import load_target
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
void aot_reset(void) { status = USED; }
"""
PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(firmware C)
add_subdirectory("${MODEL}" model)
add_executable(firmware firmware.c)
target_link_libraries(firmware PRIVATE aot::net)
target_compile_options(firmware PRIVATE CORE)
target_link_options(firmware PRIVATE CORE LIBC -nostartfiles -Wl,--gc-sections
  "-T${CMAKE_CURRENT_SOURCE_DIR}/own.ld")
"""
SCRIPT = """
ENTRY(aot_reset)
MEMORY { flash : ORIGIN = 0, LENGTH = 1M
         ram : ORIGIN = 0x20000000, LENGTH = 64K
         fast : ORIGIN = 0x10000000, LENGTH = 64K
         slow : ORIGIN = 0x60000000, LENGTH = 128K }
SECTIONS {
    .text : { *(.text .text.* .rodata .rodata.*) } > flash
    .data : { *(.data .data.*) } > ram AT> flash
    .bss : { *(.bss .bss.* COMMON) } > ram
    RULE
    end = .;
}
"""
ARENA_USED = "net_init(&model, net_arena(), NET_ARENA_BYTES)"
LACKS = "section .slow_ram is not in memory sram at 0x60000000"
NEEDS = ".slow_ram (NOLOAD) : { *(.slow_ram) } > sram"


def project(folder: Path, base: str, memories: str, **options: Any) -> Path:
    """A program with a model, for a chip with these memories; it is configured."""
    need_tools(base)
    (folder / "chip.toml").write_text(memories)
    bundle = folder / "out" / "bundle"
    aot.compile(DIGITS, folder / "out", target=str(folder / "chip.toml"), name="net", **options)
    core = load_target(base)
    text = PROJECT.replace("CORE", " ".join(core.cflags))
    (folder / "CMakeLists.txt").write_text(text.replace("LIBC", " ".join(core.ldflags)))
    (folder / "firmware.c").touch()
    given = [f"-DMODEL={bundle}", f"-DCMAKE_TOOLCHAIN_FILE={bundle / 'cmake/toolchain.cmake'}"]
    configure = ["cmake", "-S", str(folder), "-B", str(folder / "build"), *given]
    subprocess.run(configure, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module", params=["one", "split"])
def firmware(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a model whose arena is in the section .slow_ram, whole or in part."""
    text = MEMORIES.format(uses='"arena", ' * (request.param == "split")) + ARENA
    folder = tmp_path_factory.mktemp("sections")
    return project(folder, "cortex-m7", text, arena=request.param)


def linked(firmware: Path, rule: str, used: str = ARENA_USED) -> str:
    """What the linker says against a script with the `rule`; "" if nothing."""
    (firmware / "firmware.c").write_text(FIRMWARE.replace("USED", used))
    (firmware / "own.ld").write_text(SCRIPT.replace("RULE", rule))
    command = ["cmake", "--build", str(firmware / "build")]
    done = subprocess.run(command, capture_output=True, text=True)
    said = done.stdout + done.stderr  # ninja prints errors to stdout
    assert done.returncode == 0 or "ld:" in said, said
    return said if done.returncode else ""


def test_scripts_that_do_not_fit(firmware: Path) -> None:
    said = linked(firmware, "")
    assert LACKS in said and NEEDS in said, said
    elsewhere = linked(firmware, NEEDS.replace("> sram", "> ram"))
    assert LACKS in elsewhere, elsewhere


def test_scripts_that_fit(firmware: Path) -> None:
    """The section by its name or another one, or an arena that no program uses."""
    assert linked(firmware, NEEDS.replace("sram", "slow")) == ""
    assert linked(firmware, ".other (NOLOAD) : { *(.slow_ram) } > slow") == ""
    assert linked(firmware, "", used=ARENA_USED.replace("net_arena()", "0")) == ""


#: Functions of a run are copied to fast memory, constants are in slow memory.
HOT = """
base = "{base}"
stack = "8K"
[[memory]]
name = "flash"
address = 0x00000000
size = "1M"
use = ["code"]
[[memory]]
name = "xip"
address = 0x60000000
size = "128K"
speed = 8
use = ["weights"]
[[memory]]
name = "itcm"
address = 0x10000000
size = "64K"
use = ["hot"]
[[memory]]
name = "ram"
address = 0x20000000
size = "64K"
use = ["arena", "data", "stack"]
"""
RUNS = "net_run(&model, 0, 0)"
FAST = ".aot_hot : { *(.aot_hot) } > fast AT> flash"
SLOW = " .slow : { *(.ext .ext.*) } > slow"


@pytest.fixture(scope="module", params=["cortex-m7", "rv32imac"])
def placed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a model whose functions and constants have memories and sections."""
    folder, text = tmp_path_factory.mktemp("placed"), HOT.format(base=request.param)
    return project(folder, request.param, text, weights="section=.ext")


def test_functions_and_constants_that_no_rule_names(placed: Path) -> None:
    said = linked(placed, "", RUNS)
    for section, memory, rule in (
        (".aot_hot", "itcm at 0x10000000", ".aot_hot : { *(.aot_hot) } > itcm AT> flash"),
        (".ext", "xip at 0x60000000", ".ext : { *(.ext) } > xip"),
    ):
        assert f"section {section} is not in memory {memory}" in said and rule in said, said
    assert "section .aot_hot" in linked(placed, FAST.replace("> fast", "> ram") + SLOW, RUNS)
    assert "section .ext" in linked(placed, FAST + SLOW.replace("> slow", "> flash"), RUNS)


def test_functions_and_constants_in_their_memories(placed: Path) -> None:
    """By rules of the script, or not used."""
    assert linked(placed, FAST + SLOW, RUNS) == ""
    assert linked(placed, FAST.replace(".aot_hot :", ".other :") + SLOW, RUNS) == ""
    assert linked(placed, "", ARENA_USED) == ""


def test_constants_in_the_memory_of_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A note has the rule, and the linker's option that names a section without one."""
    need_tools("cortex-m7")
    out = [str(tmp_path / "noted"), "--target", "cortex-m7"]
    assert main([str(DIGITS), "-o", *out, "--weights", "section=.rodata.net"]) == 0
    assert "note" not in capsys.readouterr().err
    assert main([str(DIGITS), "-o", *out, "--weights", "section=.ext"]) == 0
    said = capsys.readouterr().err
    assert "needs *(.ext) in a section of a memory" in said
    option = re.findall(r"-Wl,--orphan-handling=\w+", said)[0]
    own = project(tmp_path, "cortex-m7", 'base = "cortex-m7"', weights="section=.ext")
    flags = f"-DCMAKE_EXE_LINKER_FLAGS={option}"
    subprocess.run(["cmake", flags, own / "build"], check=True, capture_output=True)
    for rule, missing in (("", True), ("  .e : { *(.ext) } > slow", False)):
        (own / "firmware.c").write_text(FIRMWARE.replace("USED", RUNS))
        (own / "own.ld").write_text(SCRIPT.replace("RULE", rule))
        command = ["cmake", "--build", str(own / "build"), "--clean-first"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        said = done.stdout + done.stderr
        assert ("section `.ext'" in said) is missing, said
