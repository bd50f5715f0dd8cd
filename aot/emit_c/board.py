# SPDX-License-Identifier: Apache-2.0
"""Boards: the linker script from the target's memory map, start-up code, and the image in CMake."""

from __future__ import annotations

import re

from aot.emit_c import ctext
from aot.emit_c.resources import runtime_c
from aot.emit_c.write import File
from aot.errors import TargetError
from aot.plan.board_memory import Needs, Placement, place
from aot.target import Memory, Target

#: Sections are small so that the linker drops what an image does not use; debug information is
#: not loaded, and names the line of a fault.
FLAGS = ("-ffunction-sections", "-fdata-sections", "-g")
#: Kernels are unrolled by hand: -O3 makes code larger by half and hardly faster, and -Os, which
#: gives up on constants inside kernels, makes it larger too.
LEVEL = "-O2"
#: Alignment of the file of constants.
WEIGHTS_ALIGN = 16
#: Where the built-in arena goes unless the memory it is placed in names a section.
ARENA = ".bss.aot_arena"
#: Where the functions of a run go, likewise.
HOT_CODE = ".aot_hot"
_SHARED = ("board.h", "measure.h", "runner.c", "self_test.h", "semihost.c", "trace.h")


def board_files(
    target: Target, needs: Needs, flash: int | None = None, section: str = "", checks: str = ""
) -> dict[str, File]:
    """Start-up code, runner and linker script, in board/ of the bundle; `flash` is a budget.

    `section` is the linker section of the constants, "" for that of their own; `checks` are those
    of `section_checks`.

    Raises TargetError if the target names a port that the runtime does not have.
    """
    ports = runtime_c() / "ports"
    port = ports / ctext.ident(target.port)
    if not port.is_dir():
        known = sorted(p.name for p in ports.iterdir() if (p / "startup.c").is_file())
        raise TargetError(
            f"target {target.name}: there is no port {target.port!r}",
            hint=f"ports: {', '.join(known)}",
        )
    files: dict[str, File] = {f"board/{n}": (ports / "board" / n).read_bytes() for n in _SHARED}
    files["board/startup.c"] = (port / "startup.c").read_bytes()
    script = linker_script(target, place(target, needs), flash, section)
    files["board/link.ld"] = script.encode("ascii")
    if checks:
        files["board/sections.ld"] = checks.encode("ascii")
    return files


def section_checks(name: str, target: Target, needs: Needs, section: str) -> str:
    """Checks for GNU ld that what has a linker section of its own is in its memory; "" if nothing.

    These are arenas whose memory names a section, the functions of a run in a memory for them, and
    constants in `section` ("" for none) where they have a memory apart from code. A linker script
    of the user's own may lack the section: the linker would place it anywhere.
    """
    placed = place(target, needs)
    found = [
        (f"{name}_arena_{m.name if needs.parts else 'memory'}", m.section, m, "(NOLOAD) ", "")
        for m in (placed.arena, *placed.others)
        if m.section
    ]
    if section and placed.weights != placed.code:
        found.append((f"{name}_weights", section, placed.weights, "", ""))
    known = ""
    if placed.hot is not None:
        # Functions have no name to ask for. GNU ld defines this one for every section of an image,
        # and what no rule names becomes a section of the same name.
        rule, copied = placed.hot.section or HOT_CODE, f" AT> {placed.code.name}"
        found.append((f".startof.{rule}", rule, placed.hot, "", copied))
        known = f"EXTERN(.startof.{rule})\n"
    return known + "".join(
        _CHECK.format(
            symbol=symbol,
            section=rule,
            memory=memory.name,
            start=memory.address,
            end=memory.address + memory.bytes,
            kind=kind,
            load=load,
        )
        for symbol, rule, memory, kind, load in found
    )


#: What no program uses is at 0, or not there.
_CHECK = """\
ASSERT(!DEFINED({symbol}) ? 1
        : {symbol} == 0 || ({symbol} >= {start:#010x} && {symbol} < {end:#010x}),
    "section {section} is not in memory {memory} at {start:#010x}, as the target file says: \
the linker script needs {section} {kind}: {{ *({section}) }} > {memory}{load}");
"""


def section_definitions(target: Target, needs: Needs) -> str:
    """Definitions of AOT_ARENA_ATTR and AOT_HOT for CMake; "" where the compiler places all."""
    if not target.board:
        return ""
    placed = place(target, needs)
    sections = {"AOT_ARENA_ATTR": placed.arena.section or ARENA}
    sections |= {f"AOT_ARENA_ATTR_{m.name.upper()}": _arena_of(m) for m in placed.others}
    if placed.hot is not None:
        sections["AOT_HOT"] = placed.hot.section or HOT_CODE
    return " ".join(f'"{n}=AOT_SECTION(\\"{s}\\")"' for n, s in sections.items())


