# SPDX-License-Identifier: Apache-2.0
"""Bounds of results hold for numbers between the bounds of the operands, rounded as float32."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from aot.ir.graph_nodes import set_type
from aot.ops.registry import load_all
from aot.shapes.evaluate import evaluate
from aot.shapes.interval_analysis import Bounds

FLOATS, INTS = 1, 7
#: Operators, the number of operands, and whether these must be positive.
ONE = "Abs Ceil Exp Floor Neg Relu Round Sigmoid Sign Tanh"
POSITIVE = "Log Reciprocal Sqrt"
MORE = "Add Max Mean Min Mul Sub Sum"
KINDS = [(name, 1, False, FLOATS) for name in ONE.split()]
KINDS += [(name, 1, True, FLOATS) for name in POSITIVE.split()]
KINDS += [(name, 2, False, FLOATS) for name in MORE.split()]
KINDS += [(name, 3, False, FLOATS) for name in ("Clip", "Mean", "Sum")]
KINDS += [(name, 2, True, FLOATS) for name in ("Div", "Pow")]
KINDS += [(name, 2, True, INTS) for name in ("Mod", "Div")]
KINDS += [
    (name, 1, False, FLOATS) for name in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum")
]


@pytest.mark.parametrize(("name", "count", "positive", "kind"), KINDS)
def test_results_lie_between_the_bounds(name: str, count: int, positive: bool, kind: int) -> None:
    load_all()
    rng, dtype = np.random.default_rng(count), np.float32 if kind == FLOATS else np.int64
    for _ in range(30):
        shapes = [(5,), *[() if name == "Clip" else (5,)] * (count - 1)]
        values = [ir.Value(name=f"x{i}") for i in range(count)]
        for value, shape in zip(values, shapes, strict=True):
            set_type(value, kind, shape)
        node = ir.Node("", name, values, num_outputs=1)
        node.outputs[0].name = "y"
        found = Bounds({})
        ends = np.sort(rng.uniform(1 if positive else -9, 9, (count, 2)).astype(dtype), axis=1)
        for value, (least, most) in zip(values, ends, strict=True):
            found.size(value, float(most), float(least))
        draws = [
            [rng.uniform(a, b, s).astype(dtype) for (a, b), s in zip(ends, shapes, strict=True)]
            for _ in range(20)
        ]
        draws += [
            [np.full(s, e[k], dtype) for e, s in zip(ends, shapes, strict=True)] for k in (0, 1)
        ]
        results = [np.asarray(evaluate(node, draw)[0], np.float64) for draw in draws]
        set_type(node.outputs[0], kind, results[0].shape)
        limits = found.of(node.outputs[0])
        assert limits is not None and np.isfinite([limits.low, limits.high]).all()
        for result in results:
            assert (limits.low <= result).all() and (result <= limits.high).all()


def test_elements_of_computed_places_lie_between_the_bounds_of_all() -> None:
    load_all()
    data, place = ir.Value(name="x"), ir.Value(name="i")
    set_type(data, FLOATS, (5, 4))
    set_type(place, INTS, ())
    node = ir.Node("", "Gather", [data, place], num_outputs=1)
    node.outputs[0].name = "y"
    set_type(node.outputs[0], FLOATS, (4,))
    found = Bounds({})
    assert found.of(node.outputs[0]) is not None  # those of the type
    found = Bounds({})
    found.size(data, 7.0, -2.0)
    limits = found.of(node.outputs[0])
    assert limits is not None and limits.low.tolist() == [-2.0] * 4
    assert limits.high.tolist() == [7.0] * 4
