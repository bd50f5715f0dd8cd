# SPDX-License-Identifier: Apache-2.0
"""What the front end does: loops and address registers are gone, slots are read.

`expand` turns a stream into the instructions that are executed, in their order, each with what its
slots held when it was dispatched. Estimator, interpreter and verifier all start from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aot.vendor.accel_sim.encode import Instr, StreamError, decode_words, moved, words_of
from aot.vendor.accel_sim.isa import BYTES, MAX_LOOPS, REGISTERS
from aot.vendor.accel_sim.kinds import DType, Fault, Unit

#: More executed instructions than this are taken for an endless program.
MAX_STEPS = 4_000_000


@dataclass(frozen=True, slots=True)
class View:
    """A tensor in SPM (see VIEW); `number` tells which VIEW of the program set it, -1: none."""

    base: int = 0
    pixel: int = 0
    row: int = 0
    ring: int = 0
    height: int = 1
    width: int = 1
    pad: int = 0
    number: int = -1

    def line(self, y: int) -> int:
        """The byte address in SPM where row `y` begins; rows of a ring buffer wrap around."""
        return self.base + self.row * (y % self.ring if self.ring else y)

    def inside(self, y: int, x: int) -> bool:
        """Whether the tensor has a pixel at row `y`, column `x`."""
        return 0 <= y < self.height and 0 <= x < self.width


@dataclass(frozen=True, slots=True)
class Kernel:
    """A window (see KERN)."""

    kh: int = 1
    kw: int = 1
    sh: int = 1
    sw: int = 1
    dh: int = 1
    dw: int = 1
    ci: int = 1
    number: int = -1

    @property
    def taps(self) -> int:
        """Positions of the window."""
        return self.kh * self.kw


@dataclass(frozen=True, slots=True)
class Strides:
    """A tensor in the system, in bytes (see STRD)."""

    row: int = 0
    pixel: int = 0
    channel: int = 0
    number: int = -1


@dataclass(frozen=True, slots=True)
class VSet:
    """Vector constants: the values of VSET0, VSET1 and VSET2 by name (None: not set)."""

    first: Instr | None = None
    add: Instr | None = None
    rest: Instr | None = None

    def get(self, which: str, name: str) -> int:
        """A value of VSET0 (`first`), VSET1 (`add`) or VSET2 (`rest`); what is not set is 0."""
        found: Instr | None = getattr(self, which)
        return 0 if found is None else found[name]


@dataclass(frozen=True, slots=True)
class Step:
    """One executed instruction. `f` are its fields after the address registers were added."""

    pc: int
    i: Instr
    f: Mapping[str, int] = field(default_factory=dict)
    view: View = View()
    source: View = View()
    other: View = View()
    kern: Kernel = Kernel()
    strides: Strides = Strides()
    vset: VSet = VSet()

    @property
    def unit(self) -> Unit:
        """The unit that executes the instruction."""
        return self.i.row.unit

    @property
    def size(self) -> int:
        """The bytes of an element: 4 for float32, else 1."""
        return 4 if self.i.dtype == DType.F32 else 1


@dataclass(slots=True)
class _Loop:
    begin: int
    left: int


@dataclass(slots=True)
class _State:
    registers: list[int] = field(default_factory=lambda: [0] * REGISTERS)
    loops: list[_Loop] = field(default_factory=list)
    views: dict[int, View] = field(default_factory=dict)
    kerns: dict[int, Kernel] = field(default_factory=dict)
    strides: dict[int, Strides] = field(default_factory=dict)
    vsets: dict[int, VSet] = field(default_factory=dict)

    def set_slot(self, instr: Instr, pc: int) -> None:
        """Carry out an instruction that fills a slot: VIEW, KERN, STRD, or a part of vector
        constants.

        `pc` is its byte address, by which the content is told from contents of other instructions.
        VSET0 to VSET2 replace one part of a set and keep the other two.
        """
        values = instr.fields
        slot = values.pop("slot")
        if instr.name == "VIEW":
            self.views[slot] = View(**values, number=pc)
        elif instr.name == "KERN":
            self.kerns[slot] = Kernel(**values, number=pc)
        elif instr.name == "STRD":
            self.strides[slot] = Strides(**values, number=pc)
        else:
            # A set is wider than one instruction, so its parts come one by one.
            old = self.vsets.get(slot, VSet())
            part = int(instr.name[-1])
            self.vsets[slot] = VSet(
                instr if part == 0 else old.first,
                instr if part == 1 else old.add,
                instr if part == 2 else old.rest,
            )

    def set_registers(self, instr: Instr) -> None:
        """Carry out SETA, which sets address registers, or ENDL, which adds to them, modulo 2^32.

        Register 0 is never changed. Later values win where a register is named twice, as in the
        machine.
        """
        for register, value in zip((instr.r1, instr.r2, instr.r3), instr.values, strict=True):
            if register:
                old = self.registers[register] if instr.name == "ENDL" else 0
                self.registers[register] = (old + value) & 0xFFFFFFFF

    def step(self, pc: int, instr: Instr) -> Step:
        """The instruction at byte `pc` with the contents of the slots that its fields name.

        A slot that was never set, or that it has no field for, gives a record with `number` -1.
        """
        f = instr.fields
        return Step(
            pc,
            instr,
            f,
            self.views.get(f.get("view", -1), View()),
            self.views.get(f.get("from_view", -1), View()),
            self.views.get(f.get("b_view", f.get("res_view", -1)), View()),
            self.kerns.get(f.get("kern", -1), Kernel()),
            self.strides.get(f["strides"], Strides()) if "strides" in f else Strides(),
            self.vsets.get(f.get("vset", -1), VSet()),
        )


_SLOTS = ("VIEW", "KERN", "STRD", "VSET0", "VSET1", "VSET2")


def expand(stream: bytes, entry: int = 0) -> Iterator[Step]:
    """Every executed instruction from byte `entry` of the stream to HALT, in order, loops unrolled.

    Raises StreamError, with the address, where the machine would fault; also for more than
    MAX_STEPS.
    """
    s, pc = _State(), entry
    decoded: dict[int, Instr] = {}
    for _ in range(MAX_STEPS):
        if not 0 <= pc <= len(stream) - BYTES:
            raise StreamError(Fault.STREAM, "the stream ends without HALT", f"0x{pc:x}")
        try:
            words = words_of(stream, pc)
            # Registers that move with the loops make another instruction of the same bytes in every
            # pass; all others are decoded once, which keeps long loops fast.
            if words[0] & 0x01FF0000 and words[0] & 63 >= 0x10:
                i = decode_words(moved(words, s.registers))
            else:
                i = decoded[pc] if pc in decoded else decoded.setdefault(pc, decode_words(words))
        except StreamError as error:
            raise StreamError(error.fault, error.what, f"the stream at 0x{pc:x}") from error
        yield s.step(pc, i)
        if i.name == "HALT":
            return
        pc = _control(s, pc, i)
    raise StreamError(Fault.STREAM, f"more than {MAX_STEPS} instructions are executed")


def _control(state: _State, pc: int, instr: Instr) -> int:
    """The byte address of the next instruction, after `state` was changed as the front end does.

    StreamError for loops nested too deep or an ENDL without LOOP.
    """
    following = pc + BYTES
    if instr.name in _SLOTS:
        state.set_slot(instr, pc)
    elif instr.name == "SETA":
        state.set_registers(instr)
    elif instr.name == "LOOP":
        if len(state.loops) == MAX_LOOPS:
            raise StreamError(Fault.LOOPS, f"loops are nested {MAX_LOOPS + 1} deep", f"0x{pc:x}")
        state.loops.append(_Loop(following, instr["count"]))
    elif instr.name == "ENDL":
        if not state.loops:
            raise StreamError(Fault.LOOPS, "ENDL without LOOP", f"0x{pc:x}")
        # The end of a pass moves the registers on to the addresses of the next one.
        state.set_registers(instr)
        state.loops[-1].left -= 1
        if state.loops[-1].left:
            return state.loops[-1].begin
        state.loops.pop()
    return following
