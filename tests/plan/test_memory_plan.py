# SPDX-License-Identifier: Apache-2.0
"""Aliases, live ranges and plans of Programs; random ones are executed in their arena."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.check_plan import check_plan
from aot.ir.check_program import check_program
from aot.ir.dtypes import F32
from aot.ir.layout import blocked
from aot.ir.plan import Plan
from aot.ir.program import Program, Role, Tensor
from aot.options import Options
from aot.pipeline import compile_model
from aot.plan.memory.alias import _decide, _options, decide
from aot.plan.memory.live import uses_of
from aot.plan.memory.plan import plan_memory
from aot.plan.schedule import schedule
from memory_programs import Maker, arena_io, chain, execute, random_program
from quant_graphs import Net


def planned(program: Program) -> Plan:
    check_program(program)
    plan = plan_memory(program)
    check_plan(program, plan)
    return plan


def where(plan: Plan, name: str) -> int:
    return plan.placements[name].offset


def test_chain_without_permissions_needs_two_buffers() -> None:
    plan = planned(chain([640] * 6, inplace=False))
    assert plan.arena_bytes == plan.lower_bound_bytes == 2 * 640
    assert plan.optimal
    assert plan.inplace == ()
    assert plan.io_bytes == 640 + 1


def test_chain_in_place_needs_one() -> None:
    plan = planned(chain([640] * 6, inplace=True))
    assert plan.arena_bytes == plan.lower_bound_bytes == plan.logical_bound_bytes == 640
    assert len(plan.inplace) == 5


@pytest.mark.parametrize("backwards", [False, True])
def test_a_long_chain_takes_steps_in_proportion(backwards: bool) -> None:
    """One group of 3000 members: each merge visits what is new, not the members before."""
    sizes = [64 * (k + 1) for k in range(3000)][::-1] if backwards else [64] * 3000
    program = chain(sizes, inplace=True)
    uses = uses_of(program)
    decision = _decide(program, uses, list(_options(program, uses)))
    assert len(decision.used) == 2999
    assert decision.visits < 12 * len(program.calls)
    plan = planned(schedule(program))
    assert (plan.arena_bytes, plan.optimal, plan.schedule_optimal) == (max(sizes), True, True)


def test_inputs_are_never_overwritten() -> None:
    plan = planned(chain([640], inplace=True))
    assert plan.inplace == ()
    assert "x" not in plan.placements


def test_an_operand_read_later_is_kept() -> None:
    m = Maker()
    m.call(m.tensor("a", 640), m.tensor("x", 64, Role.INPUT))
    m.call(m.tensor("b", 640), "a", [(0, 1)])
    m.call(m.tensor("c", 640), "a b", [(0, 1), (0, 2)])
    m.call(m.tensor("y", 640, Role.OUTPUT), "c")
    plan = planned(m.program())
    assert where(plan, "b") != where(plan, "a")
    assert where(plan, "c") in (where(plan, "a"), where(plan, "b"))
    assert plan.arena_bytes == 2 * 640


def test_an_operand_whose_view_is_read_later_is_kept() -> None:
    m = Maker()
    m.call(m.tensor("a", 640), m.tensor("x", 64, Role.INPUT))
    m.view("v", 64, "a", 128)
    m.call(m.tensor("b", 640), "a", [(0, 1)])
    m.call(m.tensor("y", 640, Role.OUTPUT), "v b")
    plan = planned(m.program())
    assert where(plan, "v") == where(plan, "a") + 128
    assert plan.inplace == ()


def test_a_larger_result_is_not_put_on_a_smaller_operand() -> None:
    plan = planned(chain([64, 640, 640], inplace=True))
    assert plan.arena_bytes == 64 + 640
    assert [(s.above, s.below) for s in plan.inplace] == [("t2", "t1")]


def test_a_small_result_frees_the_rest_of_its_operand() -> None:
    m = Maker()
    m.call(m.tensor("big", 6400), m.tensor("x", 64, Role.INPUT))
    m.call(m.tensor("small", 64), "big", [(0, 1)])
    m.call(m.tensor("peak", 12800), "small")
    m.call(m.tensor("y", 64, Role.OUTPUT), "small peak")
    plan = planned(m.program())
    assert where(plan, "small") == where(plan, "big") == 0
    assert where(plan, "peak") == 64
    assert plan.arena_bytes == 64 + 12800


def test_competing_results_are_decided_together() -> None:
    """Only `a` may take p, so q must go to b although b may take either."""
    m = Maker()
    m.tensor("x", 64, Role.INPUT)
    m.tensor("p", 640)
    m.tensor("q", 640)
    m.call("p q", "x")
    m.tensor("b", 640)
    m.tensor("a", 640)
    m.call("b a", "p q", [(0, 2), (0, 3), (1, 2)])
    m.call(m.tensor("y", 640, Role.OUTPUT), "a b")
    plan = planned(m.program())
    assert where(plan, "a") == where(plan, "p")
    assert where(plan, "b") == where(plan, "q")
    assert plan.arena_bytes == 2 * 640


def test_an_operand_passed_twice_needs_both_permissions() -> None:
    for pairs, shared in (([(0, 1)], False), ([(0, 1), (0, 2)], True)):
        m = Maker()
        m.call(m.tensor("a", 640), m.tensor("x", 64, Role.INPUT))
        m.call(m.tensor("b", 640), "a a", pairs)
        m.call(m.tensor("y", 640, Role.OUTPUT), "b")
        assert bool(planned(m.program()).inplace) is shared


def concat(pad: int = 0) -> Program:
    """y = [f(a), g(b)], where the parts are views of one tensor and may overwrite a and b."""
    m = Maker()
    m.tensor("x", 64, Role.INPUT)
    m.call(m.tensor("a", 640), "x")
    m.call(m.tensor("b", 640), "x")
    m.tensor("c", 1280 + pad)
    m.view("ca", 640, "c")
    m.view("cb", 640 + pad, "c", 640)
    m.call("ca", "a", [(0, 1)])
    m.call("cb", "b", [(0, 1)])
    m.call(m.tensor("y", 640, Role.OUTPUT), "c")
    return m.program()


def test_parts_of_a_concatenation_may_overwrite_their_operands() -> None:
    plan = planned(concat())
    assert where(plan, "ca") == where(plan, "a")
    assert where(plan, "cb") == where(plan, "b") == where(plan, "c") + 640
    assert plan.arena_bytes == 1280


def test_a_concatenation_is_live_from_its_first_part() -> None:
    program = concat(pad=64)
    plan = planned(program)
    assert plan.live is not None
    assert plan.live["c"] == (2, 5)
    assert plan.arena_bytes == plan.lower_bound_bytes == 640 + 1344


def test_the_unwritten_end_of_a_concatenation_is_free() -> None:
    """c = [f(x), h(g(f(x)))]: what g needs may lie where h's result comes later."""
    m = Maker()
    m.tensor("x", 64, Role.INPUT)
    m.tensor("c", 1280)
    m.view("head", 640, "c")
    m.view("tail", 640, "c", 640)
    m.call("head", "x")
    m.call(m.tensor("wide", 1920), "head")
    m.call(m.tensor("g", 128), "wide")
    m.call("tail", "g")
    m.call(m.tensor("y", 640, Role.OUTPUT), "c")
    plan = planned(m.program())
    assert plan.arena_bytes == plan.lower_bound_bytes == 640 + 1920 + 128
    assert plan.logical_bound_bytes == 640 + 1920 + 128
    assert plan.optimal


