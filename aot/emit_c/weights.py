# SPDX-License-Identifier: Apache-2.0
"""`--weights file|blob|section=NAME`: constants in a file, mapped or passed, or in a section."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np

from aot.emit_c.constants import Constants
from aot.emit_c.write import Blob
from aot.errors import UnsupportedError
from aot.ir.deferred import Constant
from aot.ir.program import Program
from aot.target import Target

HEADER = 64
"""Bytes before the constants (runtime_c/src/aot_weights.h draws them)."""
SECTION = "section="


def section_of(program: Program) -> str:
    """The linker section that was asked for, "" if none."""
    return program.weights.removeprefix(SECTION) if program.weights.startswith(SECTION) else ""


def section_note(program: Program, target: Target) -> list[str]:
    """The sentence about a linker script of the user's own that lacks the section of constants, in
    a list.

    There is none where the linker checks it (`section_checks`), as constants have a memory apart
    from code; and none of sections that every script for C names.
    """
    section = section_of(program)
    first = [
        next((m for m in target.memories if use in m.use), None) for use in ("weights", "code")
    ]
    if not section or not target.board or first[0] != first[1] or section.startswith(".rodata"):
        return []
    return [
        f"--weights {program.weights}: a linker script of your own needs *({section}) in a section "
        "of a memory; with -Wl,--orphan-handling=warn GNU ld names sections without one"
    ]


def mapped_file(name: str) -> str:
    """The file in the bundle that NAME_init maps."""
    return f"{name}.weights"


def is_mapped(program: Program) -> bool:
    """Whether NAME_init maps the constants."""
    return program.weights == "file"


def file_prefix(name: str) -> str:
    """Prefix of the symbol by which runners hold the file they pass."""
    return f"{name}_blob"


def has_weights_file(program: Program) -> bool:
    """Whether the caller passes the constants."""
    return program.weights == "blob"


def values(program: Program, constants: Constants) -> dict[str, object]:
    """Values for templates about the constants: where they are, their bytes and their identity."""
    return {
        "weights_file": has_weights_file(program),
        "passed": program.passed,
        "mapped": is_mapped(program),
        "section": section_of(program) or f".rodata.{program.name}_weights",
        "weights_bytes": payload(constants).nbytes + HEADER,
        "identity": f"0x{identity(program, constants):08x}U",
    }


def check_weights_file(program: Program, target: Target) -> None:
    """UnsupportedError for vendors, whose objects want constants when NAME_init makes them; for
    boards, which have no files."""
    vendors = sorted({c.backend for c in program.every_call()} - {"c"})
    if is_mapped(program) and target.board:
        what = f"--weights file with --target {target.name}: a board has no files"
        raise UnsupportedError(what, hint="--weights blob, or --weights section=.rodata.weights")
    if program.passed and vendors:
        what = f"--weights {program.weights} with --backend {','.join(vendors)}"
        why = "vendors read constants before they are passed"
        raise UnsupportedError(f"{what}: {why}", hint="--weights embedded, or portable C alone")


def identity(program: Program, constants: Constants) -> int:
    """A number that two programs share only if one's constants fit the other."""
    lines = [f"{program.name} {program.vlen}"]
    for name, offset in constants.offsets.items():
        tensor = program_tensor(constants, name)
        lines.append(f"{name} {offset} {tensor}")
    return zlib.crc32("\n".join(lines).encode("utf-8", "surrogatepass")) or 1


def program_tensor(constants: Constants, name: str) -> str:
    """Type and layout of a stored constant as text."""
    tensor = constants.tensors[name]
    return f"{tensor.dtype} {list(tensor.shape)} {tensor.layout} {tensor.nbytes}"


def payload(constants: Constants) -> Blob:
    """The constants, in whole."""
    return constants.blob or Blob((), 0)


def weights_file(constants: Constants, number: int, abi: int) -> Blob:
    """The file of the constants: a header with ABI, identity, CRC-32 and bytes, then the constants.

    `number` is the program's `identity`, `abi` the version of the bundle's interface. The CRC
    covers all of the file but itself and padding, and is computed without holding the constants in
    memory.
    """
    body = payload(constants)
    head = b"AOTW" + abi.to_bytes(4, "little") + number.to_bytes(4, "little")
    size = body.nbytes.to_bytes(8, "little")
    crc = zlib.crc32(size, zlib.crc32(head))
    for chunk in body.chunks():
        crc = zlib.crc32(chunk, crc)
    header = (head + crc.to_bytes(4, "little") + size).ljust(HEADER, b"\0")
    parts: list[tuple[int, Constant]] = [(0, np.frombuffer(header, np.uint8))]
    parts += [(offset + HEADER, data) for offset, data in body.parts]
    return replace(body, parts=tuple(parts), nbytes=body.nbytes + HEADER)


def content_path(blob: str, beside: bool) -> str:
    """The file in the bundle that holds the constants called `blob`_weights.

    With `beside` the name is that of the C file and ".bin": the C file finds it by its own path.
    """
    return f"src/{blob}_weights{'.c' if beside else ''}.bin"
