# SPDX-License-Identifier: Apache-2.0
"""Calls that are made row by row: text, checker and planted faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aot.errors import InternalError
from aot.ir.check_rows import check_rows
from aot.ir.plan import Place, Plan
from aot.ir.program import Program
from aot.options import Options
from aot.pipeline import compile_model
from streamed_graphs import random_network


def compiled(seed: int, **options: str) -> tuple[Program, Plan]:
    asked = Options(name="net", objective="ram", **options)  # type: ignore[arg-type]
    made = compile_model(random_network(seed), asked)
    return made.program, made.plan


def streamed(**options: str) -> tuple[Program, Plan]:
    """The first random network that is made row by row."""
    for seed in range(20):
        program, plan = compiled(seed, **options)
        if program.segments and len(program.segments[0].steps) > 20:
            return program, plan
    raise AssertionError("no network is made row by row")


@pytest.fixture(scope="module")
def network() -> tuple[Program, Plan]:
    return streamed(target="cortex-m4")


def test_text_tells_steps_and_places(network: tuple[Program, Plan]) -> None:
    program, plan = network
    assert f"rows {program.segments[0].first}.." in program.text()
    assert "rows of" in plan.text()


def test_a_row_is_made_once(network: tuple[Program, Plan]) -> None:
    program, plan = network
    segment = program.segments[0]
    for steps in (segment.steps[1:], (*segment.steps, segment.steps[-1])):
        wrong = replace(program, segments=(replace(segment, steps=steps), *program.segments[1:]))
        with pytest.raises(InternalError, match="rows once each"):
            check_rows(wrong, plan)


def test_planted_faults(network: tuple[Program, Plan]) -> None:
    """Rows on other rows that are needed, one place too few, rows read before they are made."""
    program, plan = network
    rng = np.random.default_rng(5)
    check_rows(program, plan)
    for fault in range(200):
        wrong = (program, short(plan, rng)) if fault % 4 == 0 else None
        wrong = wrong or ((moved(program, plan, rng)) if fault % 2 else late(program, plan, rng))
        with pytest.raises(InternalError):
            check_rows(*wrong)


def short(plan: Plan, rng: np.random.Generator) -> Plan:
    """A tensor has one row less."""
    assert plan.rows
    names = [n for n in plan.rows if "scratch" not in n]
    name = names[int(rng.integers(len(names)))]
    return replace(plan, rows={**plan.rows, name: plan.rows[name][:-1]})


def moved(program: Program, plan: Plan, rng: np.random.Generator) -> tuple[Program, Plan]:
    """A row lies where the row before it is while both are needed: windows of three rows."""
    assert plan.rows
    wide = [
        program.base(c.args[c.rowwise.window.arg].tensor)[0]  # type: ignore[union-attr]
        for c in program.calls
        if c.rowwise and c.rowwise.window and c.rowwise.window.taps > 1 and not c.rowwise.sums
    ]
    names = [n for n in wide if len(plan.rows.get(n, ())) > 3]
    name = names[int(rng.integers(len(names)))]
    offsets = list(plan.rows[name])
    k = int(rng.integers(1, 3))
    offsets[k] = offsets[k - 1]
    return program, replace(plan, rows={**plan.rows, name: tuple(offsets)})


def late(program: Program, plan: Plan, rng: np.random.Generator) -> tuple[Program, Plan]:
    """The last call of a segment makes its first row as the first of all."""
    segment = program.segments[0]
    steps = list(segment.steps)
    steps.remove(segment.last)
    steps.insert(int(rng.integers(min(3, len(steps)))), segment.last)
    made = replace(segment, steps=tuple(steps))
    return replace(program, segments=(made, *program.segments[1:])), plan


def test_whole_tensors_of_a_segment_hold(network: tuple[Program, Plan]) -> None:
    """An input that a segment reads may not be where rows are written before it is read."""
    program, plan = network
    assert plan.rows
    name = next(n for n, p in plan.placements.items() if program.base(n)[0] in program.inputs)
    root = program.base(name)[0]
    result = program.base(program.calls[program.segments[0].steps[0]].writes()[0])[0]
    first = plan.rows[result][0]
    wrong = replace(plan, placements={**plan.placements, root: Place("arena", first // 16 * 16)})
    with pytest.raises(InternalError):
        check_rows(program, wrong)
