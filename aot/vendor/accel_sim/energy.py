# SPDX-License-Identifier: Apache-2.0
"""Energy of a program: products and bytes, each times a documented constant.

The constants are orders of magnitude for a 45 nm process and an external flash, rounded; only their
ratios matter to decisions. Picojoules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.frontend import Step
from aot.vendor.accel_sim.isa import BYTES
from aot.vendor.accel_sim.kinds import Alu, Mem, Unit
from aot.vendor.accel_sim.timing import Region, macs

#: Picojoules per product (with its sum), of bytes or of floats, and per byte of each memory.
COSTS = {
    "products": 0.3,
    "float_products": 4.6,
    "spm": 1.2,
    "wgt": 1.2,
    "acc": 0.8,
    "prm": 0.6,
    "sram": 6.0,
    "flash": 60.0,
}


class Traffic(Counter[str]):
    """Products, and bytes read or written per memory, by the names of COSTS."""

    def energy(self) -> float:
        """The energy of the products and bytes that were counted, in picojoules."""
        return sum(count * COSTS[name] for name, count in self.items())

    def system(self, region: Region, size: int) -> None:
        """Count `size` bytes that are read or written in a region: as flash or as SRAM."""
        self["flash" if region.flash else "sram"] += size

    def add(self, step: Step, c: Config, regions: Sequence[Region]) -> None:
        """Count the products and bytes of one executed instruction, and the bytes of fetching it.

        `regions` are the memory regions by number; region 0 holds the commands.
        """
        # Every instruction is fetched, also one that does nothing more than change the front end.
        self.system(regions[0], BYTES)
        f, name = step.f, step.i.name
        if step.unit is Unit.FE:
            return
        if name in ("LD", "ST"):
            size = f["rows"] * f["cols"] * f["ch"] * step.size
            self.system(regions[f["region"]], size)
            self["spm"] += size
        elif name == "LDL":
            self.system(regions[f["region"]], f["packed"] or f["bytes"])
            which = {Mem.SPM: "spm", Mem.WGT: "wgt", Mem.PRM: "prm", Mem.LUT: "prm"}[Mem(f["mem"])]
            self[which] += f["bytes"]
        elif name in ("MM", "DW"):
            self._product(step, c)
        else:
            self._vector(step, c)

    def _product(self, step: Step, c: Config) -> None:
        """Count the products of MM or DW, and the bytes of pixels, weights and sums they touch.

        Every pass over the array's rows reads and writes each sum; only the first pass need not
        read it.
        """
        pixels, tiles, k = step.f["rows"] * step.f["cols"], step.f["tiles"], step.kern
        self["float_products" if step.size == 4 else "products"] += macs(step, c)
        deep = k.taps * (k.ci if step.i.name == "MM" else 1)
        columns = 1 if step.i.name == "MM" else c.lanes(step.size)
        self["spm"] += pixels * tiles * deep * columns * step.size
        self["wgt"] += tiles * deep * c.m
        passes = -(-deep // c.depth(step.size))
        self["acc"] += (2 * passes - 1 + step.f["add"]) * pixels * tiles * c.lanes(step.size) * 4

    def _vector(self, step: Step, c: Config) -> None:
        """Count the bytes of DRAIN, POOL or ALU: operands and result in SPM, sums and
        parameters.
        """
        f, name = step.f, step.i.name
        # Sums are int32 or float32; a channel's parameters are bias, multiplier (4 bytes each) and
        # shift (1).
        size = f["rows"] * f["cols"] * f["ch"] * step.size
        if name == "DRAIN":
            self["acc"] += f["rows"] * f["cols"] * f["ch"] * 4
            self["prm"] += f["ch"] * 9
            self["spm"] += size * (1 + f["res"])
        elif name == "POOL":
            self["spm"] += size * (1 + step.kern.taps)
        else:
            two = f["op"] in (Alu.ADD, Alu.MUL, Alu.MAX, Alu.MIN)
            self["spm"] += size * (1 if f["op"] == Alu.FILL else 3 if two else 2)


def traffic(steps: Iterable[Step], c: Config, regions: Sequence[Region]) -> Traffic:
    """The products and bytes of all executed instructions `steps` together."""
    found = Traffic(dict.fromkeys(COSTS, 0))
    for step in steps:
        found.add(step, c, regions)
    return found
