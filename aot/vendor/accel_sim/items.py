# SPDX-License-Identifier: Apache-2.0
"""Instructions before they have tokens, slots and places in the rings: what the scheduler moves.

An `Item` is an instruction for a unit with what its slots must hold. A `Load` is an LDL into WGT,
PRM or LUT; items name the loads that they use, and get the addresses when all loads are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aot.vendor.accel_sim.encode import Instr, instr
from aot.vendor.accel_sim.frontend import Kernel, Step, Strides, View, VSet
from aot.vendor.accel_sim.isa import BY_NAME
from aot.vendor.accel_sim.kinds import Mem, Unit

#: Fields of an instruction that hold a slot, by the attribute of Item that says what is in it.
SLOT_FIELDS = {
    "view": ("view",),
    "source": ("from_view",),
    "other": ("b_view", "res_view"),
    "kern": ("kern",),
    "strides": ("strides",),
    "vset": ("vset",),
}


@dataclass(slots=True)
class Load:
    """`data` for a local memory. `units` are rows of WGT, channels of PRM, tables of LUT.

    `first` and `last` are the items of the main list that use it first and last; `at` is its place
    (in units), `offset` that in the blob of weights, `packed` its compressed bytes (0: as it is),
    `zeros` their blocks of zeros.
    """

    layer: int
    mem: Mem
    data: bytes
    units: int
    record: int = 0
    first: int = -1
    last: int = -1
    after: int = -1
    at: int = 0
    offset: int = 0
    packed: int = 0
    zeros: int = 0


@dataclass(slots=True)
class Item:
    """One instruction of a unit. `uses`: (load, units from its beginning, field that gets it)."""

    name: str
    layer: int
    fields: dict[str, int]
    dtype: int = 0
    view: View | None = None
    source: View | None = None
    other: View | None = None
    kern: Kernel | None = None
    strides: Strides | None = None
    vset: VSet | None = None
    uses: tuple[tuple[int, int, str], ...] = ()
    wait: int = 0
    signal: int = 0
    step: Step | None = field(default=None, repr=False)

    @property
    def unit(self) -> Unit:
        """Who executes it."""
        return BY_NAME[self.name].unit

    def encoded(self, slots: Mapping[str, int]) -> Instr:
        """The instruction with the numbers of its slots, given by the attribute that says what is
        in them.

        StreamError if a value does not fit its field.
        """
        named = {f.name for f in BY_NAME[self.name].fields}
        own = dict(self.fields)
        for attribute, fields in SLOT_FIELDS.items():
            for name in fields:
                if name in named and attribute in slots:
                    own[name] = slots[attribute]
        return instr(self.name, own, dtype=self.dtype, wait=self.wait, signal=self.signal)

    def stepped(self) -> Step:
        """The instruction as the front end would dispatch it, with slots numbered 0; made once.

        The compiler asks it for the bytes that are touched and the cycles.
        """
        if self.step is None:
            # Slots are given when the order is final (slots.py); neither bytes nor cycles depend on
            # them.
            zeros = {
                name: 0
                for fields in SLOT_FIELDS.values()
                for name in fields
                if name in {f.name for f in BY_NAME[self.name].fields}
            }
            i = instr(self.name, {**self.fields, **zeros}, dtype=self.dtype)
            f = {f.name: v for f, v in zip(i.row.fields, i.values, strict=True)}
            self.step = Step(
                0,
                i,
                f,
                self.view or View(),
                self.source or View(),
                self.other or View(),
                self.kern or Kernel(),
                self.strides or Strides(),
                self.vset or VSet(),
            )
        return self.step


def view(base: int, pixel: int, row: int, height: int, width: int, pad: int, ring: int = 0) -> View:
    """A view of SPM that counts as set; strides `pixel` and `row` in bytes, `ring` in rows (0:
    all).
    """
    return View(base, pixel, row, ring, height, width, pad, 0)
