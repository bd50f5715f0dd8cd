# SPDX-License-Identifier: Apache-2.0
"""The verifier accepts what is safe, and rejects or proves harmless every change of a token."""

from __future__ import annotations

import dataclasses
import itertools
import json

import pytest
from accel_harness import Simulator
from accel_interpreter import Machine
from accel_pipeline import conv
from accel_programs import Racy

from aot.errors import InternalError
from aot.vendor.accel_sim.config import config
from aot.vendor.accel_sim.encode import StreamError, encode_all
from aot.vendor.accel_sim.energy import traffic
from aot.vendor.accel_sim.estimate import estimate
from aot.vendor.accel_sim.frontend import expand
from aot.vendor.accel_sim.kinds import Fault
from aot.vendor.accel_sim.performance import perfetto
from aot.vendor.accel_sim.program import EX, LD, VX, Program
from aot.vendor.accel_sim.timing import Region
from aot.vendor.accel_sim.verify import prove, verify

EVERY = (64, 256, 512)
RW = Region(4096, writable=True)


@pytest.mark.parametrize("macs", EVERY)
def test_pipeline(macs):
    c = config(macs)
    p, regions, kinds = conv(c)
    assert prove(p.bytes(), c, kinds, regions, written={3: []}) == len(p)
    buffers = [bytearray(r) for r in regions]
    Machine(c, buffers, kinds).run()
    simulator = Simulator(macs)
    for seed in range(20):
        found = simulator.run(regions, kinds, seed)
        assert (found.fault, found.status) == (0, 7)
        assert found.regions[3] == bytes(buffers[3])
        t = estimate(p.bytes(), c, kinds)
        if seed == 0:
            assert (t.total, t.busy, t.stalled) == (found.cycles, found.busy, found.stalled)
    assert any(buffers[3])
    assert t.total < sum(t.busy)  # the units overlap


def test_energy_counts_products_and_bytes():
    c = config(256)
    p, regions, kinds = conv(c)
    t = traffic(expand(p.bytes()), c, kinds)
    pixels = 2 * 16 * 6
    assert t["products"] == pixels * 9 * 16 * 16
    assert t["flash"] == p.size + len(regions[1])
    assert t["sram"] == 6 * 4 * 16 * 16 + len(regions[3])
    assert t["wgt"] == 7 * 9 * 256  # loaded once, read by six products
    assert t.energy() > t["flash"] * 60


def test_trace():
    c = config(256)
    p, _, kinds = conv(c)
    t = estimate(p.bytes(), c, kinds)
    events = json.loads(perfetto(t, "net"))["traceEvents"]
    runs = [e for e in events if e.get("cat") == "run"]
    assert len(runs) == 2 + 4 * 6
    assert max(e["ts"] + e["dur"] for e in runs) <= t.total
    waits = [e for e in events if e.get("cat") == "wait"]
    assert sum(e["dur"] for e in waits) == sum(t.stalled) > 0
    for track in range(1, 5):  # a unit does one thing at a time
        own = sorted((e["ts"], e["dur"]) for e in events if e.get("tid") == track and "ts" in e)
        assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(own))


def mutations(p):
    """Every program with one bit of one wait or signal changed."""
    for n, i in enumerate(p.code):
        for which in ("wait", "signal") if i.row.queued else ():
            for unit in range(4):
                if unit != i.row.unit:
                    changed = dataclasses.replace(i, **{which: getattr(i, which) ^ (1 << unit)})
                    yield n, which, unit, encode_all([*p.code[:n], changed, *p.code[n + 1 :]])


def pairs(p):
    """Every program without one token: its giver and its taker both changed."""
    waiting = {}
    for n, i in enumerate(p.code):
        for unit in range(4):
            if i.row.queued and i.wait >> unit & 1:
                giver = waiting[unit, i.row.unit].pop(0)
                code = list(p.code)
                code[giver] = dataclasses.replace(
                    code[giver], signal=code[giver].signal & ~(1 << i.row.unit)
                )
                code[n] = dataclasses.replace(code[n], wait=code[n].wait & ~(1 << unit))
                yield giver, n, encode_all(code)
        for unit in range(4):
            if i.row.queued and i.signal >> unit & 1:
                waiting.setdefault((i.row.unit, unit), []).append(n)


def survives(stream, c, regions, kinds):
    try:
        prove(stream, c, kinds, regions, written={3: []})
    except StreamError:
        return False
    return True


def test_one_token_more_or_less_is_rejected():
    c = config(64)
    p, regions, kinds = conv(c)
    changed = [s for *_, s in mutations(p)]
    assert len(changed) > 100
    assert not any(survives(s, c, regions, kinds) for s in changed)


