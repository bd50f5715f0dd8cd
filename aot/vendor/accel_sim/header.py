# SPDX-License-Identifier: Apache-2.0
"""ax1_isa.h from the tables: `python -m aot.vendor.accel_sim.header` rewrites it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

from aot.vendor.accel_sim import isa
from aot.vendor.accel_sim.config import CONFIGS
from aot.vendor.accel_sim.kinds import Alu, DType, Fault, Kind, Mem, Rq, Unit

PATH = Path(__file__).parent / "ax1_isa.h"
_ENUMS: tuple[tuple[str, type[IntEnum]], ...] = (
    ("UNIT", Unit), ("DTYPE", DType), ("MEM", Mem), ("ALU", Alu), ("RQ", Rq), ("KIND", Kind),
    ("FAULT", Fault),
)  # fmt: skip


def accessor(f: isa.Field) -> str:
    """A C expression of the value of field `f` in the four words `w`, as an int32_t.

    Signed fields are sign-extended; counts and biased coordinates are turned back into their
    values.
    """
    word = f"(w)[{f.word}]"
    if f.code == "s":
        if f.bits == 32:
            return f"((int32_t){word})"
        return f"((int32_t)({word} << {32 - f.low - f.bits}) >> {32 - f.bits})"
    shifted = f"{word} >> {f.low}" if f.low else word
    value = f"((int32_t)(({shifted}) & 0x{(1 << f.bits) - 1:X}U)"
    return value + {"u": ")", "n": " + 1)", "b": f" - {isa.BIAS})"}[f.code]


def _lines() -> Iterator[str]:
    """The lines of ax1_isa.h: constants, enumerations, machines, an accessor per field, the
    table.
    """
    yield "/* SPDX-License-Identifier: MIT-0 */"
    yield "/* The instructions and machines of AX1: header.py writes it from isa.py, config.py. */"
    yield "/* clang-format off */"
    yield "#ifndef AX1_ISA_H"
    yield "#define AX1_ISA_H"
    yield ""
    yield "#include <stdint.h>"
    yield ""
    yield f"#define AX1_VERSION {isa.VERSION}"
    for name in ("BYTES", "REGISTERS", "VIEWS", "KERNELS", "STRIDES", "VSETS"):
        yield f"#define AX1_{name} {getattr(isa, name)}"
    yield f"#define AX1_MAX_LOOPS {isa.MAX_LOOPS}"
    yield f"#define AX1_MAX_TOKENS {isa.MAX_TOKENS}"
    for prefix, kind in _ENUMS:
        yield ""
        yield from (f"#define AX1_{prefix}_{k.name} {k.value}" for k in kind)
    yield ""
    yield "/* Machines. */"
    # The machine that `make` of offload.py takes if the user names none.
    yield "#ifndef AX1_MACS"
    yield "#define AX1_MACS 256"
    yield "#endif"
    for n, (macs, c) in enumerate(CONFIGS.items()):
        yield f"#{'el' if n else ''}if AX1_MACS == {macs}"
        yield from (
            f"#define AX1_{f.name.upper()} {getattr(c, f.name)}"
            for f in dataclasses.fields(c)
            if f.name != "macs"
        )
    yield "#else"
    yield '#error "AX1_MACS is 64, 256 or 512"'
    yield "#endif"
    yield ""
    yield "/* What all instructions have in word 0. */"
    yield from (f"#define AX1_{f.name.upper()}(w) {accessor(f)}" for f in isa.COMMON)
    for row in isa.INSTRUCTIONS:
        yield ""
        yield f"/* {row.name} */"
        yield f"#define AX1_OP_{row.name} 0x{row.opcode:02X}"
        for f in row.fields:
            yield f"#define AX1_{row.name}_{f.name.upper()}(w) {accessor(f)}"
    yield ""
    yield "/* opcode, unit, data types (mask), bits of the four words that are not reserved */"
    yield "#define AX1_TABLE(ROW) \\"
    for n, row in enumerate(isa.INSTRUCTIONS):
        types = sum(1 << d for d in row.dtypes)
        bits = ", ".join(f"0x{m:08X}U" for m in isa.used_bits(row))
        end = " \\" if n + 1 < len(isa.INSTRUCTIONS) else ""
        yield f"    ROW(0x{row.opcode:02X}, AX1_UNIT_{row.unit.name}, {types}, {bits}){end}"
    yield ""
    yield "#endif /* AX1_ISA_H */"


def text() -> str:
    """The whole text of ax1_isa.h."""
    return "\n".join(_lines()) + "\n"


if __name__ == "__main__":
    PATH.write_text(text())
