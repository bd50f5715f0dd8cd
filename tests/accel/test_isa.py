# SPDX-License-Identifier: Apache-2.0
"""The table and what is made from it: bytes, text, the C header, the manual."""

from __future__ import annotations

import random

import pytest
from assembler import assemble

from aot.vendor.accel_sim import header, isa, manual
from aot.vendor.accel_sim.asm import disassemble, spell
from aot.vendor.accel_sim.encode import (
    StreamError,
    decode_all,
    decode_words,
    encode,
    encode_all,
    instr,
    words_of,
)
from aot.vendor.accel_sim.kinds import Fault
from aot.vendor.accel_sim.pack import pack, unpack, zero_blocks
from aot.vendor.accel_sim.program import Program


def legal(row, r):
    """A random instruction of a row of the table."""
    while True:
        fields = {f.name: r.choice((*f.range, r.randint(*f.range))) for f in row.fields}
        tail = {}
        if row.queued:
            others = 15 & ~(1 << row.unit)
            tail = {"wait": r.randrange(16) & others, "signal": r.randrange(16) & others}
            tail["dtype"] = r.choice(row.dtypes)
        if row.queued or row.name in ("ENDL", "SETA"):
            tail |= {k: r.randrange(8) for k in ("r1", "r2", "r3")}
        try:
            return instr(row.name, fields, **tail)
        except StreamError:
            continue  # a value that no instruction has, such as ALU operation 15


@pytest.mark.parametrize("row", isa.INSTRUCTIONS, ids=lambda row: row.name)
def test_round_trips(row):
    r = random.Random(row.opcode)
    for _ in range(60):
        i = legal(row, r)
        assert decode_words(words_of(encode(i))) == i
        (again,) = assemble(spell(i))
        assert again == i


def test_fields_do_not_overlap():
    for row in isa.INSTRUCTIONS:
        bits = 0
        for f in (*isa.COMMON, *row.fields):
            if f in isa.COMMON and not row.queued and f.name not in ("op", "r1", "r2", "r3"):
                continue
            mask = ((1 << f.bits) - 1) << (f.low + 32 * f.word)
            assert f.low + f.bits <= 32 and not bits & mask, (row.name, f.name)
            bits |= mask
    assert len(isa.BY_OPCODE) == len(isa.BY_NAME) == len(isa.INSTRUCTIONS)


def test_every_reserved_bit_is_refused():
    r = random.Random(1)
    for row in isa.INSTRUCTIONS:
        words = words_of(encode(legal(row, r)))
        for word, used in enumerate(isa.used_bits(row)):
            for bit in range(32):
                if not used >> bit & 1:
                    wrong = tuple(w | (1 << bit if n == word else 0) for n, w in enumerate(words))
                    with pytest.raises(StreamError) as caught:
                        decode_words(wrong)
                    assert caught.value.fault in (Fault.RESERVED, Fault.OPCODE)


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("MM", {"view": 16}, "MM: view is 16 (needs 0 to 15)"),
        ("MM", {"y": -3000}, "y is -3000 (needs -2048 to 2047)"),
        ("MM", {"colour": 1}, "MM has no field 'colour'"),
        ("LD", {"view": 1}, "LD: region is missing"),
        ("JUMP", {}, "no instruction is called 'JUMP'"),
        ("LDL", {"region": 0, "offset": 0, "mem": 5, "bytes": 4}, "mem 5"),
    ],
)
def test_wrong_fields(name, fields, text):
    known = {"kern": 0, "rows": 1, "cols": 1, "view": 0} if name == "MM" else {}
    with pytest.raises(StreamError) as caught:
        instr(name, {**known, **fields})
    assert text in str(caught.value)


def test_a_listing_is_a_program():
    p = Program().view(slot=1, base=64, pixel=16, row=512, height=32, width=32, pad=-128)
    p.seta(r1=1, v1=0).loop(count=4)
    p.mm(view=1, kern=0, y=-1, x=-1, rows=8, cols=16, dtype=1, r1=1, wait=1, signal=4)
    p.endl(r1=1, s1=8 << 20).halt(status=3)
    text = disassemble(p.bytes())
    assert text.splitlines()[3] == (
        "000030    MM.f32 wait=LD signal=VX y=-1 x=-1 view=1 kern=0 rows=8 cols=16 r1=1"
    )
    assert encode_all(assemble(text + "; a comment\n")) == p.bytes()
    with pytest.raises(StreamError, match="no whole instructions"):
        decode_all(p.bytes()[:-1])


def test_generated_files_are_current():
    assert header.PATH.read_text() == header.text(), "python -m aot.vendor.accel_sim.header"
    assert manual.PATH.read_text() == manual.text(), "python -m aot.vendor.accel_sim.manual"


def test_compression():
    r = random.Random(3)
    for size in (1, 31, 32, 33, 500):
        for spread in (0, 1, 4, 30, 128):
            quantised = [max(-128, min(127, round(r.gauss(0, spread)))) for _ in range(size)]
            raw = bytes(c & 255 for c in quantised)
            packed = pack(raw)
            assert unpack(packed, size) == raw
            assert len(packed) <= size + -(-size // 32) // 2 + 1
            for broken in (packed[:-1], packed + b"\0"):
                with pytest.raises(StreamError):
                    unpack(broken, size)
    assert zero_blocks(pack(bytes(96) + b"\1" * 32), 128) == 3