def _arena_of(memory: Memory) -> str:
    """The section of the part of the arena that is in a memory besides the first."""
    return memory.section or f"{ARENA}_{memory.name}"


def linker_script(
    target: Target, placed: Placement, flash: int | None = None, section: str = ""
) -> str:
    """A script for GNU ld: vectors first, every section in the memory chosen for it.

    The constants' own `section` lies beside other constants in the memory for weights: the linker
    would place a section that no rule names where it finds room, outside of the budget.
    More than `flash` bytes of code, constants and initial data do not link.
    """
    used = [m for m in target.memories if m.use]
    width = max(len(m.name) for m in used)
    regions = "\n".join(
        f"    {m.name:<{width}} : ORIGIN = {m.address:#010x}, LENGTH = {m.bytes}" for m in used
    )
    code, data, arena = placed.code.name, placed.data.name, placed.arena.name
    arena_section = placed.arena.section or ARENA
    return _SCRIPT.format(
        cpu=ctext.plain(target.cpu),
        regions=regions,
        code=code,
        weights=placed.weights.name,
        data=data,
        arena=arena,
        arena_section=arena_section,
        others="".join(
            f"    .arena_{m.name} (NOLOAD) : ALIGN(16) {{\n        *({_arena_of(m)})\n"
            f"        . = ALIGN(8);\n        aot_arena_{m.name}_end = .;\n    }} > {m.name}\n\n"
            for m in placed.others
        ),
        own=f" *({section} {section}.*)" if section else "",
        stack=placed.stack.name,
        hot=_hot(placed),
        stack_bytes=target.stack,
        room=_room(placed) + (_budget(placed, flash) if flash is not None else ""),
    )


def _hot(placed: Placement) -> str:
    """The section of the functions of a run, which start-up code copies; without one, no bytes."""
    if placed.hot is None:
        return "".join(f"    aot_hot_{end} = aot_code_start;\n" for end in ("start", "end", "load"))
    section = placed.hot.section or HOT_CODE
    return _HOT.format(section=section, hot=placed.hot.name, code=placed.code.name)


_HOT = """\
    .hot : ALIGN(8) {{
        aot_hot_start = .;
        *({section})
        . = ALIGN(8);
        aot_hot_end = .;
    }} > {hot} AT> {code}
    aot_hot_load = LOADADDR(.hot);
"""


def _room(placed: Placement) -> str:
    """The check that nothing has grown into the stack."""
    # Where one memory has several of them, variables come last.
    ends = {m.name: f"aot_arena_{m.name}_end" for m in placed.others}
    ends |= {placed.arena.name: "aot_arena_end", placed.data.name: "aot_data_limit"}
    end = ends.get(placed.stack.name)
    if end is None:
        return ""
    text = f"the stack does not fit memory {placed.stack.name}"
    return f'ASSERT({end} <= aot_stack_limit, "{text}: variables and arena leave too little")\n'


def _budget(placed: Placement, flash: int) -> str:
    """The check that the image takes at most `flash` bytes of what is loaded."""
    return _BUDGET.format(flash=flash, hot=" + SIZEOF(.hot)" if placed.hot else "")


_TOO_LARGE = "the image exceeds --flash {flash}: build without it, then `aotc size`"
_BUDGET = f"""\
aot_flash_used = SIZEOF(.text) + SIZEOF(.weights) + SIZEOF(.rodata) + SIZEOF(.ARM.exidx)
    + SIZEOF(.data){{hot}};
ASSERT(aot_flash_used <= {{flash}}, "{_TOO_LARGE}")
"""

_SCRIPT = """\
/* SPDX-License-Identifier: MIT-0 */
/* Memory of {cpu}, and what goes where. */
ENTRY(aot_reset)

MEMORY {{
{regions}
}}

SECTIONS {{
    .text : {{
        aot_code_start = .;
        KEEP(*(.vectors))
        *(.text .text.*)
        aot_code_end = .;
    }} > {code}

{hot}
    .weights : ALIGN(16) {{
        *(.rodata.*_weights){own}
    }} > {weights}

    .rodata : ALIGN(8) {{
        *(.rodata .rodata.* .srodata .srodata.*)
    }} > {code}

    .ARM.exidx : {{
        *(.ARM.exidx* .ARM.extab*)
    }} > {code}

    .data : ALIGN(8) {{
        aot_data_start = .;
        *(.data .data.*)
        PROVIDE(__global_pointer$ = . + 0x800);
        *(.sdata .sdata.*)
        . = ALIGN(8);
        aot_tls_start = .;
        *(.tdata .tdata.* .tbss .tbss.*)
        . = ALIGN(8);
        aot_data_end = .;
    }} > {data} AT> {code}
    aot_data_load = LOADADDR(.data);

    .arena (NOLOAD) : ALIGN(16) {{
        aot_arena_start = .;
        *({arena_section})
        . = ALIGN(8);
        aot_arena_end = .;
    }} > {arena}

{others}    .bss (NOLOAD) : ALIGN(8) {{
        aot_bss_start = .;
        *(.sbss .sbss.* .bss .bss.* COMMON)
        . = ALIGN(8);
        aot_bss_end = .;
        aot_data_limit = .;
    }} > {data}

    aot_stack_top = (ORIGIN({stack}) + LENGTH({stack})) & ~15;
    aot_stack_limit = aot_stack_top - {stack_bytes};
    /DISCARD/ : {{ *(.eh_frame .eh_frame_hdr .init_array* .fini_array*) }}
}}
{room}"""


