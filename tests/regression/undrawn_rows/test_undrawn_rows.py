# SPDX-License-Identifier: Apache-2.0
"""The manifest listed no buffer for tensors that exist as rows only: the report of a network that
runs row by row drew 256 bytes of an arena of 976. At every call the buffers that are listed are the
bytes that the rows of its steps occupy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aot.api import compile_to
from aot.ir.plan import Plan
from aot.ir.program import Access, Call, Program
from aot.options import Options
from aot.plan.streaming.unrolled import unrolled
from aot.tools.run import open_out
from streamed_graphs import random_network

Bytes = np.ndarray[Any, np.dtype[np.bool_]]


def place(plan: Plan, root: str) -> int | None:
    """The offset of a buffer of the unrolled program in the arena; None outside."""
    if root in plan.placements:
        return plan.placements[root].offset
    tensor, _, row = root.rpartition("@")
    rows = plan.rows or {}
    if root in rows:
        return rows[root][0]
    return rows[tensor][int(row.split("-")[0])] if tensor in rows else None


def live(rows: Program, plan: Plan) -> list[Bytes]:
    """For every step the bytes it touches or must leave alone, from the last one back."""

    def places(calls: Sequence[Call], kinds: set[Access]) -> Bytes:
        found = np.zeros(plan.arena_bytes, bool)
        for arg in (a for c in calls for a in c.pointers() if a.access in kinds):
            root, offset = rows.base(arg.tensor)
            start = place(plan, root)
            if start is not None:
                end = start + offset + rows.tensors[arg.tensor].nbytes
                found[start + offset + arg.begin : end] = True
        return found

    found: list[Bytes] = []
    after = np.zeros(plan.arena_bytes, bool)
    for call in reversed(rows.calls):
        written = places([call], {Access.WRITE, Access.READ_WRITE})
        before = places([call], {Access.READ, Access.READ_WRITE}) | (after & ~written)
        found.append(before | after | written)
        after = before
    return found[::-1]


@pytest.mark.parametrize(
    ("seed", "dtype"), [(2, np.int8), (10, np.int8), (6, np.float32), (10, np.float32)]
)
def test_rows_are_listed(seed: int, dtype: type, tmp_path: Path) -> None:
    options = Options(target="cortex-m4", io="caller", objective="ram")
    network = random_network(seed, dtype)
    compiled = compile_to(network, tmp_path / "out", options, configure=False)
    program, plan = compiled.program, compiled.plan
    assert program.segments
    made: list[int] = []
    at = 0
    for segment in program.segments:
        made += [*range(at, segment.first), *segment.steps]
        at = segment.last + 1
    made += range(at, len(program.calls))
    steps = live(unrolled(program), plan)
    wanted = [np.zeros(plan.arena_bytes, bool) for _ in program.calls]
    for call, own in zip(made, steps, strict=True):
        wanted[call] |= own
    shown = [np.zeros(plan.arena_bytes, bool) for _ in program.calls]
    for buffer in open_out(tmp_path / "out").manifest["memory"]["buffers"]:
        for call in range(max(0, buffer["first"]), min(buffer["last"] + 1, len(shown))):
            shown[call][buffer["offset"] : buffer["offset"] + buffer["nbytes"]] = True
    for call, (a, b) in enumerate(zip(shown, wanted, strict=True)):
        assert np.array_equal(a, b), (call, a.sum(), b.sum())
    most = max(int(own.sum()) for own in steps)
    assert most <= plan.lower_bound_bytes and 0.8 * plan.lower_bound_bytes <= most
