# SPDX-License-Identifier: Apache-2.0
"""Calls that are made row by row: text, checker and planted faults."""

from __future__ import annotations

import os
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from aot.errors import InternalError
from aot.ir.check_rows import check_rows
from aot.ir.plan import Place, Plan
from aot.ir.program import Program
from aot.ir.stages import Stages, silent, unwatched
from aot.options import Options
from aot.packing.pack import EFFORT
from aot.pipeline import compile_model, partition_model
from aot.plan.plan_program import plan_programs
from aot.plan.streaming import choose
from aot.plan.streaming.placed import place_rows
from aot.plan.streaming.runs import in_batches, runs_of, segmented
from aot.target import load_target, widths
from quant_graphs import Net
from streamed_graphs import Made, random_network

#: Random graphs that are streamed; all of them by AOT_FULL=1.
GRAPHS = 10_000 if os.environ.get("AOT_FULL") else 16
#: What they compute with, in turns.
KINDS = (np.float32, np.int8, np.int16, np.float16, np.int8, ml_dtypes.bfloat16)


@pytest.fixture(scope="module")
def network() -> tuple[Program, Plan]:
    """A convolution, two more whose result is added to its own, and the average: all by rows."""
    made = Made(2)
    name, (channels, height, width) = made.values[0]
    for _ in range(3):
        real = made.net.add(
            "Conv", made.quantised_values(name), made.weights(8, channels, 3, 3), pads=[1] * 4
        )
        channels = 8
        name, _ = made.made(real, (channels, height, width))
    first = made.values[1][0]
    real = made.net.add("Add", made.quantised_values(name), made.quantised_values(first))
    name, _ = made.made(real, (channels, height, width))
    real = made.net.add("GlobalAveragePool", made.quantised_values(name))
    name, _ = made.made(real, (channels, 1, 1))
    asked = Options(name="net", objective="ram", target="cortex-m4")
    found = compile_model(made.net.model(**{name: np.int8}), asked)
    assert len(found.program.segments) == 1
    return found.program, found.plan


def test_random_graphs_without_a_finding() -> None:
    """All runs of random graphs, by rows whether that needs less memory or not."""
    streamed = batches = 0
    for seed in range(10 * GRAPHS):
        dtype = KINDS[seed % len(KINDS)]
        strict = "normal" if dtype in (np.int8, np.int16) else "strict"
        options = Options(name="net", target="cortex-m4", accuracy=strict, plan_effort=1)
        effort = EFFORT if seed % 8 == 0 else 500  # few plans need a long search
        model, partition = partition_model(random_network(seed, dtype, seed % 2 == 1), options)
        chips = widths(load_target(options.target), options)
        stages = Stages(silent, unwatched)
        ((_, program, _),) = plan_programs("net", model.graph, partition, chips, options, stages)
        made = segmented(program, runs_of(program)[0])
        if made.segments:
            check_rows(made, place_rows(made, effort))
            several = in_batches(made)
            check_rows(several, place_rows(several, effort))
            batches += several is not made
            streamed += 1
        if streamed == GRAPHS:
            assert batches > GRAPHS // 4
            return
    raise AssertionError(f"only {streamed} graphs are streamed")


@pytest.fixture(scope="module")
def joined() -> tuple[Program, Plan]:
    """Two convolutions whose channels are joined and read by a third, all by rows."""
    made = Made(2)
    parts = []
    for _ in range(2):
        weights = made.weights(8, made.channels, 3, 3)
        real = made.net.add("Conv", made.quantised_values("x"), weights, pads=[1] * 4)
        parts.append(made.made(real, (8, *made.values[0][1][1:]))[0])
    both = made.net.add("Concat", *parts, axis=1)
    real = made.net.add(
        "Conv", made.quantised_values(both), made.weights(8, 16, 3, 3), pads=[1] * 4
    )
    name, _ = made.made(real, made.values[1][1])
    asked = Options(name="net", target="cortex-m4")
    whole = compile_model(made.net.model(**{name: np.int8}), asked).program
    program = segmented(whole, runs_of(whole)[0])
    return program, place_rows(program)


