# SPDX-License-Identifier: Apache-2.0
"""Operands that do not belong to each other, which onnx's inference lets pass.

Kernels read as many elements as the shapes of others say: these read behind an operand's end, or
gave a part of the result. `tests/fuzz/misfits.py` tries every operand of every declared case.
"""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

from aot.errors import ModelError
from aot.load import load

Q = [2, 3, 7, 8]
K = [2, 3, 19, 8]
V = [2, 3, 19, 12]
#: operator, shapes of its inputs, their types if not float, attributes, what is said
CASES: list[tuple[str, list[list[int]], dict[int, int], dict[str, Any], str]] = [
    ("Attention", [[3, *Q[1:]], K, V], {}, {}, "queries [3, 3, 7, 8], keys"),
    ("Attention", [Q, [*K[:3], 9], V], {}, {}, "that do not fit"),
    ("Attention", [Q, K, [2, 3, 18, 12]], {}, {}, "that do not fit"),
    ("Attention", [Q, K, V, [2, 2, 7, 19]], {}, {}, "a mask [2, 2, 7, 19] for [2, 3, 7, 19]"),
    ("ConvTranspose", [[1, 3, 5], [3, 4, 2], [3]], {}, {}, "bias [3] should be [4]"),
    (
        "DeformConv",
        [[1, 2, 4, 4], [3, 2, 1, 1], [1, 2, 4, 4], [1]],
        {},
        {},
        "bias [1] should be [3]",
    ),
    ("Gemm", [[3, 4], [4, 5], [4, 5]], {}, {}, "the addend [4, 5] does not repeat to [3, 5]"),
    ("GroupNormalization", [[1, 4, 2], [4], [2]], {}, {"num_groups": 2}, "bias [2] should be [4]"),
    ("InstanceNormalization", [[1, 4, 2], [1], [4]], {}, {}, "scale [1] should be [4]"),
    ("InstanceNormalization", [[1, 4], [4], [4]], {}, {}, "needs 3 axes or more"),
    ("PRelu", [[1], [4]], {}, {}, "the slope [4] does not repeat to [1]"),
    ("PRelu", [[], [5, 1, 1]], {}, {}, "the slope [5, 1, 1] does not repeat to []"),
    ("RMSNormalization", [[2, 4], [3]], {}, {}, "scale [3] does not repeat to [2, 4]"),
    ("LayerNormalization", [[2, 4], [4], [2, 2, 4]], {}, {}, "bias [2, 2, 4] does not repeat"),
    ("ReverseSequence", [[4, 3, 2], [2]], {1: T.INT64}, {}, "sequence_lens [2] should be [3]"),
    ("GatherND", [[2, 3], [3, 1]], {1: T.INT64}, {"batch_dims": 1}, "batch_dims 1 of data [2, 3]"),
    ("CumSum", [[2, 3], [2]], {1: T.INT64}, {}, "the axis [2] is not one"),
    (
        "ConvInteger",
        [[1, 2, 4], [3, 2, 1], [2]],
        dict.fromkeys(range(3), T.UINT8),
        {},
        "x_zero_point [2] should be [] or [1]",
    ),
]


def model(
    op: str, shapes: list[list[int]], kinds: dict[int, int], attrs: dict[str, Any]
) -> onnx.ModelProto:
    """A model of one node."""
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = [
        helper.make_tensor_value_info(n, kinds.get(i, T.FLOAT), s)
        for i, (n, s) in enumerate(zip(names, shapes, strict=True))
    ]
    kind = T.INT32 if op == "ConvInteger" else T.FLOAT
    y = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attrs)], "g", inputs, [y])
    opset = helper.make_opsetid("", onnx.defs.onnx_opset_version())
    return helper.make_model(graph, opset_imports=[opset])


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[4][:20]}")
def test_they_are_named(
    case: tuple[str, list[list[int]], dict[int, int], dict[str, Any], str],
) -> None:
    *what, says = case
    with pytest.raises(ModelError) as caught:
        load(model(*what))
    assert says in str(caught.value)
    assert case[0] in str(caught.value)
