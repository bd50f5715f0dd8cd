# SPDX-License-Identifier: Apache-2.0
"""The list of items that the layers write: sums, loads and views are handed out in its order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.frontend import Strides, View
from aot.vendor.accel_sim.items import Item, Load, view
from aot.vendor.accel_sim.kinds import DType, Mem
from aot.vendor.accel_sim.places import Place, Plan

#: Rows and columns that LD and ST move at once.
SIDE = 1024


@dataclass(frozen=True, slots=True)
class System:
    """Where a tensor lies in the system: strides in bytes of rows, pixels, channels."""

    region: int
    offset: int
    strides: tuple[int, int, int]
    dtype: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """Where a tensor lies in SPM; `ring` rows of it exist (0: all)."""

    base: int
    ring: int = 0


@dataclass(slots=True)
class Builder:
    """Items and loads so far.

    `buffers` says where roots lie, `windows` where streamed tensors pass at the moment. An LDL of
    weights has at least `chunk` bytes where a layer has them, one of parameters takes at most
    1 / `groups` of their memory where the tiling permits.
    """

    c: Config
    plan: Plan
    buffers: dict[int, Buffer] = field(default_factory=dict)
    windows: dict[int, Buffer] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    kept: dict[tuple[int, ...], int] = field(default_factory=dict)
    sums: int = 0
    chunk: int = 1024
    groups: int = 2

    def view(self, index: int, shift: int = 0) -> View:
        """The VIEW of tensor number `index` of the plan in the scratchpad, beginning `shift` bytes
        further.

        A tensor that passes through a ring buffer is dense there; another one has the strides of
        its root. Strides along axes of one element are made regular. The padding value is 0 for
        float32.
        """
        t, p = self.plan.tensors[index], self.plan.places[index]
        if index in self.windows:
            b, pixel = self.windows[index], t.channels * t.itemsize
            p = Place(index, 0, pixel, t.width * pixel)
        else:
            b = self.buffers[p.root]
        return view(
            b.base + p.offset + shift,
            p.pixel if t.width > 1 else t.channels * t.itemsize,
            p.row if t.height > 1 else t.width * p.pixel,
            t.height,
            t.width,
            t.zero if t.itemsize == 1 else 0,
            b.ring,
        )

    def dtype(self, index: int) -> int:
        """The field `dtype` of an instruction on tensor number `index`: float32, else int8 (uint8
        too).
        """
        return DType.F32 if self.plan.tensors[index].dtype == "f32" else DType.I8

    def take_sums(self, rows: int) -> int:
        """Reserve `rows` rows of the memory of sums and return the number of the first; they wrap
        around.
        """
        at = self.sums
        self.sums = (at + rows) % self.c.acc_rows
        return at

    def load(
        self, key: tuple[int, ...], mem: Mem, units: int, data: Callable[[], bytes], record: int = 0
    ) -> int:
        """The number of the load with the key `key`, which is made first unless it is kept from
        before.

        `key` begins with the layer's number. `data` gives the bytes and is called for a new load
        only; `units` are rows of WGT, channels of PRM or tables of LUT; `record` is 1 for
        parameters with a shift.
        """
        if key not in self.kept:
            self.loads.append(Load(key[0], mem, data(), units, record))
            self.kept[key] = len(self.loads) - 1
        return self.kept[key]

    def evict(self, layer: int, mem: Mem | None = None) -> None:
        """Forget the kept loads of a layer, so that its next use makes new ones; those into `mem`
        only if given.
        """
        for key in [k for k in self.kept if k[0] == layer]:
            if mem is None or self.loads[self.kept[key]].mem is mem:
                del self.kept[key]

    def emit(self, item: Item) -> Item:
        """Append `item` to the main list and return it; each load that it uses is now in use up to
        here.
        """
        at = len(self.items)
        self.items.append(item)
        for number, _, _ in item.uses:
            load = self.loads[number]
            load.first = at if load.first < 0 else load.first
            load.last = at
        return item

    def move(
        self,
        name: str,
        layer: int,
        index: int,
        source: System,
        first: int,
        last: int,
    ) -> None:
        """Emit LD or ST of rows `first` to `last` - 1 of a tensor, in pieces that the fields hold.

        `index` is the tensor in the plan, whose view in SPM is used; `source` tells where it lies
        in the system (region, bytes, strides in bytes). A piece has at most SIDE rows and SIDE
        columns and all channels. Strides along axes of one element are made regular ones.
        """
        t = self.plan.tensors[index]
        row, pixel, channel = source.strides
        if t.height == 1:
            row = t.width * pixel
        if t.width == 1:
            pixel = t.channels * channel
        for y in range(first, last, SIDE):
            for x in range(0, t.width, SIDE):
                fields = {
                    "region": source.region, "offset": source.offset + y * row + x * pixel,
                    "y": y, "x": x, "rows": min(SIDE, last - y), "cols": min(SIDE, t.width - x),
                    "ch": t.channels,
                }  # fmt: skip
                strides = Strides(row, pixel, channel, 0)
                self.emit(
                    Item(name, layer, fields, source.dtype, view=self.view(index), strides=strides)
                )
