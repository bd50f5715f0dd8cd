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

from dataclasses import dataclass, field

from aot.vendor.accel_sim.encode import Instr, encode_all, instr
from aot.vendor.accel_sim.isa import BYTES
from aot.vendor.accel_sim.kinds import Unit

LD, EX, VX, ST = (1 << u for u in (Unit.LD, Unit.EX, Unit.VX, Unit.ST))


@dataclass(slots=True)
class Program:
    """A list of instructions that grows; every method returns the program."""

    code: list[Instr] = field(default_factory=list)

    def add(self, name: str, fields: dict[str, int]) -> Program:
        """Append `name`; fields of all instructions (wait, signal, dtype, r1 …) are mixed in."""
        common = ("dtype", "wait", "signal", "r1", "r2", "r3")
        tail = {k: int(v) for k, v in fields.items() if k in common}
        own = {k: v for k, v in fields.items() if k not in tail}
        self.code.append(instr(name, own, **tail))
        return self

    def __len__(self) -> int:
        return len(self.code)

    def bytes(self) -> bytes:
        """The stream."""
        return encode_all(self.code)

    @property
    def size(self) -> int:
        """Bytes of the stream."""
        return BYTES * len(self.code)

    def halt(self, **fields: int) -> Program:
        """End."""
        return self.add("HALT", fields)

    def fence(self, **fields: int) -> Program:
        """Wait for units."""
        return self.add("FENCE", fields)

    def loop(self, count: int) -> Program:
        """Begin a loop."""
        return self.add("LOOP", {"count": count})

    def endl(self, **fields: int) -> Program:
        """End a loop; r1=3, s1=16 adds 16 to register 3 after every pass."""
        return self.add("ENDL", fields)

    def seta(self, **fields: int) -> Program:
        """Set registers; r1=3, v1=0 sets register 3 to 0."""
        return self.add("SETA", fields)

    def view(self, **fields: int) -> Program:
        """Describe a tensor in SPM."""
        return self.add("VIEW", fields)

    def kern(self, **fields: int) -> Program:
        """Describe a window."""
        return self.add("KERN", fields)

    def strd(self, **fields: int) -> Program:
        """Describe a tensor in the system."""
        return self.add("STRD", fields)

    def vset0(self, **fields: int) -> Program:
        """Requantisation."""
        return self.add("VSET0", fields)

    def vset1(self, **fields: int) -> Program:
        """Addition."""
        return self.add("VSET1", fields)

    def vset2(self, **fields: int) -> Program:
        """The rest of an addition."""
        return self.add("VSET2", fields)

    def ld(self, **fields: int) -> Program:
        """System to view."""
        return self.add("LD", fields)

    def st(self, **fields: int) -> Program:
        """View to system."""
        return self.add("ST", fields)

    def ldl(self, **fields: int) -> Program:
        """System to a local memory."""
        return self.add("LDL", fields)

    def mm(self, **fields: int) -> Program:
        """Convolution or product."""
        return self.add("MM", fields)

    def dw(self, **fields: int) -> Program:
        """Depthwise convolution."""
        return self.add("DW", fields)

    def drain(self, **fields: int) -> Program:
        """Sums to codes."""
        return self.add("DRAIN", fields)

    def alu(self, **fields: int) -> Program:
        """Elementwise."""
        return self.add("ALU", fields)

    def pool(self, **fields: int) -> Program:
        """Pooling."""
        return self.add("POOL", fields)
