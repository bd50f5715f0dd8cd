# SPDX-License-Identifier: Apache-2.0
"""Symbols of what a bundle was built to, and what each call of the model takes of flash."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aot.errors import AotError, BuildError, one_line
from aot.tools.run import Built
from aot.tools.size import DAMAGED, members

#: A comment, and the call below it: its C, its number, the function unless that is no call.
_CALL = re.compile(
    r"(?:^ *(/\*(?:[^*]|\*(?!/))*\*/)\n)?"
    r"^ *((?:STEP|TRY|TRY_SAYING)\(\s*(\d+),\s*(?:\(void\)0|(\w+)\()[^;]*;)",
    re.MULTILINE,
)
#: What compilers add to the names of copies of a function.
_COPY = re.compile(r"\.(constprop|isra|part|cold)(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function ("code"), a constant ("const") or a variable ("data"), in bytes."""

    name: str
    kind: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class NodeSize:
    """Bytes of one call: `code` of its function, whose `sharers` calls use it, and constants."""

    call: int
    nodes: str
    function: str
    code: int
    sharers: int
    constants: int


def symbols_of(built: Built) -> tuple[Symbol, ...]:
    """The symbols of the image (boards) or of lib/libNAME.a, the largest first."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    found = []
    for name, content in _files(built):
        try:
            found += list(_symbols(ELFFile(io.BytesIO(content))))
        except (ELFError, *DAMAGED) as error:
            raise BuildError(f"{name} is no ELF object: {error}") from error
    return tuple(sorted(found, key=lambda s: (-s.nbytes, s.name)))


def _files(built: Built) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the ELF files of a build: the image of a board, or the library's
    objects.
    """
    if built.board:
        program = built.program()
        yield str(program), program.read_bytes()
    else:
        archive = built.out / "lib" / f"lib{built.name}.a"
        yield from members(archive.read_bytes(), archive)


def _symbols(elf: Any) -> Iterator[Symbol]:
    """Yield the functions and objects of an ELF file that are stored in the target."""
    table = elf.get_section_by_name(".symtab")
    for symbol in table.iter_symbols() if table is not None else ():
        index, size = symbol["st_shndx"], int(symbol["st_size"])
        if not isinstance(index, int) or size == 0:
            continue
        flags = int(elf.get_section(index)["sh_flags"])
        if flags & 2 and symbol["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT"):
            kind = "code" if flags & 4 else "data" if flags & 1 else "const"
            yield Symbol(str(symbol.name), kind, size)


def node_sizes(built: Built, symbols: tuple[Symbol, ...]) -> tuple[NodeSize, ...]:
    """What every call of a run takes: copies of a function count as one of their size together."""
    # A compiler may split a function or make copies of it, under names of their own.
    code = Counter[str]()
    for s in symbols:
        if s.kind == "code":
            code[_COPY.sub("", s.name)] += s.nbytes
    functions = {i: c.function for i, c in calls_in_c(built).items() if c.function}
    count = Counter(functions.values())
    return tuple(
        NodeSize(
            i,
            " + ".join(call["nodes"]),
            function,
            code[function],
            count[function],
            int(call.get("constant_bytes", 0)),
        )
        for i, call in enumerate(built.manifest["nodes"])
        for function in (functions.get(i, ""),)
    )


@dataclass(frozen=True, slots=True)
class CCall:
    """A call in a C file of a bundle: the line, the C with the comment above it, the function."""

    file: str
    line: int
    text: str
    function: str


def calls_in_c(built: Built) -> dict[int, CCall]:
    """Call → its C in NAME_run.c or a vendor's file.

    Programs that stand in for vendors' regions count their own calls: they are left out. AotError
    if the bundle has lost its C files.
    """
    found: dict[int, CCall] = {}
    folder = built.out / "bundle" / "src"
    files = sorted(folder.glob(f"{built.name}_*.c"))
    if not files:
        raise AotError(f"no C file of {built.name} is in {folder}", hint="compile again")
    for path in (folder / f"{built.name}_run.c", *files):
        other = re.search(r"_(portable|fallback_\d+_\w+)$", path.stem.removeprefix(built.name))
        text = "" if other or not path.is_file() else path.read_text("utf-8", "replace")
        line, at = 1, 0
        for match in _CALL.finditer(text):
            line, at = line + text.count("\n", at, match.start(2)), match.start(2)
            shown = "\n".join(s.strip() for s in match[0].splitlines())
            found.setdefault(int(match[3]), CCall(path.name, line, shown, match[4] or ""))
    return found


def symbols_text(symbols: tuple[Symbol, ...], most: int = 40) -> str:
    """A line per symbol, the largest first."""
    lines = [f"{s.nbytes:>9}  {s.kind:<5}  {one_line(s.name)}" for s in symbols[:most]]
    rest = symbols[most:]
    if rest:
        lines.append(f"{sum(s.nbytes for s in rest):>9}  {len(rest)} smaller ones")
    return "\n".join(lines)


def nodes_text(nodes: tuple[NodeSize, ...]) -> str:
    """A line per call, in order."""
    lines = ["constants      code  node (function)"]
    for n in nodes:
        shared = f" shared by {n.sharers}" if n.sharers > 1 else ""
        title = n.nodes if len(n.nodes) <= 70 else f"…{n.nodes[-70:]}"
        lines.append(
            one_line(f"{n.constants:>9} {n.code:>9}  {title} ({n.function or 'nothing'}{shared})")
        )
    return "\n".join(lines)
