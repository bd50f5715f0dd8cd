# SPDX-License-Identifier: Apache-2.0
"""Numbers of a window that cannot be were told by what they led to, or not at all.

`pads` of 2^40 gave "shape [1, 1, 2199023255554, …] has … elements" or "dimension 2 is
-2199023255546" without the word pads. A `kernel_shape` other than the window of the weights
computed with one of the two, or was "a window of 5 does not fit 4 elements".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aot.errors import ModelError
from aot.load import load
from graphs import model

FAR = 1 << 40
WEIGHTS = ("Conv", "ConvTranspose")
POOLS = ("MaxPool", "AveragePool", "LpPool")


def built(op: str, **attributes: Any) -> Any:
    """A model of one node, on an image of 4 by 4 and with weights of 3 by 3."""
    weighted = op in WEIGHTS
    if not weighted:
        attributes.setdefault("kernel_shape", [2, 2])
    row = (op, "x w" if weighted else "x", "y", attributes)
    consts = {"w": np.ones((1, 1, 3, 3), np.float32)} if weighted else {}
    return model([row], {"x": [1, 1, 4, 4]}, {"y": None}, consts)


@pytest.mark.parametrize("op", [*WEIGHTS, *POOLS])
@pytest.mark.parametrize("name", ["pads", "strides", "dilations", "kernel_shape"])
def test_the_attribute_and_its_value_are_named(op: str, name: str) -> None:
    values = [FAR] * (4 if name == "pads" else 2)
    with pytest.raises(ModelError) as caught:
        load(built(op, **{name: values}))
    said = str(caught.value)
    assert f"{name} {values}" in said and op in said and "hint: " in said


def test_pads_of_pad_are_an_input() -> None:
    row = ("Pad", "x p", "y")
    pads = np.array([0, 0, FAR, 0, 0, 0, 0, 0], np.int64)
    with pytest.raises(ModelError, match=r"pads \[0, 0, 1099511627776, 0, 0, 0, 0, 0\]"):
        load(model([row], {"x": [1, 1, 4, 4]}, {"y": None}, {"p": pads}))


def test_what_makes_a_result_too_large_is_listed() -> None:
    with pytest.raises(ModelError, match=r"elements \(limit[^\n]*\n.*pads \[1048576, 1048576"):
        load(built("Conv", pads=[1 << 20] * 4))


@pytest.mark.parametrize("kernel", [[5, 5], [3, 2], [3]])
@pytest.mark.parametrize("op", WEIGHTS)
def test_kernel_shape_is_compared_with_the_weights(op: str, kernel: list[int]) -> None:
    with pytest.raises(ModelError) as caught:
        load(built(op, kernel_shape=kernel))
    said = str(caught.value)
    assert f"kernel_shape {kernel} is not the window [3, 3]" in said
    assert 'weights "w" [1, 1, 3, 3]' in said and "hint: " in said


@pytest.mark.parametrize("op", WEIGHTS)
def test_the_window_of_the_weights_may_be_repeated(op: str) -> None:
    load(built(op, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]))
