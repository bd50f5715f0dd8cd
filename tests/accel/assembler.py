# SPDX-License-Identifier: Apache-2.0
"""Instructions of AX1 from the text that `aot.vendor.accel_sim.asm` spells.

Numbers are decimal or 0x…; what is left out has its default; `;` begins a comment.
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.vendor.accel_sim.encode import Instr, StreamError, instr
from aot.vendor.accel_sim.kinds import DType, Fault, Unit


def _value(key: str, text: str) -> int:
    if key in ("wait", "signal"):
        return sum(1 << Unit[name] for name in text.split("+"))
    return int(text, 0)


def assemble_line(line: str) -> Instr | None:
    """The instruction of a line, None if there is none; raises StreamError."""
    words = line.split(";", 1)[0].split()
    if words and len(words[0]) == 6 and words[0] == words[0].lower():
        words = words[1:]  # the address that `disassemble` prints
    if not words:
        return None
    name, _, dtype = words[0].partition(".")
    try:
        pairs = {k: _value(k, v) for k, _, v in (w.partition("=") for w in words[1:])}
        kind = int(DType[dtype.upper()]) if dtype else 0
    except (KeyError, ValueError) as error:
        raise StreamError(Fault.FIELD, f"{error.args[0]}", line.strip()) from error
    return instr(name, {**pairs, "dtype": kind})


def assemble(text: str) -> Sequence[Instr]:
    """Every instruction of a text."""
    return [i for i in map(assemble_line, text.splitlines()) if i is not None]
