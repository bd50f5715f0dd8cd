# SPDX-License-Identifier: Apache-2.0
"""One program order from two lists: loads go among the items as early as it costs nothing.

The front end hands instructions out in order and waits when a queue is full; so a load too early
keeps the other units waiting, and one too late its unit. The merge walks the time of the machine
and places a load whenever the queue of LD has room for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aot.vendor import InternalError
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.kinds import Unit
from aot.vendor.accel_sim.nodes import LANES, LD, LDL, LDP, Node
from aot.vendor.accel_sim.slots import Slots
from aot.vendor.accel_sim.timing import FrontEnd

#: Items ahead in which an LD counts as coming soon.
SOON = 12


@dataclass(frozen=True, slots=True)
class Policy:
    """`horizon`: cycles of work that LD may have before it (`polite`: when an LD of the items comes
    soon); `ahead`: loads not yet used; `late`: cycles that a load may come late for another."""

    horizon: int = 1 << 30
    ahead: int = 12
    polite: int = 400
    late: int = 300


@dataclass(slots=True)
class _Time(FrontEnd):
    """The machine's clocks while nodes are appended."""

    slots: Slots = field(default_factory=Slots)
    ends: list[list[int]] = field(default_factory=lambda: [[0] for _ in range(LANES)])

    def opening(self, unit: Unit) -> int:
        """The cycle in which the queue of `unit` has room for another instruction; 0 if it
        has now.
        """
        queue = self.queues[unit]
        return queue[0] if len(queue) == self.c.queue else 0

    def ready(self, node: Node) -> int:
        """The cycle in which everything that `node` needs has completed, by nodes appended
        so far.
        """
        return max(self.ends[lane][count] for lane, count in enumerate(node.needs))

    def append(self, node: Node) -> None:
        """Let `node` be the next instruction of the program, behind those that fill its slots.

        The clocks of the front end and of its unit move on.
        """
        for _ in self.slots.place(node.item)[1]:
            self.issue(self.fetch())
        at, unit = self.fetch(), node.unit
        queue = self.queues[unit]
        at = max(at, queue.popleft() if len(queue) == self.c.queue else 0)
        end = max(at, self.free[unit], self.ready(node)) + node.cycles
        self.free[unit] = end
        queue.append(end)
        self.ends[node.lane].append(end)
        self.issue(at)


class _Loads:
    """The loads of one lane: which is next, and who uses each first."""

    def __init__(self, lane: int, items: Sequence[Node], loads: Sequence[Node]) -> None:
        """The loads of `lane` in order, and the item that uses each first; no load is
        placed yet.
        """
        self.lane, self.nodes = lane, [x for x in loads if x.lane == lane]
        self.at, self.uses = 0, _uses(items, len(self.nodes), lane)

    @property
    def next(self) -> Node | None:
        """The next load that is not placed yet; None if all are."""
        return self.nodes[self.at] if self.at < len(self.nodes) else None

    def use(self) -> int:
        """The number of the item that needs the next load first."""
        return self.uses[self.at]

    def unused(self, item: int) -> int:
        """How many of the last 16 placed loads no item before `item` has used."""
        return sum(1 for u in self.uses[max(0, self.at - 16) : self.at] if u >= item)


def merge(
    c: Config, flash: bool, items: Sequence[Node], loads: Sequence[Node], policy: Policy
) -> tuple[list[Node], int]:
    """(all nodes in an order that their needs allow, the cycle the last one ends)."""
    time, out = _Time(c, flash), list[Node]()
    counts = [0] * LANES
    # Weights and other constants fill memories of their own, so they may overtake each other.
    lanes = [_Loads(lane, items, loads) for lane in (LDL, LDP)]
    item = 0
    while item < len(items) or any(x.next for x in lanes):
        chosen = _choose(time, items, item, lanes, counts, policy)
        if chosen is None:
            node = items[item]
            item += 1
        else:
            node = chosen.nodes[chosen.at]
            chosen.at += 1
        time.append(node)
        out.append(node)
        counts[node.lane] += 1
    return out, max(time.free)


def _choose(
    time: _Time,
    items: Sequence[Node],
    item: int,
    lanes: Sequence[_Loads],
    counts: Sequence[int],
    policy: Policy,
) -> _Loads | None:
    """The lane whose next load comes now, or None if the next item does.

    A load that the next item waits for comes first, unless a load of the other lane fits before it
    without delay. Otherwise a load is placed early where LD has room. `counts` are the nodes placed
    per lane, `item` the number of the next item. InternalError if a load waits for an item that
    needs it.
    """
    ended = item == len(items)
    waiting = sorted((x for x in lanes if x.next), key=lambda x: x.use())
    ready = [x for x in waiting if x.next is not None and _met(x.next, counts)]
    unmet = [x for x in waiting if ended or items[item].needs[x.lane] > x.at]
    if unmet:
        first = next((x for x in ready if x in unmet), None)
        # Nobody would ever place that load, and the caller's loop would never end.
        if first is None or first.next is None:
            raise InternalError("accel_sim: a load waits for an item that needs it")
        begin = time.ready(first.next)
        others = [x for x in ready if x is not first and x.next is not None]
        for x in others if not ended and _ahead(lanes, item) < policy.ahead else []:
            free = time.free[Unit.LD]
            node = x.next
            # LD is idle until the needed load can begin: the gap takes a load that delays it by
            # little.
            if node and time.ready(node) <= free and free + node.cycles <= begin + policy.late:
                return x
        return first
    if not ready or not _room(time, items, item, policy):
        return None
    start = max(time.now, time.opening(items[item].unit), time.free[Unit.LD])
    for x in ready:
        if (
            x.next is not None
            and time.ready(x.next) <= start
            and _ahead(lanes, item) < policy.ahead
        ):
            return x
    return None


def _ahead(lanes: Sequence[_Loads], item: int) -> int:
    """Loads that no item before `item` has used."""
    return sum(x.unused(item) for x in lanes)


def _room(time: _Time, items: Sequence[Node], item: int, policy: Policy) -> bool:
    """Whether LD may get a load now that no item waits for yet: its queue has room and little to
    do.
    """
    if time.opening(Unit.LD) > time.now + 1:
        return False
    start = max(time.now, time.opening(items[item].unit))
    # Rows that an item loads soon should not wait behind weights of a much later layer.
    soon = any(x.lane == LD for x in items[item : item + SOON])
    horizon = min(policy.horizon, policy.polite) if soon else policy.horizon
    if items[item].lane == LD and time.ready(items[item]) <= start:
        return False
    return time.free[Unit.LD] <= start + horizon


def _met(node: Node, counts: Sequence[int]) -> bool:
    """Whether as many nodes of each lane are placed (`counts`) as `node` needs."""
    return all(need <= count for need, count in zip(node.needs, counts, strict=True))


def _uses(items: Sequence[Node], count: int, lane: int) -> list[int]:
    """The number of the item that first uses each of `count` loads of a lane, or a load behind it.

    Loads of a lane keep their order, so a load must come no later than the ones behind it.
    """
    found = [len(items)] * count
    for number, node in reversed(list(enumerate(items))):
        if node.needs[lane]:
            found[node.needs[lane] - 1] = number
    for n in range(count - 2, -1, -1):
        found[n] = min(found[n], found[n + 1])
    return found
