# SPDX-License-Identifier: Apache-2.0
"""A constant without elements kept its shape where a Transpose was moved behind its operator."""

from __future__ import annotations

import numpy as np

from aot.options import Options
from aot.pipeline import compile_model
from graphs import model


def test_a_constant_without_elements_is_transposed() -> None:
    rows = [
        ("Max", "none c", "a"),
        ("Max", "none c", "z"),
        ("Reshape", "z turned", "b", {"allowzero": 1}),
        ("Transpose", "b", "t", {"perm": [1, 0]}),
        ("Min", "a t", "y"),
    ]
    none = np.zeros((0, 3), np.float32)
    consts = {"none": none, "c": none[:, :1], "turned": np.array([3, 0], np.int64)}
    net = model(rows, {}, {"y": [0, 3], "z": [0, 3]}, consts)
    made = compile_model(net, Options(name="net", target="x86-64-v3"))
    results = [made.program.tensors[name].shape for name in made.program.outputs]
    assert results == [(0, 3), (0, 3)]