def test_a_dropped_token_is_rejected_or_harmless():
    c, simulator = config(64), Simulator(64)
    p, regions, kinds = conv(c)
    expected = simulator.run(regions, kinds).regions[3]
    rejected, wrong, accepted = 0, 0, 0
    for _, _, stream in pairs(p):
        runs = [simulator.run([stream, *regions[1:]], kinds, seed) for seed in range(1, 25)]
        differs = any(r.fault or r.regions[3] != expected for r in runs)
        if survives(stream, c, regions, kinds):
            accepted += 1
            assert not differs
        else:
            rejected += 1
            wrong += differs
    assert rejected > 20
    assert wrong > rejected // 2  # the orders that the simulator tries do find the races


REGIONS = (Region(4096, flash=True), RW)


def expect(fault, p, **more):
    with pytest.raises(StreamError) as caught:
        prove(p.halt().bytes(), config(256), REGIONS, **more)
    assert caught.value.fault == fault, caught.value
    return str(caught.value)


def small():
    p = Program().view(slot=0, base=0, pixel=16, row=64, height=4, width=4)
    return p.view(slot=1, base=512, pixel=16, row=64, height=4, width=4).strd(
        row=64, pixel=16, slot=0
    )


def ld(p, **more):
    return p.ld(
        **{"region": 1, "offset": 0, "view": 0, "strides": 0, "rows": 4, "cols": 4, "ch": 16} | more
    )


def copy(p, **more):
    return p.alu(op=0, from_view=0, view=1, rows=4, cols=4, ch=16, **more)


def test_what_is_accepted_does_not_depend_on_the_order():
    c, simulator = config(64), Simulator(64)
    accepted = rejected = raced = 0
    for seed in range(150):
        regions, kinds = Racy(c, seed).program(5)
        runs = [simulator.run(regions, kinds, order) for order in range(6)]
        assert not any(r.fault for r in runs)
        differs = any(r.regions[2:] != runs[0].regions[2:] for r in runs)
        try:
            prove(regions[0], c, kinds, regions)
        except StreamError as error:
            if "may still be" in str(error):
                rejected += 1
                raced += differs
        else:
            accepted += 1
            assert not differs, seed
    assert accepted > 20 and rejected > 20 and raced > 5, (accepted, rejected, raced)


def test_hazards():
    assert "never written" in expect(Fault.LOCAL, copy(small()))
    assert "while it may still be written" in expect(Fault.TOKENS, copy(ld(small())))
    safe = copy(ld(small(), signal=VX), wait=LD)
    assert prove(safe.halt().bytes(), config(256), [RW, RW]) == 6
    over = ld(copy(ld(small(), signal=VX), wait=LD))
    assert "read by VX" in expect(Fault.TOKENS, over)
    fenced = ld(copy(ld(small(), signal=VX), wait=LD).fence())
    assert prove(fenced.halt().bytes(), config(256), [RW, RW]) == 8


def test_tokens():
    assert "no earlier instruction" in expect(Fault.DEADLOCK, ld(small(), wait=EX))
    assert "are left" in expect(Fault.LEFT, ld(small(), signal=EX))
    many = small()
    for _ in range(16):
        ld(many, signal=VX)
    for _ in range(16):
        copy(many, wait=LD)
    assert "more than 15" in expect(Fault.TOKENS, many)


def test_bounds():
    expect(Fault.REGION, ld(small(), offset=4000))
    expect(Fault.REGION, ld(small(), region=5))
    expect(Fault.LOCAL, ld(small(), rows=5))
    expect(Fault.LOCAL, ld(small().view(slot=0, base=65530, pixel=16, row=64, height=4, width=4)))
    expect(Fault.LOCAL, ld(small().view(slot=0, base=0, pixel=8, row=64, height=4, width=4)))
    expect(Fault.FIELD, ld(Program().strd(slot=0, row=1)))
    expect(Fault.FIELD, ld(small(), strides=4))
    store = ld(small(), signal=8).st(
        region=0, offset=0, view=0, strides=0, rows=1, cols=1, ch=1, wait=LD
    )
    expect(Fault.READ_ONLY, store)
    assert "never written" in expect(Fault.LOCAL, ld(small()), written={1: [(0, 100)]})


def test_the_compiler_hears_of_a_bug():
    with pytest.raises(InternalError, match="unsafe command stream"):
        verify(ld(small(), wait=EX).halt().bytes(), config(256), [RW, RW])
