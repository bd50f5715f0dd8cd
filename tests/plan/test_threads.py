# SPDX-License-Identifier: Apache-2.0
"""Calls that threads share: which way is chosen, scratch for each, and splits that are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aot.errors import InternalError
from aot.ir.check_splits import check_splits
from aot.ir.program import Call, Params, Program, Role
from aot.ir.splits import PartField, Split
from aot.plan.threads import LEAST_WORK, threaded
from memory_programs import Maker

ROWS = Split.rows(7, 2)
PANELS = Split.pieces("oc", 60, [(0, 16), (1, 0)], 16)


def program(*splits: Split, macs: int = LEAST_WORK, **more: object) -> Program:
    """y = k(x, r) with scratch of 100 bytes, where y may be x or r."""
    m = Maker()
    m.tensor("x", 64, Role.INPUT)
    m.call(m.tensor("r", 64), "x")
    m.call(m.tensor("y", 64, Role.OUTPUT), "x r", [(0, 1), (0, 2)], scratch=100)
    made = m.program()
    params = Params("k_params", (("y0", 0), ("y1", 7), ("oc", 60)))
    call = replace(made.calls[1], splits=splits, macs=macs, params=params, **more)  # type: ignore[arg-type]
    return replace(made, calls=(made.calls[0], call))


def shared(threads: int, *splits: Split, by_rows: bool = False, **more: int) -> Call:
    made = threaded(program(*splits, **more), threads, by_rows)
    assert made.threads == threads
    return made.calls[1]


def test_the_way_that_leaves_the_least_to_the_busiest_thread() -> None:
    assert shared(2, ROWS, PANELS).splits == (PANELS,)  # 2 of 4 panels, not 4 of 7 rows
    assert shared(7, PANELS, ROWS).splits == (ROWS,)
    assert shared(2, PANELS, ROWS, by_rows=True).splits == (ROWS,)
    assert shared(2, replace(ROWS, tile=7)).splits == ()  # one tile is one thread's
    assert shared(2, ROWS, macs=0).splits == ()  # not worth it


def test_scratch_is_apart_and_only_own_rows_are_made_in_place() -> None:
    made = threaded(program(ROWS), 3, False)
    assert made.tensors["s1"].nbytes == 3 * 128
    assert made.calls[1].inplace == ((0, 2),)  # x is read by all parts
    assert threaded(program(ROWS), 1, False).calls[1].inplace == ((0, 1), (0, 2))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"status": True}, "cannot be split"),
        ({"region": 3}, "cannot be split"),
        ({"splits": (replace(ROWS, units=1),)}, "too few units"),
        ({"splits": (replace(ROWS, fields=(PartField("z", "end"),)),)}, r"names \['z'\]"),
        ({"splits": (replace(ROWS, own=()),), "inplace": ()}, "every part writes y"),
        ({"splits": (replace(PANELS, moves=((0, 22),)),), "inplace": ()}, "leaves y"),
        ({"inplace": ((0, 1),)}, "a part writes argument 1, which others read"),
    ],
)
def test_splits_that_are_refused(change: dict[str, object], says: str) -> None:
    made = threaded(program(ROWS), 2, False)
    check_splits(made)
    call = replace(made.calls[1], **change)  # type: ignore[arg-type]
    with pytest.raises(InternalError, match=says):
        check_splits(replace(made, calls=(made.calls[0], call)))


def test_scratch_that_is_not_divided_is_refused() -> None:
    made = threaded(program(ROWS), 3, False)
    one = replace(made.tensors["s1"], shape=(128,))
    with pytest.raises(InternalError, match="s1 is not divided among threads"):
        check_splits(replace(made, tensors={**made.tensors, "s1": one}))
