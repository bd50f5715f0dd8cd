# SPDX-License-Identifier: Apache-2.0
"""What must complete before an item may start, found from the bytes that each touches.

Items of the main list keep their order, loads of a memory theirs; how they are merged is decided
later (`merge.py`). So what an item needs is told by lane: LD of the main list, LDL of weights, EX,
VX, ST, other LDL; the n-th node of a lane needs others by their numbers in their lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.vendor import InternalError
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.effects import accesses
from aot.vendor.accel_sim.items import Item, Load
from aot.vendor.accel_sim.kinds import Mem, Unit
from aot.vendor.accel_sim.timing import Region, cycles, linear_cycles

Array = np.ndarray[Any, Any]
Needs = tuple[int, ...]
#: Four units, of which LD has three lanes: loads of tensors, of weights and of other constants.
LANES = 6
#: Lanes by number: LD, LDL of weights, EX, VX, ST, other LDL; and the unit of each.
LD, LDL, EX, VX, ST, LDP = range(LANES)
UNIT_OF = (Unit.LD, Unit.LD, Unit.EX, Unit.VX, Unit.ST, Unit.LD)
LANE_OF = {Unit.LD: LD, Unit.EX: EX, Unit.VX: VX, Unit.ST: ST}
_WRITERS = {
    "SPM": (LD, VX), "WGT": (LDL,), "ACC": (EX,), "PRM": (LDP,), "LUT": (LDP,), "SYS": (ST,)
}  # fmt: skip
_READERS = {
    "SPM": (EX, VX, ST), "WGT": (EX,), "ACC": (EX, VX), "PRM": (VX,), "LUT": (VX,), "SYS": (LD,)
}  # fmt: skip
#: Regions before this one hold commands and constants, which no instruction writes.
SPILL = 2


@dataclass(slots=True)
class Node:
    """An item or load with its time, its lane, its number there (from 1) and what it needs."""

    item: Item
    lane: int
    number: int
    cycles: int
    needs: Needs
    load: int = -1

    @property
    def unit(self) -> Unit:
        """Who executes it."""
        return UNIT_OF[self.lane]


def ldl(load: Load) -> Item:
    """The LDL instruction of a load; places in tables are bytes, others rows or channels."""
    to = load.at * 256 if load.mem is Mem.LUT else load.at
    fields = {
        "region": 1, "offset": load.offset, "mem": int(load.mem), "to": to,
        "bytes": len(load.data), "packed": load.packed, "record": load.record,
    }  # fmt: skip
    return Item("LDL", load.layer, fields)


class _Memory:
    """The last node of every lane that wrote and that read each element."""

    def __init__(self, name: str, size: int) -> None:
        """A memory of `size` elements that no node has touched: numbers of nodes are 0."""
        self.writes = {lane: np.zeros(size, np.int32) for lane in _WRITERS[name]}
        self.reads = {lane: np.zeros(size, np.int32) for lane in _READERS[name]}


class Tracker:
    """Walks nodes in one legal order and finds the nodes that each one waits for."""

    def __init__(self, c: Config, regions: Sequence[Region]) -> None:
        """Start with no node. Writable memory regions lie behind each other in one memory "SYS".

        `begin` has the first byte of each in it, by region.
        """
        self.c, self.regions = c, regions
        self.sizes = [r.size for r in regions]
        self.begin = {n: sum(self.sizes[SPILL:n]) for n in range(SPILL, len(regions))}
        counts = {
            "SPM": c.spm, "WGT": c.wgt, "ACC": c.acc_rows * c.m, "PRM": c.prm_channels,
            "LUT": c.lut, "SYS": sum(self.sizes[SPILL:]),
        }  # fmt: skip
        self.memories = {name: _Memory(name, size) for name, size in counts.items()}
        self.counts = [0] * LANES

    def add(self, item: Item, load: int = -1, zero_blocks: int = 0) -> Node:
        """The node of `item`, the next one of its lane, and what must complete before it starts.

        Needs are counts by lane: the nodes of a lane have the numbers 1, 2 and so on. `load` is the
        number of the load that an LDL makes (-1: none), `zero_blocks` the blocks of zeros in its
        compressed weights, which cost less. Costs are cycles.
        """
        step = item.stepped()
        lane = LANE_OF[step.unit]
        if load >= 0:
            lane = LDL if item.fields["mem"] == Mem.WGT else LDP
        self.counts[lane] += 1
        needs = [0] * LANES
        # Commands and constants are never written, so nothing has to be ordered with reads of them.
        found = [
            (a.memory, a.index + self.begin.get(a.region, 0), a.write)
            for a in accesses(step, self.c, self.sizes)
            if a.index.size and (a.memory != "SYS" or a.region >= SPILL)
        ]
        for name, index, write in found:
            memory = self.memories[name]
            for other, numbers in memory.writes.items():
                needs[other] = max(needs[other], int(numbers[index].max()))
            if write:
                for other, numbers in memory.reads.items():
                    needs[other] = max(needs[other], int(numbers[index].max()))
        # Noted after all needs are known: an item that reads and writes a byte does not wait for
        # itself.
        for name, index, write in found:
            memory = self.memories[name]
            if write and lane not in memory.writes:
                raise InternalError(f"accel_sim: {item.name} writes {name}")
            (memory.writes if write else memory.reads)[lane][index] = self.counts[lane]
        # The nodes of a lane are executed in order anyway.
        needs[lane] = 0
        if load >= 0 and item.fields["packed"]:
            f = item.fields
            cost = linear_cycles(
                self.c, self.regions[1].flash, f["bytes"], f["packed"], zero_blocks
            )
        else:
            cost = cycles(step, self.c, self.regions)
        return Node(item, lane, self.counts[lane], cost, tuple(needs), load)