def image_cmake(name: str, target: Target) -> str:
    """Targets NAME-runner (bin/NAME.elf) and NAME-trace of the bundle's CMakeLists.txt."""
    flags = " ".join(_argument(f) for f in (*target.cflags, *target.ldflags))
    return _IMAGE.format(name=name, flags=flags)


def _argument(flag: str) -> str:
    """`flag`, a flag of the target for the compiler; TargetError if it has other characters."""
    if not re.fullmatch(r"[A-Za-z0-9_.,=+/:@-]+", flag):
        raise TargetError(f"flag {flag!r} has characters that no compiler flag needs")
    return flag


_IMAGE = """\
# A linker script of your own may lack a section that the target file names.
if(EXISTS "${{CMAKE_CURRENT_SOURCE_DIR}}/board/sections.ld")
  target_link_options({name} INTERFACE
    "$<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}/board/sections.ld>")
endif()
# Start-up code and linker script, for an image of your own: link aot::{name}-board, too.
if(EXISTS "${{CMAKE_CURRENT_SOURCE_DIR}}/board/startup.c")
  add_library({name}-start OBJECT EXCLUDE_FROM_ALL board/startup.c board/semihost.c)
  target_include_directories({name}-start PRIVATE "${{CMAKE_CURRENT_SOURCE_DIR}}/include")
  target_compile_options({name}-start PRIVATE {flags} -Os -fno-lto -ffunction-sections
    -fdata-sections -fno-tree-loop-distribute-patterns)
  add_library({name}-board INTERFACE)
  add_library(aot::{name}-board ALIAS {name}-board)
  target_sources({name}-board INTERFACE $<TARGET_OBJECTS:{name}-start>)
  target_include_directories({name}-board INTERFACE "${{CMAKE_CURRENT_SOURCE_DIR}}/board")
  target_compile_options({name}-board INTERFACE {flags} -ffunction-sections -fdata-sections)
  target_link_options({name}-board INTERFACE {flags} -nostartfiles -Wl,--gc-sections
    "-T${{CMAKE_CURRENT_SOURCE_DIR}}/board/link.ld")
endif()

# Images with start-up code; the second one also reports every intermediate result.
if(AOT_BUILD_RUNNER)
  set(board board/runner.c board/semihost.c board/startup.c ${{runner_weights}})
  add_executable({name}-runner ${{board}})
  target_link_libraries({name}-runner PRIVATE {name})
  add_executable({name}-trace EXCLUDE_FROM_ALL ${{board}} ${{sources}})
  target_compile_definitions({name}-trace PRIVATE AOT_TRACE)
  target_link_libraries({name}-trace PRIVATE ${{linked_{name}}})
  add_dependencies({name}-trace {name}) # sources that are generated are generated once
  foreach(runner {name}-runner {name}-trace)
    aot_options_{name}(${{runner}})
    target_include_directories(${{runner}} PRIVATE "${{CMAKE_CURRENT_SOURCE_DIR}}/host"
      "${{CMAKE_CURRENT_SOURCE_DIR}}/board")
    target_link_options(${{runner}} PRIVATE {flags} -nostartfiles -Wl,--gc-sections
      "-T${{CMAKE_CURRENT_SOURCE_DIR}}/board/link.ld"
      "-Wl,-Map=${{CMAKE_CURRENT_BINARY_DIR}}/${{runner}}.map")
    set_target_properties(${{runner}} PROPERTIES SUFFIX .elf
      LINK_DEPENDS "${{CMAKE_CURRENT_SOURCE_DIR}}/board/link.ld")
  endforeach()
  set_property(SOURCE ${{board}} APPEND PROPERTY COMPILE_OPTIONS -Os
    -fno-lto # its symbols are named in assembly too
    # or the compiler makes a call of libc's large strlen
    $<IF:$<C_COMPILER_ID:GNU>,-fno-tree-loop-distribute-patterns,-fno-builtin>)
  # The entries run once a run: small is better.
  set_property(SOURCE src/{name}.c APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-Os>)
  set_target_properties({name}-runner PROPERTIES OUTPUT_NAME {name})
endif()
"""
