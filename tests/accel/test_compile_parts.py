# SPDX-License-Identifier: Apache-2.0
"""Parts of the compiler of AX1 on their own: loops, tokens, places, packing, cuts."""

from __future__ import annotations

import numpy as np
import pytest
from accel_networks import Net, kws

from aot.vendor.accel_sim.compile import compile_network
from aot.vendor.accel_sim.config import config
from aot.vendor.accel_sim.encode import StreamError, decode_all, encode_all, instr
from aot.vendor.accel_sim.energy import traffic
from aot.vendor.accel_sim.frontend import expand
from aot.vendor.accel_sim.kinds import Unit
from aot.vendor.accel_sim.loops import roll
from aot.vendor.accel_sim.network import AccelOptions
from aot.vendor.accel_sim.pack import pack, packed_size, unpack, zero_blocks
from aot.vendor.accel_sim.places import resolve
from aot.vendor.accel_sim.scratchpad import Request, allocate
from aot.vendor.accel_sim.verify import prove


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("aot.vendor.accel_sim.search.BUDGET", 0)


def executed(code):
    return [(s.i.name, dict(s.f), s.view, s.kern) for s in expand(encode_all(code))]


def products(rows):
    """MM and DRAIN by turns, `rows` of (y, acc)."""
    code = [instr("VIEW", {"slot": 0, "base": 0, "pixel": 8, "row": 64, "height": 64, "width": 8})]
    for y, acc in rows:
        code.append(instr("MM", {"y": y, "view": 0, "kern": 0, "acc": acc, "rows": 1, "cols": 8}))
        fields = {"y": y, "view": 0, "acc": acc, "rows": 1, "cols": 8, "ch": 8}
        code.append(instr("DRAIN", fields))
    return [*code, instr("HALT", {})]


def unqueued(code):
    return [e for e in executed(code) if e[0] in ("MM", "DRAIN")]


def test_a_loop_executes_what_was_written():
    code = products([(y - 3, 8 * (y % 2)) for y in range(20)])
    rolled = roll(code)
    assert len(rolled) < 15
    strip = [(n, f) for n, f, _, _ in unqueued(code)]
    other = [(n, {k: v for k, v in f.items()}) for n, f, _, _ in unqueued(rolled)]
    assert strip == other


def test_only_whole_repetitions_are_rolled():
    rows = [(0, 0), (1, 8), (2, 24), (5, 0), (11, 8), (13, 64)]
    code = products(rows)
    assert executed(roll(code)) == executed(code)
    assert [i.name for i in roll(code)] == [i.name for i in code]


def test_instructions_of_the_front_end_are_rolled_if_they_are_the_same():
    set_up = instr("KERN", {"slot": 0, "ci": 8})
    code = []
    for y in range(9):
        code += [set_up, instr("MM", {"y": y, "view": 0, "kern": 0, "rows": 1, "cols": 8})]
    rolled = roll([*code, instr("HALT", {})])
    assert [i.name for i in rolled] == ["SETA", "LOOP", "KERN", "MM", "ENDL", "HALT"]
    assert [s.f["y"] for s in expand(encode_all(rolled)) if s.i.name == "MM"] == list(range(9))


def test_a_token_less_or_more_is_rejected():
    """Every bit of wait and signal of a small network is needed, and no other may be there."""
    n = Net(4)
    compiled = compile_network(
        n.network(n.conv(n.conv(n.input(9, 16, 8), 40, 3, 3), 6)), config(64)
    )
    code = decode_all(compiled.stream)
    data = [b"", compiled.weights]
    kinds = compiled.regions
    rejected = 0
    for at, i in enumerate(code):
        if not i.row.queued:
            continue
        for field in ("wait", "signal"):
            for unit in (u for u in Unit if u < 4 and u != i.row.unit):
                words = bytearray(encode_all(code))
                shift = {"wait": 8, "signal": 12}[field] + int(unit)
                words[16 * at + shift // 8] ^= 1 << shift % 8
                with pytest.raises(StreamError):
                    prove(bytes(words), config(64), kinds, data)
                rejected += 1
    assert rejected > 100


def test_intervals_that_meet_do_not_overlap():
    rng = np.random.default_rng(0)
    wanted = []
    for n in range(40):
        first = int(rng.integers(0, 20))
        wanted.append(
            Request((n,), first, first + int(rng.integers(0, 6)), int(rng.integers(1, 99)))
        )
    places, top = allocate(wanted)
    for a in wanted:
        assert places[a.key] + a.size <= top
        for b in wanted:
            if a.key < b.key and a.meets(b):
                x, y = places[a.key], places[b.key]
                assert x + a.size <= y or y + b.size <= x


def test_sharing_memory_costs_nothing():
    n = Net(6)
    x = n.input(4, 4, 8)
    a, b = n.conv(x, 4), n.conv(x, 12)
    c = n.concat("c", a, b)
    d = n.slice(c, (1, 0, 4), (2, 4, 12))
    plan = resolve(n.network(n.conv(d, 3)))
    assert [x.kind for x in plan.layers] == ["conv", "conv", "conv"]
    assert plan.places[a].root == plan.places[b].root == plan.places[c].root == c
    assert plan.places[b].offset == 4 and plan.places[d].offset == 4 * 16 + 4


@pytest.mark.parametrize("spread", [0, 1, 3, 30, 128])
@pytest.mark.parametrize("size", [1, 31, 32, 1000])
def test_packed_weights(spread, size):
    rng = np.random.default_rng(spread)
    quantised = np.clip(np.round(rng.standard_normal(size) * spread), -128, 127).astype(np.int8)
    small = pack(quantised.tobytes())
    assert unpack(small, size) == quantised.tobytes()
    assert packed_size(quantised.tobytes()) == (len(small), zero_blocks(small, size))


def test_weights_that_do_not_stay_are_cut_in_slabs():
    n = Net(8)
    x = n.conv(n.input(30, 30, 16), 130)
    network = n.network(n.conv(x, 140, 1, 1))
    compiled = compile_network(network, config(64), AccelOptions())
    assert any("tiles of channels" in layer.tiling for layer in compiled.layers)
    assert [layer.name for layer in compiled.layers] == [x.name for x in network.layers]
    again = sum(layer.weights for layer in compiled.layers)
    assert again < 2 * len(compiled.weights)


def test_the_stream_of_a_network_is_short_and_busy():
    compiled = compile_network(kws(), config(256), AccelOptions(weights="sram"))
    assert len(compiled.stream) < 2400
    assert max(compiled.timeline.busy) > 0.8 * compiled.cycles


def test_the_objective_energy_saves_energy(monkeypatch):
    monkeypatch.setattr("aot.vendor.accel_sim.search.BUDGET", 4000)
    found = {}
    n = Net(5)
    x = n.conv(n.input(24, 24, 16), 16, 3, 3)
    network = n.network(n.conv(x, 32, 3, 3))
    for objective in ("latency", "energy"):
        c = compile_network(network, config(256), AccelOptions(objective=objective))
        found[objective] = traffic(expand(c.stream), config(256), c.regions).energy(), c
    assert found["energy"][0] < found["latency"][0]
    tilings = [[x.tiling for x in c.layers] for _, c in found.values()]
    assert tilings[0] != tilings[1]
