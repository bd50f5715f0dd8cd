# SPDX-License-Identifier: Apache-2.0
"""The C simulator against the NumPy interpreter and the estimator; faults; time; interrupts."""

from __future__ import annotations

import ctypes
import random
import struct

import numpy as np
import pytest
from accel_harness import CTRL, STATUS, Simulator
from accel_interpreter import Machine
from accel_pipeline import conv
from accel_programs import Writer

from aot.vendor.accel_sim.config import config
from aot.vendor.accel_sim.estimate import estimate
from aot.vendor.accel_sim.isa import BY_NAME
from aot.vendor.accel_sim.kinds import Fault
from aot.vendor.accel_sim.program import EX, LD, ST, VX, Program
from aot.vendor.accel_sim.timing import Region

EVERY = (64, 256, 512)


@pytest.mark.parametrize("macs", EVERY)
def test_random_programs(macs):
    c, simulator = config(macs), Simulator(macs, sanitize=True)
    for seed in range(10):
        regions, kinds = Writer(c, seed).program(70)
        buffers = [bytearray(r) for r in regions]
        Machine(c, buffers, kinds).run()
        for order in (0, 1 + seed):
            found = simulator.run(regions, kinds, order)
            assert found.fault == 0, (seed, Fault(found.fault), hex(found.pc))
            assert found.regions == [bytes(b) for b in buffers], seed
        t = estimate(regions[0], c, kinds, regions)
        assert (t.total, t.busy, t.stalled) == (found.cycles, found.busy, found.stalled), seed


def test_random_programs_compute_something():
    c, changed = config(256), 0
    for seed in range(8):
        regions, kinds = Writer(c, seed).program(70)
        found = Simulator(256).run(regions, kinds)
        changed += len(set(found.regions[3])) > 64 and found.regions[2] != regions[2]
    assert changed > 5


