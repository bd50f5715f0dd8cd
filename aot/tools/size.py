# SPDX-License-Identifier: Apache-2.0
"""`aotc size`: RAM, flash and multiply-accumulates, measured from objects or estimated."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aot.errors import BuildError, shell_word
from aot.plan.compiled import Compiled
from aot.tools.elf_image import measure_image
from aot.tools.run import Built
from aot.tools.stack_built import Stack, checked, declared, stack_of

#: What pyelftools raises at damaged objects besides its own ELFError.
DAMAGED = (AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes. `arena` intermediates and scratch, `io` inputs and outputs, `static` the bundle's
    other variables, those of vendors included; `constants` weights, `code` instructions and tables;
    `stack` of the entries; `macs` of one run. `around` are variables of the program around the
    library on a board: start-up code, runner, C library; `memories` are the parts of an arena that
    is in several memories."""

    name: str
    arena: int
    io: int
    static: int
    constants: int
    code: int
    macs: int
    estimated: bool
    stack: Stack
    around: int = 0
    memories: tuple[tuple[str, int], ...] = ()

    @property
    def ram(self) -> int:
        """What `--ram` counts: arena, variables and the declared stack, or this build's."""
        return self.arena + self.static + stack_bytes(self.stack)

    def record(self) -> dict[str, Any]:
        """For --json."""
        return {
            **asdict(self),
            "ram": self.ram,
            "flash": self.constants + self.code,
        }

    def text(self) -> str:
        """The sizes as five lines in bytes: name, RAM, flash, stack, multiplications."""
        about = " (code estimated)" if self.estimated else ""
        return "\n".join(
            (
                f"{self.name}",
                f"RAM    {self.ram} bytes: arena {self.arena}{self._parts()}, "
                f"variables {self.static}, {self._stack()}; "
                f"apart: inputs and outputs {self.io}{self._around()}",
                f"flash  {self.constants + self.code} bytes: constants {self.constants}, "
                f"code and tables {self.code}{about}",
                self.stack.text(),
                f"MACs   {self.macs}",
            )
        )

    def _stack(self) -> str:
        """The stack as a text, in bytes: declared by the user, else computed, else unknown."""
        known = self.stack.declared is not None or self.stack.bytes is not None
        return f"stack {stack_bytes(self.stack)}" if known else "stack unknown"

    def _parts(self) -> str:
        """The bytes of an arena in several memories, by memory."""
        parts = ", ".join(f"{name} {size}" for name, size in self.memories)
        return f" ({parts})" if parts else ""

    def _around(self) -> str:
        return f", the program around it {self.around}" if self.around else ""


def stack_bytes(stack: Stack) -> int:
    """The declared bound, or the computed one where that is more (-O0); 0 if neither is known."""
    return max(stack.declared or 0, stack.bytes or 0)


def measure(built: Built) -> Size:
    """The size of a built bundle: of its image on boards, else of lib/libNAME.a."""
    archive = built.out / "lib" / f"lib{built.name}.a"
    # A bundle that is not built says so before anything of its manifest is read.
    if not built.board and not archive.is_file():
        hint = f"`cmake --build {shell_word(built.out)}`"
        raise BuildError(f"{built.out} is not built", hint=hint)
    image = measure_image(built.program()) if built.board else None
    memory = built.manifest["memory"]
    arena, constants = int(memory["arena_bytes"]), int(memory["constants_bytes"])
    static, around = _own_variables(built), 0
    if image:
        stored = image.flash
        around = max(0, image.data + image.bss + max(0, image.arena - arena) - static)
    else:
        stored = sum(text + data for text, data, _ in _sections(archive))
    macs = sum(int(n.get("macs", 0)) for n in built.manifest["nodes"])
    sizes = arena, int(memory["io_bytes"]), static, constants, max(0, stored - constants), macs
    return Size(
        built.name, *sizes, False, checked(stack_of(built), built), around, parts_of(memory)
    )


def _own_variables(built: Built) -> int:
    """Bytes of writable data of the library, without the built-in arena; vendors' are declared."""
    archive, memory = built.out / "lib" / f"lib{built.name}.a", built.manifest["memory"]
    if not archive.is_file():
        return int(memory.get("static_bytes", 0)) + int(memory.get("vendor_bytes", 0))
    writable = sum(data + bss for _, data, bss in _sections(archive))
    arena = max(1, int(memory["arena_bytes"]))  # C has no empty arrays
    return max(0, writable - arena) + int(memory.get("vendor_bytes", 0))


def estimate(compiled: Compiled) -> Size:
    """The size of a model for a target with no toolchain: all exact but the code, on boards with
    start-up code and runner."""
    return planned(compiled.manifest, sum(compiled.code.values()))


def planned(manifest: dict[str, Any], code: int = 0) -> Size:
    """What a manifest says of the size, with `code` bytes of code, which it does not know."""
    memory = manifest["memory"]
    return Size(
        str(manifest["name"]),
        int(memory["arena_bytes"]),
        int(memory["io_bytes"]),
        int(memory.get("static_bytes", 0)) + int(memory.get("vendor_bytes", 0)),
        int(memory["constants_bytes"]),
        code,
        int(manifest["macs"]),
        True,
        declared(manifest),
        memories=parts_of(memory),
    )


def parts_of(memory: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """(memory, bytes) of an arena in several memories, from the manifest's record; else ()."""
    return tuple(
        (str(m["name"]), int(m["bytes"])) for m in memory.get("memories", ()) if "offset" in m
    )


def _sections(archive: Path) -> Iterator[tuple[int, int, int]]:
    """(read-only, initialised writable, zeroed writable) bytes of each object in an archive."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    yield 0, 0, 0
    for name, content in members(archive.read_bytes(), archive):
        try:
            sections = list(ELFFile(io.BytesIO(content)).iter_sections())
        except (ELFError, *DAMAGED) as error:
            raise BuildError(f"{archive}: {name} is no ELF object: {error}") from error
        for section in sections:
            if not section["sh_flags"] & 2 or section.name.startswith(".eh_frame"):
                continue  # not loaded, or unwinding tables that a board's linker drops
            writable = bool(section["sh_flags"] & 1)
            size = int(section["sh_size"])
            if section["sh_type"] == "SHT_NOBITS":
                yield 0, 0, size
            elif writable:
                yield 0, size, 0
            else:
                yield size, 0, 0


def members(data: bytes, archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the objects of a Unix archive; BuildError if it is damaged.

    An entry has a header of 60 bytes; names and the index of symbols are left out.
    """
    if data[:8] != b"!<arch>\n":
        raise BuildError(f"{archive} is not an archive")
    at = 8
    while at + 60 <= len(data):
        name = data[at : at + 16].decode("ascii", "replace").rstrip()
        digits = data[at + 48 : at + 58].strip()
        if not re.fullmatch(rb"[0-9]{1,10}", digits):
            raise BuildError(f"{archive} is no archive: {ascii(digits)[2:-1]} bytes at {at}")
        size = int(digits)
        if at + 60 + size > len(data):
            raise BuildError(f"{archive} ends in the middle of {name}", hint="build again")
        if name not in ("/", "//", "/SYM64/"):
            yield name, data[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
