# SPDX-License-Identifier: Apache-2.0
"""The nearest Resize chose the wrong neighbour where a position is an element or between two.

From 7 elements to 9, (4 + 1/2) * 7 / 9 - 1/2 is 3; by way of the quotient 9 / 7 it was
a little less.
By a factor like 0.6, which float32 does not hold, onnxruntime's float32 positions decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from aot.vendor.resize import AxisPlan, nearest

ROUNDING: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda x: math.ceil(x - Fraction(1, 2)),
    "round_prefer_ceil": lambda x: math.floor(x + Fraction(1, 2)),
}
HALF = Fraction(1, 2)
#: Positions by output index, and the two sizes.
EXACT: dict[str, Callable[[int, int, int], Fraction]] = {
    "half_pixel": lambda i, n, m: (i + HALF) * n / m - HALF,
    "half_pixel_symmetric": lambda i, n, m: (i + HALF) * n / m - HALF,
    "pytorch_half_pixel": lambda i, n, m: (i + HALF) * n / m - HALF if m > 1 else Fraction(0),
    "asymmetric": lambda i, n, m: Fraction(i * n, m),
    "align_corners": lambda i, n, m: Fraction(i * (n - 1), max(m - 1, 1)),
    "tf_half_pixel_for_nn": lambda i, n, m: (i + HALF) * n / m,
}


@pytest.mark.parametrize("rounding", ROUNDING)
@pytest.mark.parametrize("transform", EXACT)
def test_exact_positions_decide_between_sizes(transform: str, rounding: str) -> None:
    for n in range(1, 40):
        for m in range(1, 40):
            exact = [ROUNDING[rounding](EXACT[transform](i, n, m)) for i in range(m)]
            want = [min(max(x, 0), n - 1) for x in exact]
            got = nearest(AxisPlan(3, n, m, m / n, ratio=(n, m)), transform, rounding)
            assert got.tolist() == want, (n, m)


def test_seven_to_nine() -> None:
    plan = AxisPlan(3, 7, 9, 9 / 7, ratio=(7, 9))
    assert nearest(plan, "half_pixel", "floor").tolist() == [0, 0, 1, 2, 3, 3, 4, 5, 6]


def by_onnxruntime(n: int, scale: float, transform: str, rounding: str) -> list[int]:
    scales = numpy_helper.from_array(np.array([1, 1, 1, scale], np.float32), "s")
    roi = numpy_helper.from_array(np.zeros(0, np.float32), "r")
    node = helper.make_node(
        "Resize",
        ["x", "r", "s"],
        ["y"],
        nearest_mode=rounding,
        coordinate_transformation_mode=transform,
    )
    info = helper.make_tensor_value_info
    ends = [info("x", TensorProto.FLOAT, [1, 1, 1, n])]
    outs = [info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "g", ends, outs, [roi, scales])
    opset = 11 if transform == "tf_half_pixel_for_nn" else 19
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    x = np.arange(n, dtype=np.float32).reshape(1, 1, 1, n)
    return [int(v) for v in np.asarray(session.run(None, {"x": x})[0]).ravel()]


FACTORS = [(7, 0.7), (10, 0.6), (17, 2.1), (20, 1.2), (22, 2.9), (31, 0.3), (33, 1.2), (39, 1.3)]


@pytest.mark.parametrize("rounding", ROUNDING)
@pytest.mark.parametrize("transform", [t for t in EXACT if t != "align_corners"])
def test_single_positions_decide_by_factors(transform: str, rounding: str) -> None:
    for n, factor in FACTORS:
        scale = float(np.float32(factor))
        m = int(np.floor(np.float32(n) * np.float32(factor)))
        got = nearest(AxisPlan(3, n, m, scale, given=True), transform, rounding)
        assert got.tolist() == by_onnxruntime(n, scale, transform, rounding), (n, factor)