def test_scratch_lives_during_its_call() -> None:
    m = Maker()
    m.call(m.tensor("a", 640), m.tensor("x", 64, Role.INPUT), scratch=1000)
    m.call(m.tensor("b", 64), "a", scratch=100)
    m.call(m.tensor("y", 640, Role.OUTPUT), "b")
    plan = planned(m.program())
    assert plan.arena_bytes == 640 + 1024
    assert plan.logical_bound_bytes == 640 + 64


def test_logical_bound_counts_elements_and_each_value_once() -> None:
    """[1,3,5,5] float32 padded to 16 channels, and its row-major copy: 300 bytes."""
    m = Maker()
    m.tensor("x", 64, Role.INPUT)
    shape = (1, 3, 5, 5)
    m.tensors["b"] = Tensor("b", shape, F32, Role.TEMP, blocked(16), onnx_name="v")
    m.tensors["p"] = Tensor("p", shape, F32, Role.TEMP, onnx_name="v")
    m.call("b", "x")
    m.call("p", "b")
    m.call(m.tensor("y", 640, Role.OUTPUT), "p")
    plan = planned(m.program())
    assert plan.logical_bound_bytes == 300
    assert plan.arena_bytes == 1600 + 320


def test_text_form_is_stable() -> None:
    plan = planned(chain([100, 100], inplace=True))
    assert plan.text() == (
        "plan arena=128 lower_bound=128 (optimal) logical_bound=100 io=101 align=64 "
        "order not proven optimal\n"
        "  arena+0: t0 steps 0..1\n"
        "  arena+0: t1 steps 1..2\n"
        "  call 1: t1 in place of t0\n"
    )


