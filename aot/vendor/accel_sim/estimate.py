# SPDX-License-Identifier: Apache-2.0
"""When every instruction starts and ends, as the simulator has it, without computing anything."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.encode import StreamError
from aot.vendor.accel_sim.frontend import Step, expand
from aot.vendor.accel_sim.kinds import UNITS, Fault, Unit
from aot.vendor.accel_sim.pack import zero_blocks
from aot.vendor.accel_sim.timing import FrontEnd, Region, cycles, macs


@dataclass(frozen=True, slots=True)
class Span:
    """One instruction in time: dispatched, started, completed; `waited` on tokens of `on` (-1)."""

    pc: int
    unit: Unit
    name: str
    dispatched: int
    start: int
    end: int
    waited: int
    on: int


@dataclass(slots=True)
class Timeline:
    """`total` cycles, and per unit busy cycles and cycles lost waiting for tokens."""

    total: int = 0
    macs: int = 0
    busy: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    stalled: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    spans: list[Span] = field(default_factory=list)


@dataclass(slots=True)
class _Clock(FrontEnd):
    """Times of the front end and the units while a program is walked in order."""

    tokens: dict[tuple[int, int], deque[int]] = field(default_factory=dict)

    def taken(self, unit: int, mask: int) -> tuple[int, int]:
        """(cycle, unit) of the last of the tokens that an instruction of `unit` takes from units in
        `mask`.

        The tokens are removed; (0, -1) if none is needed. Raises StreamError if no instruction
        before this one gives such a token.
        """
        latest, producer = 0, -1
        for p in UNITS:
            if mask >> p & 1:
                waiting = self.tokens.get((p, unit))
                if not waiting:
                    raise StreamError(
                        Fault.DEADLOCK,
                        f"{UNITS[unit].name} waits for a token of {p.name} that "
                        "no earlier instruction gives",
                    )
                when = waiting.popleft()
                latest, producer = (when, p) if when > latest else (latest, producer)
        return latest, producer


def estimate(
    stream: bytes,
    c: Config,
    regions: Sequence[Region],
    data: Sequence[bytes] = (),
    entry: int = 0,
) -> Timeline:
    """The timeline, in cycles, of a program whose tokens are all given before they are taken.

    `data` are the bytes of the regions, needed where compressed weights are (their zeros count);
    region 0 holds the stream, which begins at byte `entry`. Raises StreamError as the machine
    faults.
    """
    t, clock = Timeline(), _Clock(c, regions[0].flash)
    for step in expand(stream, entry):
        at = clock.fetch()
        if step.unit is Unit.FE:
            name = step.i.name
            mask = {"FENCE": step.f.get("units", 0), "HALT": 15}.get(name, 0)
            at = max([at, *(clock.free[u] for u in UNITS if mask >> u & 1)])
        else:
            queue = clock.queues[step.unit]
            at = max(at, queue.popleft() if len(queue) == c.queue else 0)
            _run(t, clock, step, at, _cost(step, c, regions, data))
        clock.issue(at)
    t.total = clock.now
    return t


def _cost(step: Step, c: Config, regions: Sequence[Region], data: Sequence[bytes]) -> int:
    """The cycles that an instruction keeps its unit busy, blocks of zeros in compressed weights
    counted.
    """
    zeros = 0
    if step.i.name == "LDL" and step.f["packed"]:
        from_ = step.f["offset"]
        source = data[step.f["region"]][from_ : from_ + step.f["packed"]]
        zeros = zero_blocks(source, step.f["bytes"])
    return cycles(step, c, regions, zeros)


def _run(timeline: Timeline, clock: _Clock, step: Step, at: int, cost: int) -> None:
    """Run one instruction on its unit: it is dispatched in cycle `at` and takes `cost` cycles.

    It starts when its unit is free and its tokens are there; its end gives tokens to other units.
    `timeline` and `clock` are changed.
    """
    unit = step.unit
    ready = max(at, clock.free[unit])
    token, on = clock.taken(unit, step.i.wait)
    start = max(ready, token)
    end = start + cost
    clock.free[unit] = end
    clock.queues[unit].append(end)
    # Tokens go out at the end of an instruction: before it, its results are not complete.
    for consumer in UNITS:
        if step.i.signal >> consumer & 1:
            clock.tokens.setdefault((unit, consumer), deque()).append(end)
    timeline.busy[unit] += cost
    timeline.stalled[unit] += start - ready
    timeline.macs += macs(step, clock.c)
    span = Span(
        step.pc, unit, step.i.name, at, start, end, start - ready, on if start > ready else -1
    )
    timeline.spans.append(span)
