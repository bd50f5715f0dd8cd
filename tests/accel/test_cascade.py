# SPDX-License-Identifier: Apache-2.0
"""Layers of a cascade, row by row, and tensors that pass through rings."""

from __future__ import annotations

import numpy as np
import pytest
from accel_networks import Net
from test_compile import check

from aot.vendor.accel_sim.cascade import Cascade, rings, rows_needed
from aot.vendor.accel_sim.choose_cascades import CascadeChoice
from aot.vendor.accel_sim.compile import compile_network
from aot.vendor.accel_sim.config import config
from aot.vendor.accel_sim.fitting import planned
from aot.vendor.accel_sim.kinds import Rq
from aot.vendor.accel_sim.layers import Tiling
from aot.vendor.accel_sim.network import AccelOptions
from aot.vendor.accel_sim.places import resolve


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("aot.vendor.accel_sim.search.BUDGET", 0)


def block(side: int, seed: int = 0, rq: Rq = Rq.FLOAT, wide: int = 24, stride: int = 1):
    """Wider, by depth, narrower, with a residual where it fits: tensors of side * side."""
    n = Net(seed, rq)
    x = n.conv(n.input(side, side, 3), 8, 3, 3)
    y = n.dw(n.conv(x, wide), 3, 3, stride)
    y = n.conv(y, 8, residual=x if stride == 1 else None)
    y = n.pool("max", n.conv(y, wide, 3, 3), 2, 2, 2)
    return n.network(n.conv(n.conv(y, 4), 5, 9, 1, 4))


def no_cascades(monkeypatch):
    monkeypatch.setattr(
        "aot.vendor.accel_sim.choose_cascades.CascadeChoice.better", lambda self, layout: layout
    )


@pytest.mark.parametrize("macs, side, stride", [(64, 48, 1), (64, 61, 2), (256, 88, 2)])
def test_turns_compute_the_same_with_less_memory(monkeypatch, macs, side, stride):
    network = block(side, seed=side, stride=stride, rq=Rq.TFLITE if side % 2 else Rq.FLOAT)
    cascade = check(network, macs)
    no_cascades(monkeypatch)
    alone = compile_network(network, config(macs))
    assert alone.spill > 0
    assert cascade.spill < alone.spill and cascade.cycles < alone.cycles


def test_the_objective_ram_takes_turns_wherever_it_can(monkeypatch):
    network = block(72, wide=40)
    plain = check(network, 64)
    small = check(network, 64, AccelOptions(objective="ram"))
    assert small.spill <= plain.spill


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("window, stride", [(1, 1), (3, 1), (3, 2), (5, 3)])
def test_rings_hold_what_is_still_read(rows, window, stride, ahead):
    n = Net(0)
    a = n.conv(n.input(23, 7, 3), 4, 3, 3)
    b = n.conv(a, 4, window, window, stride)
    c = n.conv(b, 4, 3, 3, residual=b)
    plan = resolve(n.network(c))
    tilings = [Tiling(rows, 7)] * 3
    found = rings(plan, range(3), tilings, (a, b), True, ahead)
    held = {a: {}, b: {}}
    cascade = Cascade(plan, range(3), tilings, ahead)
    for member, number in cascade.order():
        layer, (first, last) = cascade.layer(member), cascade.steps(member)[number]
        for index in held.keys() & set(layer.inputs):
            for y in range(*rows_needed(plan, layer, index, first, last)):
                assert held[index][y % found[index]] == y
        if layer.output in held:
            held[layer.output].update({y % found[layer.output]: y for y in range(first, last)})
    assert cascade.made(2) == plan.tensors[c].height
    assert found[b] <= (2 + ahead) * rows + 4


def test_a_column_of_rows_is_read_in_rings():
    """Long and thin: windows down a tensor that does not fit, and its rows as pixels."""
    n = Net(3)
    x = n.conv(n.input(1500, 1, 16), 24, 9, 1, 2)
    network = n.network(n.alu("clip", n.conv(x, 8, 5, 1)))
    assert check(network, 64).spm <= config(64).spm
    flat = Net(4)
    y = flat.alu("clip", flat.input(1, 900, 60))
    check(flat.network(y), 64)
    assert np.prod(flat.tensors[y].shape) > config(64).spm


@pytest.mark.parametrize("strides", [None, (13, 1, 13 * 14)])
def test_pooling_over_all_rows_comes_in_slabs_of_channels(strides):
    n = Net(7)
    x = n.input(14, 13, 400, strides=strides)
    compiled = check(n.network(n.conv(n.pool("average", x, 14, 13), 7)), 64)
    assert [layer.kind for layer in compiled.layers] == ["average", "conv"]


def test_cascades_behind_each_other_share_no_scratch():
    """What one reads until its end and what it writes from its beginning are there together."""
    n = Net(9, dtype="f32")
    x = n.dw(n.input(60, 80, 32), 3, 3, 2)
    for _ in range(2):
        x = n.dw(n.conv(x, 64), 3, 3)
    network = n.network(n.conv(x, 64))
    options = AccelOptions()
    plan, layout = planned(network, config(256), options)
    layout = CascadeChoice(plan, config(256), options).better(layout)
    assert len(layout.cascades) > 1 and len(layout.spills) > 1
    check(network, 256)
