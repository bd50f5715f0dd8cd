# SPDX-License-Identifier: Apache-2.0
"""docs/accel_isa.md from the tables: `python -m aot.vendor.accel_sim.manual` rewrites it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from aot.vendor.accel_sim import isa
from aot.vendor.accel_sim.config import CONFIGS
from aot.vendor.accel_sim.energy import COSTS
from aot.vendor.accel_sim.isa import Field, Instruction
from aot.vendor.accel_sim.kinds import Alu, DType, Fault, Kind, Mem, Rq

PATH = Path(__file__).parents[3] / "docs" / "accel_isa.md"
_TEXTS = Path(__file__).parent / "manual"
_MEANING = {
    "macs": "int8 products per cycle",
    "k": "rows of the array (depth); float32: a quarter",
    "m": "columns of the array (channels); float32: a quarter",
    "spm": "bytes of the scratchpad",
    "wgt": "bytes of the weight memory, rows of M",
    "acc": "bytes of the sums, rows of M times 32 bits",
    "prm": "bytes of the parameters, 16 per channel",
    "lut": "bytes of the tables",
    "sram_rate": "bytes per cycle from or to regions in SRAM",
    "flash_rate": "bytes per cycle from regions in flash",
    "sram_latency": "cycles before the first byte of every LD, LDL, ST",
    "flash_latency": "the same for flash",
    "prefetch": "instructions fetched ahead",
    "queue": "instructions that a unit may have been given and not completed",
    "port": "bytes per cycle of the vector unit at SPM",
    "segments": "pieces of SPM that one column of MM may come from in a cycle",
    "scatter": "elements per cycle where channels are not adjacent in the system",
    "row_gap": "cycles per piece where a DMA has more than one",
    "unpack_rate": "weights per cycle from the decompressor",
    "zero_block": "cycles for a block of zeros there",
    "vx_fill": "cycles of every DRAIN, ALU, POOL besides its rows",
    "float_fill": "more of them when requantising through float32",
    "dw_fill": "cycles of every DW besides its pixels",
    "dw_taps": "taps per cycle of DW (at most; never more than K)",
    "softmax_fill": "cycles per pixel of SOFTMAX besides 3 per channel",
}


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table with the header `head` and a line per row."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _cells(fields: Sequence[tuple[str, int, int]]) -> Iterator[tuple[str, str]]:
    """(bits, name) of the fields (name, lowest bit, bits) of a word from bit 31 down; gaps
    are "-".
    """
    top = 31
    for name, low, bits in sorted(fields, key=lambda f: -f[1]):
        high = low + bits - 1
        if high < top:
            yield f"{top}:{high + 1}" if top > high + 1 else f"{top}", "-"
        yield f"{high}:{low}" if bits > 1 else f"{low}", name
        top = low - 1
    if top >= 0:
        yield f"{top}:0" if top else "0", "-"


def diagram(row: Instruction) -> str:
    """A text block that draws the four words of an instruction, bit by bit; empty words are left
    out.
    """
    registers = row.queued or row.name in ("SETA", "ENDL")
    lines = []
    for word in range(4):
        fields = [(f.name, f.low, f.bits) for f in row.fields if f.word == word]
        if word == 0:
            common = [f for f in isa.COMMON if row.queued or (f.name[0] == "r" and registers)]
            fields += [(f.name, f.low, f.bits) for f in common if f.name != "op"]
            fields.append((f"0x{row.opcode:02X}", 0, 6))
        if not fields:
            continue  # all of the word is reserved
        cells = [(a, b, max(len(a), len(b))) for a, b in _cells(fields)]
        lines.append("      " + "   ".join(a.ljust(n) for a, _, n in cells).rstrip())
        lines.append(f"w{word}  | " + " | ".join(b.ljust(n) for _, b, n in cells) + " |")
    return "```text\n" + "\n".join(lines) + "\n```"


def _field(field_: Field) -> list[object]:
    """The cells of a field's row: name, bits, range of values, default ("" if required),
    meaning.
    """
    low, high = field_.range
    default = "" if field_.default is None else field_.default
    bits = f"w{field_.word}[{field_.low + field_.bits - 1}:{field_.low}]"
    return [f"`{field_.name}`", bits, f"{low} … {high}", default, field_.text]


def _instruction(row: Instruction) -> str:
    """The section of the manual about one instruction."""
    text = f"### {row.name}\n\n{row.text}\n\n{diagram(row)}\n"
    if row.fields:
        head = ("field", "bits", "values", "default", "meaning")
        text += "\n" + table(head, [_field(f) for f in row.fields]) + "\n"
    effects = [f"reads {', '.join(row.reads)}"] if row.reads else []
    effects += [f"writes {', '.join(row.writes)}"] if row.writes else []
    if row.queued:
        types = ", ".join(DType(d).name.lower() for d in row.dtypes)
        text += f"\nUnit {row.unit.name}; {'; '.join(effects)}; data types {types}.\n"
    return text


def _machines() -> str:
    """The table of all machines: a row per constant, a column per machine."""
    names = [f.name for f in dataclasses.fields(CONFIGS[256])]
    rows = [[f"`{n}`", *(getattr(c, n) for c in CONFIGS.values()), _MEANING[n]] for n in names]
    return table(("constant", *(f"AX1-{n}" for n in CONFIGS), "meaning"), rows)


def _enumerations() -> str:
    """The table of enumerated fields with the names of their values."""
    kinds = (("dtype", DType), ("LDL mem", Mem), ("ALU op", Alu), ("rq", Rq), ("kind", Kind))
    rows = [[name, ", ".join(f"{k.value} {k.name}" for k in kind)] for name, kind in kinds]
    return table(("field", "values"), rows)


def _energy() -> str:
    """The text and table of the energy per product and per byte, in picojoules."""
    rows = [[name.replace("_", " "), cost] for name, cost in COSTS.items()]
    text = "Orders of magnitude for decisions, not measurements: picojoules per product (with its "
    text += "sum) and per byte of each memory.\n\n"
    return text + table(("what", "pJ"), rows)


def text() -> str:
    """The whole page docs/accel_isa.md."""
    parts = [
        (_TEXTS / "machine.md").read_text(),
        "## Machines\n\n" + _machines() + "\n",
        "## Instructions\n",
        "Every instruction has these fields in word 0 (the front end's only op; SETA and ENDL the "
        "registers):\n",
        table(("field", "bits", "values", "default", "meaning"), [_field(f) for f in isa.COMMON])
        + "\n",
        _enumerations() + "\n",
        *(_instruction(row) for row in isa.INSTRUCTIONS),
        (_TEXTS / "model.md").read_text(),
        "## Energy\n",
        _energy() + "\n",
        "## Faults\n",
        table(("code", "fault"), [[f.value, f.name] for f in Fault]) + "\n",
        (_TEXTS / "interface.md").read_text(),
    ]
    return "\n".join(p.strip("\n") + "\n" for p in parts)


if __name__ == "__main__":
    PATH.write_text(text())
