# SPDX-License-Identifier: Apache-2.0
"""Channels that nobody reads are dropped, and only those."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.graph_nodes import CHANNELS_KEY
from aot.ir.layout import PLAIN
from aot.tools.layerwise import Written, known
from quant_graphs import (
    S8,
    S32,
    SW,
    SX,
    Net,
    check,
    in_onnxruntime,
    quantised_values,
    scales,
    values,
)

USED = [1, 2, 5, 11, 13]


def between_zeros(count, *shape):
    """Weights [count, 16, …] that are zero for all but the channels in USED."""
    weights = quantised_values(count, 16, *shape)
    weights[:, [k for k in range(16) if k not in USED]] = 0
    return weights


def chain(weights, *, bias=True, also=False, group=16, between="Relu", **attributes):
    """Conv 3 to 16, depthwise, Conv 16 to 6; `also`: something else reads the first's result.

    `between` with its `attributes` reads what the first computes.
    """
    net = Net(x=(S8, (1, 3, 9, 9)))
    first = net.dq(quantised_values(16, 3, 3, 3), RNG_SCALES, np.zeros(16, S8), axis=0)
    biases = [
        net.dq(
            quantised_values(16, dtype=S8).astype(S32) * 40,
            RNG_SCALES * SX,
            np.zeros(16, S32),
            axis=0,
        )
    ]
    a = net.add("Conv", net.dq("x", SX, S8(3)), first, *(biases if bias else []))
    a = net.q(net.add(between, a, **attributes), 0.05, S8(-128), out="a")
    per_channel = net.dq(quantised_values(16, 16 // group, 3, 3), SW, S8(0))
    b = net.add("Conv", net.dq(a, 0.05, S8(-128)), per_channel, group=group, pads=[1, 1, 1, 1])
    b = net.q(net.add("Relu", b), 0.05, S8(-128), out="b")
    outputs = {"y": S8}
    if also:
        net.add("Transpose", a, out="z", perm=[0, 2, 3, 1])
        outputs["z"] = S8
    c = net.add("Conv", net.dq(b, 0.05, S8(-128)), net.dq(weights, SW, S8(0)))
    net.q(c, 0.3, S8(0), out="y")
    return net.model(**outputs)


RNG_SCALES = scales(*np.linspace(0.01, 0.03, 16))


def channels(result):
    named = values(result)
    return [named[k].shape[1] for k in ("a", "b")]


def test_the_whole_chain_loses_them():
    for bias in (True, False):
        _, result = check(chain(between_zeros(6, 1, 1), bias=bias))
        assert channels(result) == [8, 8]
        kept = values(result)["b"].metadata_props[CHANNELS_KEY].split()
        assert set(USED) < {int(k) for k in kept} and len(kept) == 8


def test_every_elementwise_operator_lets_them_go():
    for between in ("Mish", "Exp", "Sqrt"):
        _, result = check(chain(between_zeros(6, 1, 1), between=between))
        assert channels(result) == [8, 8]


@pytest.mark.parametrize(
    ("between", "attributes"),
    [("LpPool", {"kernel_shape": [2, 2], "p": 3}), ("GlobalLpPool", {"p": 1})],
)
def test_pools_of_norms_let_them_go(between, attributes):
    proto = chain(between_zeros(6, 1, 1), between=between, **attributes)
    _, result = check(proto, run=in_onnxruntime)
    assert channels(result) == [8, 8]


def test_nothing_is_dropped_in_vain():
    _, result = check(chain(quantised_values(6, 16, 1, 1)))
    assert channels(result) == [16, 16]


def test_another_reader_or_another_order_of_channels_stops_it():
    for more in ({"also": True}, {"group": 4}):
        _, result = check(chain(between_zeros(6, 1, 1), **more))
        assert channels(result) == [16, 16]


def test_a_second_round_counts_in_channels_of_the_file():
    net = Net(x=(S8, (1, 3, 6, 6)))
    first = between_zeros(16, 1, 1)[:, :3]
    first[:, 0] = 7
    a = net.add("Conv", net.dq("x", SX, S8(3)), net.dq(first, SW, S8(0)))
    a = net.q(a, 0.05, S8(0), out="a")
    second = quantised_values(16, 16, 1, 1)
    second[:, :8] = 0
    second[:, 8] = 0
    second[7, 8] = 5  # read by a channel that nobody reads
    b = net.add("Conv", net.dq(a, 0.05, S8(0)), net.dq(second, SW, S8(0)))
    b = net.q(b, 0.05, S8(0), out="b")
    c = net.add("Conv", net.dq(b, 0.05, S8(0)), net.dq(between_zeros(6, 1, 1), SW, S8(0)))
    net.q(c, 0.3, S8(0), out="y")
    _, result = check(net.model(y=S8))
    named = values(result)
    assert (named["a"].shape[1], named["b"].shape[1]) == (8, 8)
    kept = [int(k) for k in named["a"].metadata_props[CHANNELS_KEY].split()]
    assert set(range(9, 16)) < set(kept)


def test_verify_compares_the_channels_that_are_left():
    theirs = {"a": np.arange(2 * 6 * 3, dtype=np.int8).reshape(2, 6, 3)}
    some = Written("a", (2, 2, 3), "int8", PLAIN, 0, (1, 4))
    assert known({(0, 0): some}, theirs) == {(0, 0): some}
    np.testing.assert_array_equal(some.part(theirs["a"]), theirs["a"][:, [1, 4]])
    assert some.to_store(theirs["a"]) == theirs["a"][:, [1, 4]].tobytes()
    for wrong in (
        Written("a", (2, 2, 3), "int8", PLAIN, 0),
        Written("a", (2, 2, 3), "int8", PLAIN, 0, (1, 6)),
    ):
        assert known({(0, 0): wrong}, theirs) == {}
