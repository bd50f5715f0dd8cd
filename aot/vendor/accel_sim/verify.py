# SPDX-License-Identifier: Apache-2.0
"""The proof that a stream is safe, from its final bytes.

Instructions are walked in program order. The k-th token that a unit takes from another is the k-th
that was given, so every instruction knows (as a vector of counts, one per unit) what has completed
before it starts, whatever the timing. Every byte of every memory remembers who wrote it last, and
who read it last per unit; an access is safe if all these are among what has completed. So no order
that the tokens allow computes anything else than program order does.

Tokens must be given before they are taken in program order, which excludes deadlocks; every token
must be taken; at no time, in no order, may more than 15 wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aot.vendor import InternalError
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.effects import Access, accesses, distinct
from aot.vendor.accel_sim.encode import StreamError
from aot.vendor.accel_sim.frontend import Step, expand
from aot.vendor.accel_sim.isa import MAX_TOKENS
from aot.vendor.accel_sim.kinds import UNITS, Alu, Fault, Unit
from aot.vendor.accel_sim.pack import unpack
from aot.vendor.accel_sim.timing import Region

Array = np.ndarray[Any, Any]
Clock = tuple[int, int, int, int]
Ranges = Sequence[tuple[int, int]]


def _join(clock: Clock, b: Clock) -> Clock:
    """The larger count of each unit: what is known by whoever knows both clocks."""
    return max(clock[0], b[0]), max(clock[1], b[1]), max(clock[2], b[2]), max(clock[3], b[3])


@dataclass(slots=True)
class _Bytes:
    """Per element of a memory: last writer (unit, number; 0: from outside; -1: nobody), readers."""

    name: str
    unit: Array
    number: Array
    readers: Array

    @staticmethod
    def of(name: str, size: int, known: bool) -> _Bytes:
        """The record of a memory of `size` elements, none read; `known`: all hold values from
        outside.
        """
        number = np.full(size, 0 if known else -1, np.int64)
        return _Bytes(name, np.zeros(size, np.int8), number, np.zeros((4, size), np.int64))


@dataclass(slots=True)
class _Tokens:
    """Tokens of one unit for another: those waiting, and who took each of the earlier ones."""

    waiting: deque[Clock] = field(default_factory=deque)
    taken: list[int] = field(default_factory=list)
    given: int = 0


@dataclass(slots=True)
class _Proof:
    c: Config
    regions: Sequence[Region]
    data: Sequence[bytes]
    memories: dict[str, _Bytes]
    clocks: list[Clock] = field(default_factory=lambda: [(0, 0, 0, 0)] * 4)
    counts: list[int] = field(default_factory=lambda: [0] * 4)
    fence: Clock = (0, 0, 0, 0)
    tokens: dict[tuple[Unit, Unit], _Tokens] = field(
        default_factory=lambda: {(a, b): _Tokens() for a in UNITS for b in UNITS}
    )

    def fail(self, step: Step, fault: Fault, what: str) -> StreamError:
        """The StreamError that names the instruction, its address and the reason `what`."""
        return StreamError(fault, f"{step.i.name}: {what}", f"the stream at 0x{step.pc:x}")

    # -- tokens -----------------------------------------------------------------------------------

    def started(self, step: Step) -> Clock:
        """The numbers of instructions that have completed before `step` starts, by unit; it takes
        its tokens.

        StreamError if no earlier instruction gives one of the tokens that it waits for.
        """
        unit = step.unit
        clock = _join(self.clocks[unit], self.fence)
        for giver in UNITS:
            if step.i.wait >> giver & 1:
                tokens = self.tokens[giver, unit]
                if not tokens.waiting:
                    raise self.fail(
                        step,
                        Fault.DEADLOCK,
                        f"takes a token of {giver.name} that no earlier instruction gives",
                    )
                clock = _join(clock, tokens.waiting.popleft())
                tokens.taken.append(self.counts[unit] + 1)
        return clock

    def completed(self, step: Step, clock: Clock) -> None:
        """Let `step` complete: it is counted and gives its tokens.

        `clock` is what had completed before it started, by unit.
        """
        unit = step.unit
        self.counts[unit] += 1
        after = tuple(self.counts[u] if u == unit else n for u, n in enumerate(clock))
        self.clocks[unit] = (after[0], after[1], after[2], after[3])
        for taker in UNITS:
            if step.i.signal >> taker & 1:
                self._give(step, taker, clock)

    def _give(self, step: Step, taker: Unit, clock: Clock) -> None:
        """Give a token to the unit `taker`; StreamError if more than MAX_TOKENS could be waiting
        for it.

        That is so unless the giver knows (`clock`) that the token MAX_TOKENS earlier was taken.
        """
        tokens = self.tokens[step.unit, taker]
        old = tokens.given - MAX_TOKENS
        if old >= 0 and (old >= len(tokens.taken) or tokens.taken[old] > clock[taker]):
            raise self.fail(
                step, Fault.TOKENS, f"more than {MAX_TOKENS} tokens may wait for {taker.name}"
            )
        tokens.given += 1
        tokens.waiting.append(self.clocks[step.unit])

    # -- memories ---------------------------------------------------------------------------------

    def memory(self, step: Step, access: Access) -> _Bytes | None:
        """The memory of an access, None if nobody can change it; StreamError if it is read only."""
        if access.memory != "SYS":
            return self.memories[access.memory]
        if access.write and not self.regions[access.region].writable:
            raise self.fail(step, Fault.READ_ONLY, f"writes to region {access.region}")
        return self.memories.get(f"region {access.region}")

    def touch(self, step: Step, access: Access, clock: Clock) -> None:
        """Check an access against all earlier ones.

        Raises StreamError for bytes never written or not ordered by tokens.
        """
        m = self.memory(step, access)
        if m is None or not access.index.size:
            return
        known = np.array(clock, np.int64)
        known[step.unit] = self.counts[step.unit]
        writer = m.number[access.index]
        if not access.write and (writer < 0).any():
            where = int(access.index[np.argmax(writer < 0)])
            raise self.fail(step, Fault.LOCAL, f"reads {m.name} at {where}, never written")
        self._ordered(step, m, access, writer > known[m.unit[access.index]], "written")
        if access.write:
            for unit in UNITS:
                late = m.readers[unit][access.index] > known[unit]
                self._ordered(step, m, access, late, f"read by {unit.name}")

    def _ordered(self, step: Step, m: _Bytes, access: Access, late: Array, what: str) -> None:
        """Raise StreamError if `late` is true for any element of an access.

        `what` says which earlier access may still be going on.
        """
        if late.any():
            verb = "writes" if access.write else "reads"
            where = int(access.index[np.argmax(late)])
            raise self.fail(
                step, Fault.TOKENS, f"{verb} {m.name} at {where} while it may still be {what}"
            )

    def record(self, step: Step, access: Access) -> None:
        """Remember the instruction as the last writer or reader of the elements of an access."""
        m = self.memory(step, access)
        if m is None:
            return
        number = self.counts[step.unit] + 1
        if access.write:
            m.unit[access.index] = step.unit
            m.number[access.index] = number
        else:
            m.readers[step.unit][access.index] = number

    def alone(self, step: Step, found: list[Access]) -> None:
        """Check that a result has no byte twice, and is an operand byte for byte or apart from it.

        Only elementwise instructions may work in place. Raises StreamError where that is not so.
        """
        local = [a for a in found if a.memory == "SPM"]
        out = next((a for a in local if a.write), None)
        if out is None or step.i.name == "LDL":
            return
        if not distinct(step, step.view):
            raise self.fail(step, Fault.LOCAL, "pixels of the result overlap")
        for a in local:
            if a.write or (
                a.index.shape == out.index.shape
                and step.i.name != "POOL"
                and step.f.get("op") != Alu.SOFTMAX
                and (a.index == out.index).all()
            ):
                continue
            # The common case is an operand apart from the result; it is told by two bounds, without
            # a search.
            low, high = int(out.index.min()), int(out.index.max())
            near = a.index[(a.index >= low) & (a.index <= high)]
            if near.size and np.isin(near, out.index).any():
                raise self.fail(step, Fault.LOCAL, "the result overlaps an operand")

    def step(self, step: Step) -> None:
        """Follow one queued instruction; StreamError if it breaks a rule of the ISA."""
        if step.f.get("region", 0) >= len(self.regions):
            raise self.fail(step, Fault.REGION, f"region {step.f['region']} does not exist")
        clock = self.started(step)
        found = accesses(step, self.c, [r.size for r in self.regions])
        if step.i.name == "LDL" and step.f["packed"]:
            self.unpacked(step)
        self.alone(step, found)
        for a in found:
            self.touch(step, a, clock)
        for a in found:
            self.record(step, a)
        self.completed(step, clock)

    def unpacked(self, step: Step) -> None:
        """Raise StreamError if the compressed weights of an LDL are not whole; not checked without
        `data`.
        """
        region, at = step.f["region"], step.f["offset"]
        if region < len(self.data) and self.data[region]:
            unpack(self.data[region][at : at + step.f["packed"]], step.f["bytes"])

    def ended(self, step: Step) -> None:
        """HALT: StreamError if a token was given and never taken."""
        for (giver, taker), tokens in self.tokens.items():
            if tokens.waiting:
                raise self.fail(
                    step,
                    Fault.LEFT,
                    f"{len(tokens.waiting)} tokens of {giver.name} for {taker.name} are left",
                )


def _memories(
    c: Config, regions: Sequence[Region], written: Mapping[int, Ranges] | None
) -> dict[str, _Bytes]:
    """The records of local memories, empty, and of writable regions, by name.

    `written` has the byte ranges of a region that hold values at the start; all, if it is not
    named.
    """
    sizes = {
        "SPM": c.spm, "WGT": c.wgt, "ACC": c.acc_rows * c.m, "PRM": c.prm_channels, "LUT": c.lut
    }  # fmt: skip
    found = {name: _Bytes.of(name, size, False) for name, size in sizes.items()}
    for n, r in enumerate(regions):
        if r.writable:
            ranges = None if written is None else written.get(n)
            memory = _Bytes.of(f"region {n}", r.size, ranges is None)
            for begin, end in ranges or ():
                memory.number[begin:end] = 0
            found[memory.name] = memory
    return found


def prove(
    stream: bytes,
    c: Config,
    regions: Sequence[Region],
    data: Sequence[bytes] = (),
    entry: int = 0,
    written: Mapping[int, Ranges] | None = None,
) -> int:
    """The number of executed instructions of a safe program; StreamError if anything about it is
    unsafe.

    `written` gives for a writable region the ranges of bytes that hold values before the program
    starts (a region that is not named: all). Regions are taken to be disjoint, and local memories
    to be empty when a program starts. `data` are the bytes of the regions, to check compressed
    weights.
    """
    proof = _Proof(c, regions, data, _memories(c, regions, written))
    count = 0
    for step in expand(stream, entry):
        count += 1
        if step.unit is not Unit.FE:
            proof.step(step)
        elif step.i.name == "FENCE":
            for unit in UNITS:
                if step.f["units"] >> unit & 1:
                    proof.fence = _join(proof.fence, proof.clocks[unit])
        elif step.i.name == "HALT":
            proof.ended(step)
    return count


def verify(
    stream: bytes,
    c: Config,
    regions: Sequence[Region],
    data: Sequence[bytes] = (),
    entry: int = 0,
    written: Mapping[int, Ranges] | None = None,
) -> int:
    """Prove a stream of the compiler as `prove` does; InternalError, as a fault is a bug."""
    try:
        return prove(stream, c, regions, data, entry, written)
    except StreamError as error:
        raise InternalError(
            f"accel_sim: an unsafe command stream: {error.what}", error.where
        ) from error
