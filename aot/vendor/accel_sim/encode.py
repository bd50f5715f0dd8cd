# SPDX-License-Identifier: Apache-2.0
"""Instructions as records, and as 16 bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aot.vendor import BackendError
from aot.vendor.accel_sim.isa import (
    BY_NAME,
    BY_OPCODE,
    BYTES,
    COMMON,
    Field,
    Instruction,
    used_bits,
)
from aot.vendor.accel_sim.kinds import Alu, DType, Fault, Mem

Words = tuple[int, int, int, int]
_COMMON = {f.name: f for f in COMMON}
#: Tables of 256 quantised values in the LUT memory.
TABLES = 4
_TAIL = ("dtype", "wait", "signal", "r1", "r2", "r3")


class StreamError(BackendError):
    """An instruction that the machine would refuse; `fault` says how."""

    def __init__(self, fault: Fault, what: str, where: str = "") -> None:
        """An error with the fault that the machine would report; `what` and `where` are for the
        message.
        """
        super().__init__(what, where)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction; `values` follows the order of the table's fields, unnamed ones included."""

    row: Instruction
    values: tuple[int, ...]
    dtype: int = 0
    wait: int = 0
    signal: int = 0
    r1: int = 0
    r2: int = 0
    r3: int = 0

    @property
    def name(self) -> str:
        """The mnemonic."""
        return self.row.name

    @property
    def fields(self) -> dict[str, int]:
        """The values of the instruction's own fields by name, without dtype, tokens and
        registers.
        """
        return {f.name: v for f, v in zip(self.row.fields, self.values, strict=True)}

    def __getitem__(self, field: str) -> int:
        """The value of the instruction's own field `field`; KeyError if it has no such field."""
        return self.fields[field]

    @property
    def tail(self) -> dict[str, int]:
        """The values of the fields that all instructions have, by name: dtype, wait, signal, r1,
        r2, r3.
        """
        return {name: getattr(self, name) for name in _TAIL}


def instr(name: str, fields: Mapping[str, int], **more: int) -> Instr:
    """An instruction from the values of its fields, own and common ones (dtype, wait, signal, r1,
    r2, r3); raises StreamError if one does not fit.
    """
    row = BY_NAME.get(name)
    if row is None:
        raise StreamError(Fault.OPCODE, f"no instruction is called {name!r}")
    given = {**fields, **more}
    unknown = given.keys() - {f.name for f in row.fields} - set(_TAIL)
    if unknown:
        raise StreamError(Fault.FIELD, f"{name} has no field {min(unknown)!r}")
    found = [_value(name, f, given) for f in (*row.fields, *(_COMMON[k] for k in _TAIL))]
    return check(Instr(row, tuple(found[: len(row.fields)]), *found[len(row.fields) :]))


def _value(name: str, field_: Field, given: Mapping[str, int]) -> int:
    """The value that `given` has for a field of the instruction `name`, or the field's default.

    StreamError if a field without default is missing, or a value is outside of the field's range.
    """
    value, (low, high) = given.get(field_.name, field_.default), field_.range
    if value is None:
        raise StreamError(Fault.FIELD, f"{name}: {field_.name} is missing")
    value = int(value)
    if not low <= value <= high:
        raise StreamError(
            Fault.FIELD, f"{name}: {field_.name} is {value} (needs {low} to {high}): {field_.text}"
        )
    return value


def check(instr: Instr) -> Instr:
    """`instr`, if its fields have values that ISA and unit allow; StreamError if one has not."""
    if not instr.row.queued and (instr.wait or instr.signal or instr.dtype):
        raise StreamError(Fault.RESERVED, f"{instr.name} has no dtype, wait or signal")
    if instr.row.queued and (instr.wait | instr.signal) >> instr.row.unit & 1:
        raise StreamError(
            Fault.FIELD, f"{instr.name}: a token between {instr.row.unit.name} and itself"
        )
    if instr.row.queued and instr.dtype not in instr.row.dtypes:
        raise StreamError(Fault.FIELD, f"{instr.name}: dtype {instr.dtype}")
    _check_values(instr, instr.dtype == DType.F32)
    return instr


