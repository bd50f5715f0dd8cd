# SPDX-License-Identifier: Apache-2.0
"""Where loads go: WGT and PRM are rings that loads follow each other in, LUT has four tables."""

from __future__ import annotations

from collections.abc import Sequence

from aot.vendor import UnsupportedError
from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.items import Item, Load
from aot.vendor.accel_sim.kinds import Mem

#: LUT has 1024 bytes: four tables of 256 entries, one per 8-bit quantised value.
TABLES = 4


class DoesNotFit(UnsupportedError):
    """Loads that are needed at the same time do not fit their memory."""


def order(loads: Sequence[Load]) -> list[int]:
    """Numbers of the loads in the order of their first use."""
    return sorted((n for n, x in enumerate(loads) if x.first >= 0), key=lambda n: loads[n].first)


def assign(c: Config, items: Sequence[Item], loads: Sequence[Load]) -> None:
    """Set `at` of every load and the fields of the items that use it; raises DoesNotFit."""
    sizes = {Mem.WGT: c.wgt_rows, Mem.PRM: c.prm_channels, Mem.LUT: TABLES}
    for mem, size in sizes.items():
        _ring([loads[n] for n in order(loads) if loads[n].mem is mem], size, mem)
    for item in items:
        for number, further, field in item.uses:
            load = loads[number]
            item.fields[field] = (load.at + further) % _modulus(c, load.mem)
            item.step = None


def _modulus(c: Config, mem: Mem) -> int:
    """The number of units after which places of a memory wrap: rows, channels, or 5 for fields of
    tables.

    A DRAIN counts tables from 1, so that 4 is a valid number of one.
    """
    return {Mem.WGT: c.wgt_rows, Mem.PRM: c.prm_channels}.get(mem, TABLES + 1)


def _ring(loads: list[Load], size: int, mem: Mem) -> None:
    """Set the places of `loads` (in order of use) one after another in a ring of `size` units.

    DoesNotFit if a load would take the place of one that is still used when the load is.
    """
    held: list[Load] = []
    at = 0
    for load in loads:
        # A load of tables must be contiguous: the memory of tables does not wrap.
        if mem is Mem.LUT and at + load.units > size:
            at = 0
        load.at = at % size
        place = {(at + n) % size for n in (0, load.units - 1)} if size else set()
        for old in held:
            if _meet(old, load, size) and old.last >= load.first:
                raise DoesNotFit(
                    f"accel_sim: {load.units} units of {mem.name} (memory {size}) beside others"
                )
        held = [old for old in held if not _meet(old, load, size)] + [load]
        if load.units > size or not place:
            raise DoesNotFit(f"accel_sim: {load.units} units of {mem.name}, memory {size}")
        at = (at + load.units) % size


def _meet(a: Load, b: Load, size: int) -> bool:
    """Whether loads `a` and `b` share a unit of a ring of `size` units."""
    return (b.at - a.at) % size < a.units or (a.at - b.at) % size < b.units
