# SPDX-License-Identifier: Apache-2.0
"""Slices: the pieces of a run between which NAME_step may return to its caller."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slice:
    """Calls `call` to `last` of a program as a whole, or a part of the one call `call`.

    `first` and `end` are rows of the height axis of the call's result, `end` not among them, or
    units of its split (`Call.splits`); with `end` 0 the calls are made as a whole. `macs` are the
    multiplications of the slice, or the elements that calls without multiplications touch.
    """

    call: int
    last: int
    first: int
    end: int
    macs: int

    def text(self) -> str:
        """`slice 3 rows 0..4: 82944 MACs`."""
        calls = str(self.call) if self.call == self.last else f"{self.call}..{self.last}"
        rows = f" part {self.first}..{self.end}" if self.end else ""
        return f"slice {calls}{rows}: {self.macs} MACs"