def test_parts_that_are_missing_or_meet(joined: tuple[Program, Plan]) -> None:
    """A row is there when all calls that make a part of it have done so, each its own bytes."""
    program, plan = joined
    (segment,) = program.segments
    copies = [i for i, c in enumerate(program.calls) if c.rowwise and c.rowwise.strip[0]]
    assert len(copies) == 2
    for copy in copies:
        for row in range(4):
            steps = list(segment.steps)
            at = [k for k, s in enumerate(steps) if s == copy][row]
            reader = next(k for k, s in enumerate(steps) if s == segment.last and k > at)
            steps.insert(reader, steps.pop(at))  # behind the row that reads it
            wrong = replace(program, segments=(replace(segment, steps=tuple(steps)),))
            with pytest.raises(InternalError, match="before it is made"):
                check_rows(wrong, plan)
        call = program.calls[copy]
        assert call.rowwise
        width, pitch = call.rowwise.strip
        wide = replace(call, rowwise=replace(call.rowwise, strip=(width + 1, pitch)))
        calls = [wide if c is call else c for c in program.calls]
        with pytest.raises(InternalError, match=r"another call makes|no pixels of"):
            check_rows(replace(program, calls=tuple(calls)), plan)


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


def test_rows_of_a_step_follow_each_other(network: tuple[Program, Plan]) -> None:
    program = in_batches(network[0])
    plan = place_rows(program)
    check_rows(program, plan)
    wide = [c for c in program.calls if c.rowwise and c.rowwise.batch > 1]
    assert {c.rowwise.lead for c in wide if c.rowwise} == {0, 1}
    for call in wide:
        assert call.rowwise
        root = program.base(call.writes()[0])[0]
        first, *_, last = call.rowwise.made(1)
        assert last == first + 1
        offsets = list((plan.rows or {})[root])
        offsets[last] += 4
        with pytest.raises(InternalError, match="is not behind"):
            check_rows(program, replace(plan, rows={**(plan.rows or {}), root: tuple(offsets)}))


def test_a_reshape_between_rows_ends_a_run() -> None:
    """Both sides have 8 rows, of 4 pieces and of 8: row 1 of one is no row of the other."""
    net = Net(x=(np.float32, (1, 4, 8, 6)))
    y = net.add("Abs", net.add("Neg", "x"))
    y = net.add("Abs", net.add("Sin", net.add("Reshape", y, np.array([1, 8, 8, 3]))))
    compiled = compile_model(net.model(**{y: np.float32}), Options(name="net", target="cortex-m4"))
    runs, breaks = runs_of(compiled.program)
    assert runs == [(0, 1), (2, 3)]
    assert [b.reason.partition(" ")[2] for b in breaks] == [
        "is read as 8 pieces of a row, made as 4"
    ]


def gated(ends: str) -> Program:
    """Channels scaled by their averages, then one more operation, `ends`."""
    net = Net(x=(np.float32, (1, 4, 8, 6)))
    y = net.add("Sin", net.add("Neg", "x"))
    mean = net.add("GlobalAveragePool", y)
    gate = net.add("Sigmoid", net.add("Conv", mean, net.const(np.ones((4, 4, 1, 1), np.float32))))
    y = net.add("Cos", net.add("Mul", gate, y))
    y = net.add(ends, net.add("Greater", y, y), y, gate) if ends == "Where" else net.add(ends, y)
    asked = Options(name="net", target="cortex-m4", objective="ram")
    return compile_model(net.model(**{y: np.float32}), asked).program


def test_channels_scaled_by_an_average_begin_a_run() -> None:
    """All rows decide how channels are scaled: that is known when the call that scales begins."""
    program = gated("Abs")
    runs, breaks = runs_of(program)
    assert [b.reason.partition(":")[2] for b in breaks] == [" its result is one row"]
    assert [[c.origin.ops[0] for c in program.calls[a : z + 1]] for a, z in runs][1:] == [
        ["Mul", "Cos", "Abs"]
    ]
    reason = runs_of(gated("Where"))[1][-1].reason
    assert ": every row needs " in reason and reason.endswith(", which is one row")