def test_loops_are_the_unrolled_program():
    """Four products and drains, row by row: rolled and written out."""
    line = 16 * 8

    def begin():
        p = Program().view(slot=0, base=0, pixel=8, row=line, height=8, width=16)
        p.view(slot=1, base=2048, pixel=8, row=line, height=8, width=16)
        p.kern(slot=0, ci=8).vset0(slot=0, zero=1).strd(slot=0, row=line, pixel=8)
        p.ldl(region=1, offset=0, mem=1, to=0, bytes=64)
        p.ldl(region=1, offset=64, mem=2, to=0, bytes=64, signal=VX)
        return p.ld(region=2, offset=0, view=0, strides=0, rows=8, cols=16, ch=8, signal=EX)

    def body(p, n, r=0, **token):
        p.mm(view=0, kern=0, y=n, rows=2, cols=16, acc=32 * (n // 2), wait=token.get("mm", 0),
             signal=VX, r1=r, r2=2 * r)  # fmt: skip
        p.drain(view=1, y=n, rows=2, cols=16, ch=8, acc=32 * (n // 2),
                wait=EX | token.get("drain", 0), r1=r, r2=3 * r)  # fmt: skip

    def end(p):
        p.fence(units=4)
        return p.st(region=3, offset=0, view=1, strides=0, rows=8, cols=16, ch=8).halt()

    flat, rolled = begin(), begin()
    for n in (0, 2, 4, 6):
        body(flat, n, mm=LD if n == 0 else 0, drain=LD if n == 0 else 0)
    body(rolled, 0, mm=LD, drain=LD)
    product, drain = BY_NAME["MM"], BY_NAME["DRAIN"]
    step = 2 << product.field("y").low
    rolled.seta(r1=1, v1=0, r2=2, v2=0, r3=3, v3=0).loop(count=3)
    body(rolled, 2, r=1)
    rolled.endl(r1=1, s1=step, r2=2, s2=32 << product.field("acc").low, r3=3,
                s3=32 << drain.field("acc").low)  # fmt: skip
    end(flat), end(rolled)
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 256, 64).astype(np.uint8).tobytes()
    weights += struct.pack("<if", 10, 0.01) * 8
    source = rng.integers(0, 256, 8 * line).astype(np.uint8).tobytes()
    results = []
    for p in (flat, rolled):
        kinds = [Region(p.size), Region(len(weights)), Region(8 * line)]
        kinds.append(Region(8 * line, writable=True))
        found = Simulator(64).run([p.bytes(), weights, source, bytes(8 * line)], kinds)
        assert found.fault == 0
        results.append(found.regions[3])
    assert results[0] == results[1]
    assert len(set(results[0])) > 50


def test_products_against_numpy():
    """A convolution computed here, from its definition, without any of the tools."""
    _, regions, kinds = conv(config(256), seed=5)
    found = Simulator(256).run(regions, kinds)
    weights = np.frombuffer(regions[1], np.int8, 9 * 256).reshape(3, 3, 16, 16).astype(np.int64)
    bias, scale = np.frombuffer(regions[1], np.int32, 32, 9 * 256).reshape(16, 2).T
    x = np.frombuffer(regions[2], np.int8).reshape(14, 16, 16).astype(np.int64)
    x = np.pad(x, ((0, 0), (1, 1), (0, 0)), constant_values=3)
    acc = sum(x[ky : ky + 12, kx : kx + 16] @ weights[ky, kx] for ky in range(3) for kx in range(3))
    real = (acc + bias).astype(np.float32) * np.ascontiguousarray(scale).view(np.float32)
    quantised = np.clip(np.rint(real).astype(np.int64), -133, 122) + 5
    assert (np.frombuffer(found.regions[3], np.int8).reshape(12, 16, 16) == quantised).all()


@pytest.mark.parametrize("macs", EVERY)
def test_pieces_of_windows(macs):
    """Dense pixels join a row of taps to one piece, dilation and gaps do not."""
    c, simulator, found = config(macs), Simulator(macs), []
    for pixel, ci, dilation in ((1, 1, 1), (1, 1, 2), (3, 3, 2), (4, 3, 1), (2, 2, 1), (16, 1, 1)):
        p = Program().view(slot=0, base=0, pixel=pixel, row=400, height=20, width=20)
        p.kern(slot=0, kh=5, kw=5, dw=dilation, ci=ci).mm(view=0, kern=0, rows=4, cols=8).halt()
        kinds = [Region(p.size)]
        cycles = simulator.run([p.bytes()], kinds).cycles
        assert cycles == estimate(p.bytes(), c, kinds).total
        found.append(cycles)
    assert found[0] < found[1] == found[5]


def fault(p, regions=None, macs=256, stream=None):
    data = stream or p.bytes()
    kinds = [Region(len(data), flash=True), Region(4096, writable=True), Region(4096)]
    found = Simulator(macs).run([data, bytes(4096), bytes(4096)], kinds)
    return Fault(found.fault), found.pc, found.address


def small():
    p = Program().view(slot=0, base=0, pixel=16, row=64, height=4, width=4)
    return p.strd(slot=0, row=64, pixel=16)


LOAD = {"region": 1, "offset": 0, "view": 0, "strides": 0, "rows": 4, "cols": 4, "ch": 16}


def test_faults():
    at = 0x20
    good = small().ld(**LOAD).halt()
    assert fault(good) == (Fault.NONE, 0x30, 0)
    wrong = bytearray(good.bytes())
    wrong[at] = 0x3F
    assert fault(good, stream=bytes(wrong)) == (Fault.OPCODE, at, 0)
    wrong = bytearray(good.bytes())
    wrong[at + 3] = 0x80
    assert fault(good, stream=bytes(wrong)) == (Fault.RESERVED, at, 0)
    assert fault(good, stream=good.bytes()[:-16]) == (Fault.STREAM, 0x30, 0)
    assert fault(small().ld(**LOAD | {"offset": 3900}).halt()) == (Fault.REGION, at, 4108)
    assert fault(small().ld(**LOAD | {"region": 6}).halt())[:2] == (Fault.REGION, at)
    assert fault(small().ld(**LOAD | {"rows": 5}).halt()) == (Fault.LOCAL, at, 0)
    over = small().view(slot=0, base=65520, pixel=16, row=64, height=4, width=4)
    assert fault(over.ld(**LOAD).halt()) == (Fault.LOCAL, at + 16, 65552)
    assert fault(small().st(**LOAD | {"region": 2}).halt())[:2] == (Fault.READ_ONLY, at)
    assert fault(small().ld(**LOAD, wait=EX).halt())[0] == Fault.DEADLOCK
    assert fault(small().ld(**LOAD, signal=EX).halt())[:2] == (Fault.LEFT, 0x30)
    many = small()
    for _ in range(16):
        many.ld(**LOAD, signal=EX)
    assert fault(many.halt())[:2] == (Fault.TOKENS, at + 15 * 16)
    assert fault(Program().endl().halt()) == (Fault.LOOPS, 0, 0)
    deep = Program()
    for _ in range(5):
        deep.loop(count=2)
    assert fault(deep.halt()) == (Fault.LOOPS, 64, 0)
    alu = bytearray(small().alu(op=8, from_view=0, view=0, rows=1, cols=1, ch=1).halt().bytes())
    alu[at + 8] = (alu[at + 8] & 0xF0) | 9
    assert fault(good, stream=bytes(alu)) == (Fault.FIELD, at, 0)
    packed = small().ldl(region=1, offset=0, mem=1, bytes=64, packed=3).halt()
    assert fault(packed)[:2] == (Fault.PACKED, at)


def test_flipped_bits():
    """Whatever a stream holds: the machine ends or faults, with no undefined behaviour."""
    c, simulator, r = config(64), Simulator(64, sanitize=True), random.Random(4)
    faults = set()
    simulator.stepped(1)
    try:
        for seed in range(80):
            regions, kinds = Writer(c, seed).program(8)
            stream = bytearray(regions[0])
            for _ in range(r.choice((1, 2, 5))):
                stream[r.randrange(len(stream))] ^= 1 << r.randrange(8)
            buffers = [(ctypes.c_uint8 * len(x)).from_buffer_copy(x) for x in regions]
            ctypes.memmove(buffers[0], bytes(stream), len(stream))
            simulator.write(CTRL, 4)
            simulator.set_up(buffers, kinds)
            simulator.write(0xD0, 0)
            simulator.write(CTRL, 1)
            simulator.advance(1 << 32)
            faults.add(simulator.read(STATUS) >> 8 & 255)
            simulator.write(CTRL, 8)
    finally:
        simulator.stepped(0)
    assert {Fault.OPCODE, Fault.RESERVED, Fault.REGION, Fault.LOCAL} <= faults


def test_results_come_in_their_time():
    """Stepped: memory changes when its store completes, the interrupt comes at the end."""
    c, simulator = config(256), Simulator(256)
    p, regions, kinds = conv(c)
    whole = simulator.run(regions, kinds)
    buffers = [(ctypes.c_uint8 * len(r)).from_buffer_copy(r) for r in regions]
    t = estimate(p.bytes(), c, kinds)
    last = max(s.end for s in t.spans if s.name == "ST")
    heard = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda user: heard.append(user))
    simulator.interrupt(callback, None)
    simulator.stepped(1)
    try:
        simulator.write(CTRL, 4)
        simulator.set_up(buffers, kinds)
        simulator.write(0xD0, 0)
        simulator.write(CTRL, 3)
        simulator.advance(last - 1)
        assert simulator.read(STATUS) == 1 and not heard
        assert bytes(buffers[3]) != whole.regions[3]
        simulator.write(0x60, 0)  # ignored: it runs
        simulator.advance(1)
        assert bytes(buffers[3]) == whole.regions[3]
        simulator.advance(t.total - last)
        assert len(heard) == 1
        assert simulator.read(STATUS) == 2 | 8 | 7 << 16
        assert simulator.read(0xA0) == t.total
        simulator.write(0x14, 1)
        assert simulator.read(STATUS) == 2 | 7 << 16
        simulator.write(CTRL, 1)
        simulator.advance(10)
        simulator.write(CTRL, 8)
        assert simulator.read(STATUS) >> 8 & 255 == Fault.ABORTED
    finally:
        simulator.interrupt(None, None)
        simulator.stepped(0)


def test_speed():
    """Far below what it does alone on a machine (some 80 million), to hold on a busy one."""
    import time

    p = Program().view(slot=0, base=0, pixel=16, row=256, height=8, width=16)
    p.kern(slot=0, kh=3, kw=3, ci=16)
    p.ldl(region=1, offset=0, mem=1, to=0, bytes=9 * 256 * 4, signal=EX)
    p.mm(view=0, kern=0, rows=4, cols=16, tiles=4, wait=LD).loop(count=1000)
    p.mm(view=0, kern=0, rows=4, cols=16, tiles=4).endl().halt()
    regions = [p.bytes(), bytes(9 * 256 * 4)]
    begin = time.process_time()
    found = Simulator(256).run(regions, [Region(len(r)) for r in regions])
    assert found.fault == 0
    assert found.cycles / (time.process_time() - begin) > 20e6


def test_masks_are_the_units():
    assert (LD, EX, VX, ST) == (1, 2, 4, 8)
