# SPDX-License-Identifier: Apache-2.0
"""Programs as text: `MM.f32 wait=LD signal=VX view=2 kern=0 rows=4 cols=32 r1=2`.

Numbers are decimal or 0x…; what has its default is left out. `;` begins a comment. Units of wait
and signal are joined by +.
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.vendor.accel_sim.encode import Instr, StreamError, decode_all, instr
from aot.vendor.accel_sim.isa import BYTES
from aot.vendor.accel_sim.kinds import DType, Fault, Unit

_UNITS = tuple(u for u in Unit if u is not Unit.FE)


def _units(mask: int) -> str:
    return "+".join(u.name for u in _UNITS if mask >> u & 1)


def spell(instr: Instr) -> str:
    """One instruction."""
    words = [instr.name + (f".{DType(instr.dtype).name.lower()}" if instr.dtype else "")]
    words += [f"{k}={_units(m)}" for k, m in (("wait", instr.wait), ("signal", instr.signal)) if m]
    pairs = zip(instr.row.fields, instr.values, strict=True)
    words += [f"{f.name}={v}" for f, v in pairs if v != f.default]
    words += [f"{r}={v}" for r, v in (("r1", instr.r1), ("r2", instr.r2), ("r3", instr.r3)) if v]
    return " ".join(words)


def disassemble(stream: bytes) -> str:
    """The whole stream, with byte addresses; bodies of loops are indented."""
    lines, depth = [], 0
    for n, i in enumerate(decode_all(stream)):
        depth -= i.name == "ENDL"
        lines.append(f"{n * BYTES:06x}  {'  ' * max(depth, 0)}{spell(i)}")
        depth += i.name == "LOOP"
    return "\n".join(lines) + "\n"


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