def test_calls_by_rows_move_next_to_their_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest level of a pyramid is read by a sum that other calls come before in the order
    for whole tensors: next to it, and with the convolution behind it, it exists as rows."""
    rng, net = np.random.default_rng(0), Net(x=(np.float32, (1, 4, 64, 64)))
    sizes = net.const(np.array([1, 16, 64, 64]))

    def weights(*shape: int) -> str:
        return net.const(rng.uniform(-1, 1, shape).astype(np.float32))

    def scaled(value: str, channels: int) -> str:
        mean = net.add("GlobalAveragePool", value)
        gate = net.add("Sigmoid", net.add("Conv", mean, weights(channels, channels, 1, 1)))
        return net.add("Mul", value, gate)

    small = net.add("Conv", "x", weights(16, 4, 2, 2), strides=[2, 2])
    large = scaled(net.add("Conv", "x", weights(16, 4, 1, 1)), 16)
    level = scaled(small, 16)
    up = net.add("Resize", level, "", "", sizes, mode="nearest")
    ends = [net.add("Conv", net.add("Add", large, up), weights(4, 16, 3, 3), pads=[1] * 4)]
    ends.append(net.add("Conv", level, weights(4, 16, 3, 3), pads=[1] * 4))
    model = net.model(**dict.fromkeys([scaled(y, 4) for y in ends], np.float32))
    asked = Options(name="net", objective="ram", accuracy="strict")
    found = compile_model(model, asked)
    (segment,) = found.program.segments
    calls = found.program.calls[segment.first : segment.last + 1]
    assert [c.origin.ops[0] for c in calls] == ["Resize", "Mul", "Conv"]
    monkeypatch.setattr(choose, "near", lambda program: program)
    assert found.plan.arena_bytes < 0.8 * compile_model(model, asked).plan.arena_bytes


def test_planted_faults(network: tuple[Program, Plan]) -> None:
    """Rows on other rows that are needed, one place too few, rows read before they are made,
    delay lines that are too short, sums that are lost or not taken."""
    program, plan = network
    rng = np.random.default_rng(5)
    check_rows(program, plan)
    kinds = (short, moved, late, overrun, lost, missed)
    for fault in range(200):
        with pytest.raises(InternalError):
            check_rows(*kinds[fault % len(kinds)](program, plan, rng))


def short(program: Program, plan: Plan, rng: np.random.Generator) -> tuple[Program, Plan]:
    """A tensor has one row less."""
    assert plan.rows
    names = [n for n in plan.rows if "scratch" not in n]
    name = names[int(rng.integers(len(names)))]
    return program, replace(plan, rows={**plan.rows, name: plan.rows[name][:-1]})


def overrun(program: Program, plan: Plan, rng: np.random.Generator) -> tuple[Program, Plan]:
    """A row of what is added later lies where the row before it still waits."""
    assert plan.rows
    (call,) = [c for c in program.calls if c.rowwise and len(c.rowwise.single) > 1]
    assert call.rowwise
    name = program.base(call.args[call.rowwise.single[1]].tensor)[0]  # type: ignore[union-attr]
    offsets = list(plan.rows[name])
    k = int(rng.integers(1, len(offsets)))
    offsets[k] = offsets[k - 1]
    return program, replace(plan, rows={**plan.rows, name: tuple(offsets)})


def lost(program: Program, plan: Plan, rng: np.random.Generator) -> tuple[Program, Plan]:
    """A row is written over the sums of an average."""
    assert plan.rows
    (sums,) = [n for n in plan.rows if n.endswith("@sums")]
    (call,) = [c for c in program.calls if c.rowwise and c.rowwise.sums]
    rows = plan.rows[program.base(call.args[1].tensor)[0]]  # type: ignore[union-attr]
    place = rows[int(rng.integers(1, len(rows)))]
    return program, replace(plan, rows={**plan.rows, sums: (place,)})


def missed(program: Program, plan: Plan, rng: np.random.Generator) -> tuple[Program, Plan]:
    """The average does not take one of its rows, or takes it too early."""
    segment = program.segments[0]
    own = [i for i, s in enumerate(segment.steps) if s == segment.last]
    steps = list(segment.steps)
    del steps[own[int(rng.integers(len(own)))]]
    if rng.random() < 0.5:
        steps.insert(int(rng.integers(5)), segment.last)
    made = replace(segment, steps=tuple(steps))
    return replace(program, segments=(made, *program.segments[1:])), plan


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
