# SPDX-License-Identifier: Apache-2.0
"""Writing programs: one method per instruction, fields by name.

    p = Program()
    p.view(slot=0, base=0, pixel=16, row=512, height=32, width=32)
    p.ld(region=2, offset=0, view=0, strides=0, rows=32, cols=32, ch=16, signal=EX)
    p.mm(view=0, kern=0, rows=8, cols=16, wait=LD)
    stream = p.bytes()

wait and signal are masks of units: EX, or LD | EX. Registers r1, r2, r3 (0 to 7) move words 1 to 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aot.vendor.accel_sim.encode import Instr, encode_all, instr
from aot.vendor.accel_sim.isa import BY_NAME, BYTES
from aot.vendor.accel_sim.kinds import Unit

LD, EX, VX, ST = (1 << u for u in (Unit.LD, Unit.EX, Unit.VX, Unit.ST))


@dataclass(slots=True)
class Program:
    """A list of instructions that grows; every method returns the program."""

    code: list[Instr] = field(default_factory=list)

    def add(self, name: str, fields: dict[str, int]) -> Program:
        """Append `name`; fields of all instructions (wait, signal, dtype, r1 …) are mixed in."""
        self.code.append(instr(name, fields))
        return self

    def __getattr__(self, name: str) -> Callable[..., Program]:
        """`p.mm(rows=8, …)` appends the instruction MM; every instruction of the table has one."""
        if name.upper() not in BY_NAME:
            raise AttributeError(f"no instruction {name.upper()!r}")
        return lambda **fields: self.add(name.upper(), fields)

    def __len__(self) -> int:
        """The number of instructions."""
        return len(self.code)

    def bytes(self) -> bytes:
        """The bytes of the command stream, 16 per instruction."""
        return encode_all(self.code)

    @property
    def size(self) -> int:
        """Bytes of the stream."""
        return BYTES * len(self.code)
