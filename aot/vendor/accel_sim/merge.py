# SPDX-License-Identifier: Apache-2.0
"""One program order from two lists: loads go among the items as early as it costs nothing.

The front end hands instructions out in order and waits when a queue is full; so a load too early
keeps the other units waiting, and one too late its unit. The merge walks the time of the machine
and places a load whenever the queue of LD has room for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from aot.errors import InternalError
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.isa import BYTES
from aot.vendor.accel_sim.kinds import Unit
from aot.vendor.accel_sim.nodes import LANES, LDL, Node
from aot.vendor.accel_sim.slots import Slots

UNITS = (Unit.LD, Unit.EX, Unit.VX, Unit.ST)


@dataclass(frozen=True, slots=True)
class Policy:
    """`horizon`: cycles of work that LD may have before it; `ahead`: loads not yet used."""

    horizon: int = 1 << 30
    ahead: int = 12


@dataclass(slots=True)
class _Time:
    """The machine's clocks while nodes are appended."""

    c: Config
    flash: bool
    slots: Slots = field(default_factory=Slots)
    now: int = 0
    fetched: int = 0
    issued: deque[int] = field(default_factory=deque)
    free: list[int] = field(default_factory=lambda: [0] * 4)
    queues: list[deque[int]] = field(default_factory=lambda: [deque() for _ in UNITS])
    ends: list[list[int]] = field(default_factory=lambda: [[0] for _ in range(LANES)])

    def _issue(self) -> int:
        if not self.issued:
            self.fetched = self.c.latency(self.flash)
        room = self.issued.popleft() if len(self.issued) == self.c.prefetch else 0
        self.fetched = max(self.fetched, room) + -(-BYTES // self.c.rate(self.flash))
        return max(self.fetched, self.now)

    def _issued(self, at: int) -> None:
        self.issued.append(at)
        self.now = at + 1

    def opening(self, unit: Unit) -> int:
        """When the queue of a unit has room."""
        queue = self.queues[unit]
        return queue[0] if len(queue) == self.c.queue else 0

    def append(self, node: Node) -> None:
        """The next instruction of the program."""
        for _ in self.slots.place(node.item)[1]:
            self._issued(self._issue())
        at, unit = self._issue(), node.unit
        queue = self.queues[unit]
        at = max(at, queue.popleft() if len(queue) == self.c.queue else 0)
        ready = max(self.ends[lane][count] for lane, count in enumerate(node.needs))
        end = max(at, self.free[unit], ready) + node.cycles
        self.free[unit] = end
        queue.append(end)
        self.ends[node.lane].append(end)
        self._issued(at)


def merge(
    c: Config, flash: bool, items: Sequence[Node], loads: Sequence[Node], policy: Policy
) -> tuple[list[Node], int]:
    """(all nodes in an order that their needs allow, the cycle the last one ends)."""
    time, out = _Time(c, flash), list[Node]()
    counts, uses = [0] * LANES, _uses(items, loads)
    item, load = 0, 0
    while item < len(items) or load < len(loads):
        forced = item == len(items) or items[item].needs[LDL] > load
        if load < len(loads) and _met(loads[load], counts):
            unused = sum(1 for u in uses[max(0, load - 16) : load] if u >= item)
            blocked = 0 if item == len(items) else time.opening(items[item].unit)
            start = max(time.now, blocked)
            room = time.opening(Unit.LD) <= time.now + 1
            near = time.free[Unit.LD] <= start + policy.horizon
            if forced or (room and near and unused < policy.ahead):
                time.append(loads[load])
                out.append(loads[load])
                counts[LDL] += 1
                load += 1
                continue
        if forced:
            raise InternalError("accel_sim: a load waits for an item that needs it")
        time.append(items[item])
        out.append(items[item])
        counts[items[item].lane] += 1
        item += 1
    return out, max(time.free)


def _met(node: Node, counts: Sequence[int]) -> bool:
    return all(need <= count for need, count in zip(node.needs, counts, strict=True))


def _uses(items: Sequence[Node], loads: Sequence[Node]) -> list[int]:
    """The item that uses each load first."""
    found = [len(items)] * len(loads)
    for number, node in reversed(list(enumerate(items))):
        if node.needs[LDL]:
            found[node.needs[LDL] - 1] = number
    for n in range(len(loads) - 2, -1, -1):
        found[n] = min(found[n], found[n + 1])
    return found