def most_live(program: Program) -> int:
    """The most bytes live at one time with the planner's aliases."""
    live = [0] * len(program.calls)
    for group in decide(program).groups:
        for t, height in enumerate(group.size_profile, group.start):
            live[t] += height
    return max(live)


@pytest.mark.parametrize("block", range(6))
def test_random_programs_compute_the_same_in_their_arena(block: int) -> None:
    shared = reordered = met = 0
    for seed in range(block * 30, block * 30 + 30):
        program = random_program(seed, 6 + seed % 40)
        check_program(program)
        ordered = schedule(program, effort=3000)
        assert most_live(ordered) <= most_live(program)
        plan = planned(ordered)
        places = {n: p.offset for n, p in plan.placements.items()}
        expected = execute(program, None, 0)
        assert execute(ordered, places, plan.arena_bytes) == expected, seed
        shared += len(plan.inplace)
        reordered += ordered.calls != program.calls
        met += plan.arena_bytes == plan.lower_bound_bytes
    assert shared > 30
    assert reordered > 5
    assert met >= 25


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_with_inputs_and_outputs_in_the_arena(seed: int) -> None:
    program = random_program(seed, 12)
    want = execute(program, None, 0)
    own = schedule(arena_io(program))
    plan = planned(own)
    places = {n: p.offset for n, p in plan.placements.items()}
    assert execute(own, places, plan.arena_bytes) == want
    apart = planned(schedule(program)).arena_bytes
    ends = [program.tensors[n].nbytes for n in (*program.inputs, *program.outputs)]
    assert plan.io_bytes == 0
    assert sum(ends) <= plan.arena_bytes <= apart + sum(-(-n // 64) * 64 + 64 for n in ends)


def test_results_take_the_place_of_inputs_in_the_arena() -> None:
    plan = planned(schedule(arena_io(chain([640] * 6, inplace=True))))
    assert plan.arena_bytes == 640 + 64  # the output may not: it holds while inputs are filled


def test_outputs_lie_on_no_input() -> None:
    m = Maker()
    m.call(m.tensor("y", 640, Role.OUTPUT), m.tensor("x", 640, Role.INPUT), [(0, 1)])
    assert planned(arena_io(m.program())).arena_bytes == 2 * 640


def test_the_place_of_an_output_serves_until_it_is_written() -> None:
    """640 → 128 → 128 → 640: the middle fits on the ends, although all of both holds at once."""
    m = Maker()
    m.call(m.tensor("a", 128), m.tensor("x", 640, Role.INPUT))
    m.call(m.tensor("b", 128), "a")
    m.call(m.tensor("y", 640, Role.OUTPUT), "b")
    plan = planned(arena_io(m.program()))
    assert plan.arena_bytes <= 2 * 640 + 64


def test_a_value_that_is_read_twice_is_replaced() -> None:
    """x * x, and x * s + x with a number per channel that is computed."""
    net = Net(x=(np.float32, (1, 4, 8, 6)))
    square = net.add("Mul", *[net.add("Sin", "x")] * 2)
    value, mean = net.add("Sin", square), net.add("GlobalAveragePool", square)
    y = net.add("Sin", net.add("Add", net.add("Mul", value, net.add("Sqrt", mean)), value))
    plan = compile_model(net.model(**{y: np.float32}), Options(name="net")).plan
    assert {square, value} & {s.above for s in plan.inplace} and plan.arena_bytes < 2 * 4 * 4 * 48
