# SPDX-License-Identifier: Apache-2.0
"""The arena over time: every buffer and scratch at its address, and the bytes live at each call;
where calls are made row by row, every row over the steps of the segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

#: Steps between the marks of an axis of calls.
_CALLS = [n * 10**e for e in range(9) for n in (1, 2, 5)]


@dataclass(frozen=True, slots=True)
class Map:
    """The picture: x counts calls from `begin`, y the `total` bytes of the arena.

    `live` are the bytes live in each column, `at` the buffers of `memory.buffers` that are live in
    it. The axes have `marks` at these calls and addresses.
    """

    begin: int
    total: int
    buffers: Sequence[Mapping[str, Any]]
    at: Sequence[Sequence[int]]
    live: Sequence[int]
    marks: tuple[Sequence[int], Sequence[int]]

    def buffer(self, call: int, offset: int) -> int:
        """The index of the buffer that has an address at a call, -1 if none has."""
        places = ((i, offset - self.buffers[i]["offset"]) for i in self.at[call - self.begin])
        return next((i for i, at in places if 0 <= at < self.buffers[i]["nbytes"]), -1)


def memory_map(manifest: Mapping[str, Any]) -> Map | None:
    """The map of a bundle; None without arena, or where an older aotc did not list its buffers."""
    total, calls = int(manifest["memory"]["arena_bytes"]), len(manifest["nodes"])
    buffers = manifest["memory"].get("buffers")
    if not total or not calls or buffers is None:
        return None
    begin = min(0, *(int(s["first"]) for s in buffers))  # -1: before the first call
    end = max(calls - 1, *(int(s["last"]) for s in buffers)) + 1
    at: list[list[int]] = [[] for _ in range(begin, end)]
    for index, stretch in enumerate(buffers):
        for own in at[stretch["first"] - begin : stretch["last"] + 1 - begin]:
            own.append(index)
    step = next(s for s in _CALLS if len(at) <= 12 * s)
    marks = range(0, calls, step), _addresses(total)
    live = [_covered([buffers[i] for i in own]) for own in at]
    return Map(begin, total, buffers, at, live, marks)


@dataclass(frozen=True, slots=True)
class RowMap:
    """Calls that are made row by row: x counts steps of the segment, y the `total` bytes.

    `tensors` are those of the manifest's record of the segment, `whole` the buffers that the
    segment leaves as they are, `live` the bytes of rows at each step, `marks` steps and addresses.
    """

    first: int
    last: int
    total: int
    tensors: Sequence[Mapping[str, Any]]
    whole: Sequence[Mapping[str, Any]]
    live: Sequence[int]
    marks: tuple[Sequence[int], Sequence[int]]


def row_maps(manifest: Mapping[str, Any]) -> list[RowMap]:
    """The maps of the segments; none where an older aotc did not list rows."""
    memory = manifest["memory"]
    total = int(memory["arena_bytes"])
    found = []
    for segment in memory.get("by_rows", ()):
        tensors, steps = segment.get("rows", ()), int(segment["steps"])
        first, last = int(segment["first"]), int(segment["last"])
        change = [0] * (steps + 1)
        for tensor in tensors:
            for _, begin, end in tensor["places"]:
                change[begin] += tensor["nbytes"]
                change[end + 1] -= tensor["nbytes"]
        whole = [s for s in memory["buffers"] if s["first"] <= last and s["last"] >= first]
        # More than about a dozen marks would overlap in the drawing.
        step = next(s for s in _CALLS if steps <= 12 * s)
        marks = range(0, steps, step), _addresses(total)
        live = list(accumulate(change[:-1]))
        found += [RowMap(first, last, total, tensors, whole, live, marks)] if tensors else []
    return found


def _addresses(total: int) -> Sequence[int]:
    """The marks of an axis of `total` bytes."""
    return range(0, total + 1, 1 << max(0, (total - 1).bit_length() - 3))


def _covered(buffers: Sequence[Mapping[str, Any]]) -> int:
    """Bytes that some buffers hold; those of a call that works in place share theirs."""
    found, top = 0, 0
    for offset, size in sorted((int(s["offset"]), int(s["nbytes"])) for s in buffers):
        found += max(0, offset + size - max(top, offset))
        top = max(top, offset + size)
    return found
