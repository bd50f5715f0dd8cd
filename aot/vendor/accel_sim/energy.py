# SPDX-License-Identifier: Apache-2.0
"""Energy of a program: products and bytes, each times a documented constant.

The constants are orders of magnitude for a 45 nm process and an external flash, rounded; only their
ratios matter to decisions. Picojoules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.frontend import Step
from aot.vendor.accel_sim.isa import BYTES
from aot.vendor.accel_sim.kinds import Alu, Mem, Unit
from aot.vendor.accel_sim.timing import Region, macs


@dataclass(frozen=True, slots=True)
class Costs:
    """Picojoules per product (with its sum) and per byte of each memory."""

    product: float = 0.3
    float_product: float = 4.6
    spm: float = 1.2
    wgt: float = 1.2
    acc: float = 0.8
    prm: float = 0.6
    sram: float = 6.0
    flash: float = 60.0


COSTS = Costs()


@dataclass(slots=True)
class Traffic:
    """Products, and bytes read or written per memory."""

    products: int = 0
    float_products: int = 0
    spm: int = 0
    wgt: int = 0
    acc: int = 0
    prm: int = 0
    sram: int = 0
    flash: int = 0

    def energy(self) -> float:
        """The energy of the products and bytes that were counted, in picojoules."""
        memories = ("spm", "wgt", "acc", "prm", "sram", "flash")
        total: float = self.products * COSTS.product + self.float_products * COSTS.float_product
        return total + float(sum(getattr(self, m) * getattr(COSTS, m) for m in memories))

    def system(self, region: Region, size: int) -> None:
        """Count `size` bytes that are read or written in a region: as flash or as SRAM."""
        if region.flash:
            self.flash += size
        else:
            self.sram += size

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
            self.spm += size
        elif name == "LDL":
            self.system(regions[f["region"]], f["packed"] or f["bytes"])
            which = {Mem.SPM: "spm", Mem.WGT: "wgt", Mem.PRM: "prm", Mem.LUT: "prm"}[Mem(f["mem"])]
            setattr(self, which, getattr(self, which) + f["bytes"])
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
        count = macs(step, c)
        if step.size == 4:
            self.float_products += count
        else:
            self.products += count
        deep = k.taps * (k.ci if step.i.name == "MM" else 1)
        columns = 1 if step.i.name == "MM" else c.lanes(step.size)
        self.spm += pixels * tiles * deep * columns * step.size
        self.wgt += tiles * deep * c.m
        passes = -(-deep // c.depth(step.size))
        self.acc += (2 * passes - 1 + step.f["add"]) * pixels * tiles * c.lanes(step.size) * 4

    def _vector(self, step: Step, c: Config) -> None:
        """Count the bytes of DRAIN, POOL or ALU: operands and result in SPM, sums and
        parameters.
        """
        f, name = step.f, step.i.name
        # Sums are int32 or float32; a channel's parameters are bias, multiplier (4 bytes each) and
        # shift (1).
        size = f["rows"] * f["cols"] * f["ch"] * step.size
        if name == "DRAIN":
            self.acc += f["rows"] * f["cols"] * f["ch"] * 4
            self.prm += f["ch"] * 9
            self.spm += size * (1 + f["res"])
        elif name == "POOL":
            self.spm += size * (1 + step.kern.taps)
        else:
            two = f["op"] in (Alu.ADD, Alu.MUL, Alu.MAX, Alu.MIN)
            self.spm += size * (1 if f["op"] == Alu.FILL else 3 if two else 2)


def traffic(steps: Iterable[Step], c: Config, regions: Sequence[Region]) -> Traffic:
    """The products and bytes of all executed instructions `steps` together."""
    found = Traffic()
    for step in steps:
        found.add(step, c, regions)
    return found
