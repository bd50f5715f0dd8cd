# SPDX-License-Identifier: Apache-2.0
"""A board's image: what it takes of each memory, and which line an address belongs to."""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aot.errors import BuildError, one_line
from aot.tools.faults import fault_text, status_text


@dataclass(frozen=True, slots=True)
class Image:
    """Bytes: `code` instructions, `rodata` constants and tables, `data` initialised variables
    (in flash too), `bss` zeroed ones, `arena` the built-in arena."""

    code: int
    rodata: int
    data: int
    bss: int
    arena: int

    @property
    def flash(self) -> int:
        """Everything that is stored."""
        return self.code + self.rodata + self.data


def measure_image(path: Path) -> Image:
    """The sizes of an ELF image by its sections; BuildError if it is none."""
    found = dict.fromkeys(("code", "rodata", "data", "bss", "arena"), 0)
    for section in _elf(path).iter_sections():
        flags = int(section["sh_flags"])
        if not flags & 2:  # not loaded
            continue
        if section["sh_type"] == "SHT_NOBITS":
            kind = "arena" if section.name.startswith(".arena") else "bss"
        elif flags & 4:
            kind = "code"
        else:
            kind = "data" if flags & 1 else "rodata"
        found[kind] += int(section["sh_size"])
    return Image(**found)


def _elf(path: Path) -> Any:
    """The ELF file at `path`, read; BuildError if it is none."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        return ELFFile(io.BytesIO(path.read_bytes()))
    except (OSError, ELFError) as error:
        raise BuildError(f"{path} is no ELF image: {error}") from error


def explain_fault(report: str, path: Path, sources: Path) -> str:
    """`report`, as start-up code prints it, with function, line and node instead of bare numbers.

    `path` is the image, `sources` the folder of NAME_run.c.
    """
    pc = re.search(r"pc (0x[0-9a-f]+)", report)
    if not pc:
        return status_text(report, sources.parent / "include" / "aot" / "aot.h")
    before, said, _ = report.partition("fault:")
    kind = f"{before}{said} {fault_text(report)}"
    addresses = [int(a, 16) for a in re.findall(r"0x[0-9a-f]+", report[pc.start() :])]
    where = place_of(path, addresses[0])
    node = node_of(path, sources, addresses)
    text = f"{kind} at pc {pc[1]}"
    if where:
        text += f" in {where}"
    return f"{text}, running {node}" if node else text


def place_of(path: Path, address: int) -> str:
    """`function` at `address`, and the file and line; "" if the image does not tell."""
    elf = _elf(path)
    address &= ~1 if elf.get_machine_arch() == "ARM" else ~0
    name = _function(elf, address)
    line = _line(elf, address)
    if not name:
        return ""
    return f"{name} ({line[0]}:{line[1]})" if line else name


def node_of(path: Path, sources: Path, addresses: list[int]) -> str:
    """The comment before the call that is under way: the model's node and its shapes.

    `addresses` are return addresses, the innermost first; `sources` holds NAME_run.c.
    """
    elf = _elf(path)
    thumb = elf.get_machine_arch() == "ARM"
    for address in addresses:
        at = (address & ~1 if thumb else address) - 2  # inside the call
        if not _function(elf, at).endswith("_execute"):
            continue
        line = _line(elf, at)
        if line and line[0].endswith("_run.c"):
            return _comment_before(sources / line[0], line[1])
    return ""


def _comment_before(file: Path, line: int) -> str:
    """The last comment above `line`, on one line; "" if the function begins below it."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()[:line]
    except OSError:
        return ""
    function = "\n".join(lines).rpartition("\n}")[2]
    comments = re.findall(r"^ +/\*(.*?)\*/$", function, re.DOTALL | re.MULTILINE)
    return one_line(re.sub(r"\n +\* *|\s+", " ", comments[-1])).strip() if comments else ""


def _function(elf: Any, address: int) -> str:
    """The name of the function that holds the address, "" if none does."""
    table = elf.get_section_by_name(".symtab")
    for symbol in table.iter_symbols() if table is not None else ():
        start = symbol["st_value"] & (~1 if elf.get_machine_arch() == "ARM" else ~0)
        if symbol["st_info"]["type"] == "STT_FUNC" and start <= address < start + symbol["st_size"]:
            return str(symbol.name)
    return ""


def _line(elf: Any, address: int) -> tuple[str, int] | None:
    """(file name, line) of an instruction."""
    if not elf.has_dwarf_info():
        return None
    for unit in elf.get_dwarf_info().iter_CUs():
        program = elf.get_dwarf_info().line_program_for_CU(unit)
        if program is None:
            continue
        for rows in _sequences(program):
            if not rows[0].address <= address < rows[-1].address:
                continue
            row = rows[bisect_right([r.address for r in rows], address) - 1]
            first = 0 if program.header["version"] >= 5 else 1
            name = program.header["file_entry"][row.file - first].name
            return name.decode("utf-8", "replace").rpartition("/")[2], int(row.line)
    return None


def _sequences(program: Any) -> Iterator[list[Any]]:
    """Rows of a line table, one contiguous piece of code at a time."""
    rows: list[Any] = []
    for entry in program.get_entries():
        if entry.state is None:
            continue
        rows.append(entry.state)
        if entry.state.end_sequence:
            yield rows
            rows = []
