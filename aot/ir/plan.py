# SPDX-License-Identifier: Apache-2.0
"""The Plan: where every tensor of the arena lives, how small that is, and whether it is optimal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aot.ir.rows import RowPlaces

ARENA = "arena"


@dataclass(frozen=True, slots=True)
class Place:
    """`offset` bytes into the memory called `memory`."""

    memory: str
    offset: int


@dataclass(frozen=True, slots=True)
class Part:
    """`bytes` of the arena that are in the memory called `memory`, from byte `begin` on.

    The first `head` bytes hold no tensor. An access costs `cost`, relative to the fastest memory;
    the calls of a run read and write `traffic` bytes there.
    """

    memory: str
    begin: int
    bytes: int
    head: int
    cost: float
    traffic: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The arena of one program. All sizes in bytes.

    `placements` holds every tensor of the arena that a call touches, views of them included.
    `lower_bound_bytes` is the most that is live at one time given the order and the aliases, sizes
    rounded up to the alignment; `logical_bound_bytes` the same in elements × dtype, without
    scratch and layout padding, a tensor and its copy in another layout counted once. `optimal`
    says that no smaller arena exists for this order and these aliases; `schedule_optimal` that no
    order needs less. `inplace` are the permissions used. Inputs and outputs that are not in the
    arena are the caller's memory (`io_bytes`), constants are in no plan. `rows` are the offsets of
    the rows of tensors that a segment has as rows only, in `placements` no more.

    An arena in several memories has `parts`, which follow each other: places name their memory, and
    all offsets count from the start of the first part.
    """

    placements: Mapping[str, Place]
    arena_bytes: int
    lower_bound_bytes: int
    logical_bound_bytes: int
    optimal: bool
    alignment: int
    io_bytes: int = 0
    schedule_optimal: bool = False
    inplace: tuple[Sharing, ...] = ()
    live: Mapping[str, tuple[int, int]] | None = None
    rows: RowPlaces | None = None
    parts: tuple[Part, ...] = ()

    def at(self, offset: int) -> tuple[int, int]:
        """(part, bytes from its start) of a byte of the arena; part 0 where there is one memory."""
        number = max((k for k, p in enumerate(self.parts) if p.begin <= offset), default=0)
        return number, offset - (self.parts[number].begin if number else 0)

    def pads_little(self, scratch: int) -> bool:
        """Whether blocks of channels cost at most 2 % or 4 KiB beyond the elements that count and
        `scratch`, bytes that calls need for themselves."""
        logical = self.logical_bound_bytes
        # In a small arena 2 % is less than one block of channels.
        return self.lower_bound_bytes - scratch <= max(1.02 * logical, logical + 4096)

    def text(self) -> str:
        """The plan as text, lowest address first: offsets and sizes in bytes; equal plans give
        equal text.
        """
        proof = "optimal" if self.optimal else "not proven optimal"
        order = "optimal" if self.schedule_optimal else "not proven optimal"
        lines = [
            f"plan arena={self.arena_bytes} lower_bound={self.lower_bound_bytes} ({proof}) "
            f"logical_bound={self.logical_bound_bytes} io={self.io_bytes} align={self.alignment} "
            f"order {order}"
        ]
        lines += [
            f"  {p.memory}: {p.bytes} bytes from {p.begin}, {p.traffic} moved at {p.cost:g}"
            for p in self.parts
        ]
        places = sorted(self.placements.items(), key=lambda item: (item[1].offset, item[0]))
        for name, place in places:
            steps = (self.live or {}).get(name)
            life = f" steps {steps[0]}..{steps[1] - 1}" if steps else ""
            lines.append(f"  {place.memory}+{place.offset}: {name}{life}")
        for name, offsets in (self.rows or {}).items():
            lines.append(f"  rows of {name}: {' '.join(map(str, offsets))}")
        lines += [f"  call {s.call}: {s.above} in place of {s.below}" for s in self.inplace]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Sharing:
    """One used permission: argument `out` of call `call` lies on argument `inp`.

    Byte 0 of root `below` lies `shift` bytes after byte 0 of root `above`, the result's.
    """

    call: int
    out: int
    inp: int
    above: str
    below: str
    shift: int
