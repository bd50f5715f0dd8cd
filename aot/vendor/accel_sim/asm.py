# SPDX-License-Identifier: Apache-2.0
"""Programs as text: `MM.f32 wait=LD signal=VX view=2 kern=0 rows=4 cols=32 r1=2`.

Numbers are decimal; what has its default is left out. Units of wait and signal are joined by +.
"""

from __future__ import annotations

from aot.vendor.accel_sim.encode import Instr, decode_all
from aot.vendor.accel_sim.isa import BYTES
from aot.vendor.accel_sim.kinds import DType, Unit

_UNITS = tuple(u for u in Unit if u is not Unit.FE)


def _units(mask: int) -> str:
    """The names of the units whose bits are set in `mask`, joined by +; "" for 0."""
    return "+".join(u.name for u in _UNITS if mask >> u & 1)


def spell(instr: Instr) -> str:
    """One instruction as a line of text without its address: `MM.f32 wait=LD view=2 r1=2`.

    The mnemonic and a data type other than int8 come first; fields with their default value and
    address registers 0 are left out.
    """
    words = [instr.name + (f".{DType(instr.dtype).name.lower()}" if instr.dtype else "")]
    words += [f"{k}={_units(m)}" for k, m in (("wait", instr.wait), ("signal", instr.signal)) if m]
    pairs = zip(instr.row.fields, instr.values, strict=True)
    words += [f"{f.name}={v}" for f, v in pairs if v != f.default]
    words += [f"{r}={v}" for r, v in (("r1", instr.r1), ("r2", instr.r2), ("r3", instr.r3)) if v]
    return " ".join(words)


def disassemble(stream: bytes) -> str:
    """A whole command stream as text, one line per instruction with its byte address in
    hexadecimal.

    Bodies of loops are indented by two spaces per level. StreamError for bytes that are no
    instruction.
    """
    lines, depth = [], 0
    for n, i in enumerate(decode_all(stream)):
        depth -= i.name == "ENDL"
        lines.append(f"{n * BYTES:06x}  {'  ' * max(depth, 0)}{spell(i)}")
        depth += i.name == "LOOP"
    return "\n".join(lines) + "\n"
