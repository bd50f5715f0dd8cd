# SPDX-License-Identifier: Apache-2.0
"""Axes whose number is said by a run were taken as the most there can be: wrong results.

A Range of constant start and step is a constant of which a run uses the first elements; rules for
constant axes, pads and repeats took it whole.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from aot.errors import UnsupportedError
from aot.load import load
from graphs import model


@pytest.mark.parametrize(
    ("op", "inputs", "says"),
    [
        ("ReduceMax", "d r", "gets its axes at run time"),
        ("ReduceMean", "d r", "gets its axes at run time"),
        ("Unsqueeze", "d r", "gets its axes at run time"),
        ("Squeeze", "one r", "may drop a dimension"),
        ("CumSum", "d r", "gets its axis at run time"),
        ("Slice", "d three three r", 'as many numbers from "r" as a run says'),
        ("Pad", "d six none r", 'as many numbers from "r" as a run says'),
        ("Pad", "d r", 'as many numbers from "r" as a run says'),
        ("Tile", "d r", 'as many numbers from "r" as a run says'),
        ("Split", "d r", 'as many numbers from "r" as a run says'),
        ("TopK", "d r", 'as many numbers from "r" as a run says'),
    ],
)
def test_as_many_axes_as_a_run_says(op: str, inputs: str, says: str) -> None:
    outputs = {"Split": "y z w", "TopK": "y z"}.get(op, "y")
    rows = [("Min", "n most", "m"), ("Range", "zero m step", "r"), (op, inputs, outputs)]
    numbers = {"most": 3, "zero": 0, "step": 1, "three": [0, 0, 0], "six": [0] * 6}
    consts = {k: np.array(v, np.int64) for k, v in numbers.items()} | {"none": np.zeros((), "f4")}
    sizes: dict[str, list[int | str]] = {"n": [], "d": [2, 3, 4], "one": [1, 1, 1]}
    graph = model(rows, sizes, {"y": None}, consts, {"n": TensorProto.INT64})
    with pytest.raises(UnsupportedError, match=says):
        load(graph)