def _check_values(instr: Instr, f32: bool) -> None:
    """Raise StreamError for values that fit their field but have no meaning for this instruction.

    `f32` says that the elements are float32, for which some operations do not exist.
    """
    wrong = ""
    if instr.name == "LDL":
        if instr["mem"] > Mem.LUT or (instr["packed"] and instr["mem"] != Mem.WGT):
            wrong = f"mem {instr['mem']}, packed {instr['packed']}"
    elif instr.name == "ALU":
        if instr["op"] > Alu.SOFTMAX or (f32 and instr["op"] in (Alu.LUT, Alu.SOFTMAX)):
            wrong = f"op {instr['op']}"
    elif instr.name == "DRAIN":
        if instr["lut"] > TABLES or (f32 and instr["lut"]):
            wrong = f"lut {instr['lut']}"
    elif instr.name in ("MM", "DW") and f32 and instr["at"] % 4:
        wrong = f"at {instr['at']}"
    if wrong:
        raise StreamError(Fault.FIELD, f"{instr.name}: {wrong} does not exist for this dtype")


def encode(instr: Instr) -> bytes:
    """The 16 bytes of an instruction: four little-endian words of 32 bits."""
    words = [instr.row.opcode, 0, 0, 0]
    for name, value in instr.tail.items():
        words[0] |= _COMMON[name].pack(value)
    for f, value in zip(instr.row.fields, instr.values, strict=True):
        words[f.word] |= f.pack(value)
    return struct.pack("<4I", *words)


def words_of(data: bytes, at: int = 0) -> Words:
    """The four 32-bit words of the instruction at byte `at` of `data`."""
    a, b, c, d = struct.unpack_from("<4I", data, at)
    return a, b, c, d


def decode_words(words: Words) -> Instr:
    """The instruction that the four `words` are; raises StreamError as the machine would fault.

    Faults are an unknown opcode, reserved bits that are set, and values without meaning.
    """
    row = BY_OPCODE.get(words[0] & 63)
    if row is None:
        raise StreamError(Fault.OPCODE, f"opcode 0x{words[0] & 63:02x} does not exist")
    for n, (word, used) in enumerate(zip(words, used_bits(row), strict=True)):
        if word & ~used:
            raise StreamError(
                Fault.RESERVED, f"{row.name}: reserved bits 0x{word & ~used:08x} of word {n}"
            )
    tail = {name: _COMMON[name].unpack(words[0]) for name in _TAIL}
    if not row.queued:
        tail.update(dtype=0, wait=0, signal=0)
    values = tuple(f.unpack(words[f.word]) for f in row.fields)
    return check(Instr(row, values, **tail))


def moved(words: Words, registers: list[int]) -> Words:
    """The four `words` with the values of address registers added to words 1 to 3, modulo 2^32.

    Word 0 names the three registers; `registers` holds their values by number.
    """
    first = words[0]
    add = [registers[(first >> shift) & 7] for shift in (16, 19, 22)]
    a, b, c = ((word + more) & 0xFFFFFFFF for word, more in zip(words[1:], add, strict=True))
    return first, a, b, c


def encode_all(program: Iterable[Instr]) -> bytes:
    """The bytes of a command stream, 16 per instruction."""
    return b"".join(encode(i) for i in program)


def decode_all(stream: bytes) -> list[Instr]:
    """Every instruction of a stream, as written (no address registers added).

    Raises StreamError, with the place, for the first one that is no instruction.
    """
    if len(stream) % BYTES:
        raise StreamError(Fault.STREAM, f"{len(stream)} bytes are no whole instructions")
    found = []
    for at in range(0, len(stream), BYTES):
        try:
            found.append(decode_words(words_of(stream, at)))
        except StreamError as error:
            raise StreamError(error.fault, error.what, f"the stream at 0x{at:x}") from error
    return found
