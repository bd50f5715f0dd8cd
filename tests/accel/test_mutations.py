# SPDX-License-Identifier: Apache-2.0
"""Compiled networks with one token more or less: rejected, or the same in any order."""

from __future__ import annotations

import dataclasses
import os
import random

import pytest
from accel_harness import Simulator
from accel_networks import kws, resnet8
from test_compile import put, values_of

from aot.vendor.accel_sim.compile import compile_network
from aot.vendor.accel_sim.config import config
from aot.vendor.accel_sim.encode import StreamError, decode_words, encode_all, words_of
from aot.vendor.accel_sim.frontend import expand
from aot.vendor.accel_sim.isa import BYTES
from aot.vendor.accel_sim.verify import prove

FULL = bool(os.environ.get("AOT_FULL"))
#: Mutants of each kind and network that `make test` tries; AOT_FULL=1 tries all.
SOME = 25
NETWORKS = {"resnet8": resnet8, "kws": kws}


class Subject:
    """A compiled network, its regions, and what it computes."""

    def __init__(self, name: str) -> None:
        network = NETWORKS[name]()
        self.config = config(256)
        made = compile_network(network, self.config)
        self.kinds = made.regions
        inputs = [
            put(network.tensors[n], v) for n, v in zip(made.inputs, values_of(network), strict=True)
        ]
        outputs = [bytes(network.tensors[n].extent) for n in made.outputs]
        self.rest = [made.weights.ljust(16, b"\0"), bytes(made.spill), *inputs, *outputs]
        self.unwritten = {2: [], **{3 + len(inputs) + n: [] for n in range(len(outputs))}}
        self.first = 3 + len(inputs)
        self.stream = made.stream
        self.code = [
            decode_words(words_of(made.stream, at)) for at in range(0, len(made.stream), BYTES)
        ]
        self.simulator = Simulator(256)
        self.expected = self.run(self.stream, 0).regions

    def run(self, stream, seed):
        return self.simulator.run([stream, *self.rest], self.kinds, seed)

    def survives(self, stream):
        try:
            prove(stream, self.config, self.kinds, [stream, self.rest[0]], written=self.unwritten)
        except StreamError:
            return False
        return True

    def differs(self, stream, seeds):
        for seed in seeds:
            found = self.run(stream, seed)
            if found.fault or found.regions[2:] != self.expected[2:]:
                return True
        return False

    def changed(self, *changes):
        """The stream with bits of (index, "wait" or "signal", unit) turned."""
        code = list(self.code)
        for at, which, unit in changes:
            bits = getattr(code[at], which) ^ (1 << unit)
            code[at] = dataclasses.replace(code[at], **{which: bits})
        return encode_all(code)

    def singles(self):
        """One bit of one instruction: a token that nobody gives, or takes."""
        for at, i in enumerate(self.code):
            for which in ("wait", "signal") if i.row.queued else ():
                for unit in range(4):
                    if unit != i.row.unit:
                        yield ((at, which, unit),)

    def pairs(self):
        """One token: who gives it and who takes it."""
        given, found = {}, set()
        for step in expand(self.stream):
            i, at = step.i, step.pc // BYTES
            for unit in range(4):
                if i.row.queued and i.wait >> unit & 1:
                    giver = given[unit, step.unit].pop(0)
                    found.add(((giver, "signal", int(step.unit)), (at, "wait", unit)))
            for unit in range(4):
                if i.row.queued and i.signal >> unit & 1:
                    given.setdefault((step.unit, unit), []).append(at)
        return sorted(found)


@pytest.fixture(scope="module")
def subjects():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aot.vendor.accel_sim.search.BUDGET", 0)
        return {name: Subject(name) for name in NETWORKS}


def sampled(found):
    found = list(found)
    return found if FULL else random.Random(5).sample(found, min(SOME, len(found)))


@pytest.mark.parametrize("name", NETWORKS)
def test_one_end_of_a_token(name, subjects):
    s = subjects[name]
    assert s.survives(s.stream)
    assert not s.differs(s.stream, range(1, 9))
    tried = sampled(s.singles())
    assert len(tried) >= SOME
    for changes in tried:
        assert not s.survives(s.changed(*changes)), changes


@pytest.mark.parametrize("name", NETWORKS)
def test_both_ends_of_a_token(name, subjects):
    s = subjects[name]
    rejected = 0
    for changes in sampled(s.pairs()):
        stream = s.changed(*changes)
        if s.survives(stream):
            assert not s.differs(stream, range(1, 25)), changes
        else:
            rejected += 1
    assert rejected > SOME // 2
