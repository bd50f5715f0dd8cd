# SPDX-License-Identifier: Apache-2.0
"""Slots of views, windows, strides and vector constants: which holds what, while items go by."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from aot.vendor.accel_sim.encode import Instr, instr
from aot.vendor.accel_sim.frontend import Kernel, Strides, View, VSet
from aot.vendor.accel_sim.items import SLOT_FIELDS, Item

#: Slots of each kind, by the attribute of an item that needs one.
KINDS = {
    "view": ("VIEW", 16), "source": ("VIEW", 16), "other": ("VIEW", 16),
    "kern": ("KERN", 16), "strides": ("STRD", 16), "vset": ("VSET", 8),
}  # fmt: skip


@dataclass(slots=True)
class _Bank:
    """Contents by slot, and when each was last used."""

    held: dict[Hashable, int] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)


class Slots:
    """The contents of the slots of views, windows, strides and constants at this point of the
    program."""

    def __init__(self) -> None:
        """Nothing is held; `clock` counts placed items, to find the slot unused for longest."""
        self.banks = {"VIEW": _Bank(), "KERN": _Bank(), "STRD": _Bank(), "VSET": _Bank()}
        self.clock = 0

    def place(self, item: Item) -> tuple[dict[str, int], list[Instr]]:
        """(slot of each attribute of `item`, instructions that fill slots before it).

        Contents that a slot holds already are used again; else the slot unused for longest is
        filled.
        """
        found: dict[str, int] = {}
        made: list[Instr] = []
        self.clock += 1
        for attribute in SLOT_FIELDS:
            content = getattr(item, attribute)
            if content is None:
                continue
            name, size = KINDS[attribute]
            bank = self.banks[name]
            key = _key(content)
            if key not in bank.held:
                slot = self._free(bank, size)
                bank.held[key] = slot
                made.extend(_fill(content, slot))
            # Its slots are now the newest, so none of them is filled again for another part of the
            # item.
            bank.used[bank.held[key]] = self.clock
            found[attribute] = bank.held[key]
        return found, made

    def _free(self, bank: _Bank, size: int) -> int:
        """The slot for new content: an empty one, else the one unused for longest."""
        if len(bank.held) < size:
            return len(bank.held)
        slot = min(range(size), key=lambda s: bank.used[s])
        bank.held = {k: s for k, s in bank.held.items() if s != slot}
        return slot


def _key(content: Any) -> Hashable:
    """A key that is equal for equal contents of a slot."""
    if isinstance(content, VSet):
        parts = (content.first, content.add, content.rest)
        return tuple(None if p is None else p.values for p in parts)
    return content  # type: ignore[no-any-return]


def _fill(content: Any, slot: int) -> list[Instr]:
    """The instructions that put `content` in slot number `slot`: up to three for vector
    constants.
    """
    if isinstance(content, VSet):
        parts = (content.first, content.add, content.rest)
        return [instr(p.name, {**p.fields, "slot": slot}) for p in parts if p is not None]
    names = {
        View: ("VIEW", ("base", "pixel", "row", "ring", "height", "width", "pad")),
        Kernel: ("KERN", ("kh", "kw", "sh", "sw", "dh", "dw", "ci")),
        Strides: ("STRD", ("row", "pixel", "channel")),
    }
    name, fields = names[type(content)]
    return [instr(name, {"slot": slot, **{f: getattr(content, f) for f in fields}})]
