# SPDX-License-Identifier: Apache-2.0
"""Operands that do not belong to each other, which onnx's inference lets pass.

Kernels read as many elements as the shapes of others say: these read behind an operand's end, or
gave a part of the result. `tests/fuzz/misfits.py` tries every operand of every declared case.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T, helper, numpy_helper

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
    ("Slice", [[4, 5], [1], [2]], {1: T.INT64, 2: T.INT64}, {}, "ends [2] should be [1]"),
    ("CumSum", [[], []], {1: T.INT64}, {}, "needs 1 axes or more"),
    ("LpNormalization", [[]], {}, {}, "needs 1 axes or more"),
    ("Transpose", [[1, 3, 5, 7]], {}, {"perm": [0, 2, 1]}, "perm [0, 2, 1] of a tensor of 4 axes"),
    ("DepthToSpace", [[2, 11, 3, 5]], {}, {"blocksize": 2}, "blocks of 2 by 2 of an input [2, 11"),
    ("Einsum", [[4, 1]], {}, {"equation": "ii->i"}, '"i" of "ii" is 1 and 4'),
    ("Trilu", [[4, 5], [2]], {1: T.INT64}, {}, "k [2] is not one"),
    (
        "RotaryEmbedding",
        [[2, 4, 3, 20], [7, 10], [7, 11], [2, 3]],
        {3: T.INT64},
        {},
        "cosines [7, 10] and sines [7, 11] should be of one shape",
    ),
    (
        "RotaryEmbedding",
        [[2, 4, 3, 20], [7, 9], [7, 9], [2, 3]],
        {3: T.INT64},
        {},
        "cosines [7, 9] should be [7, 10]",
    ),
    (
        "RotaryEmbedding",
        [[2, 4, 3, 20], [7, 10], [7, 10], [1, 3]],
        {3: T.INT64},
        {},
        "position_ids [1, 3] should be [2, 3]",
    ),
    (
        "RotaryEmbedding",
        [[2, 3, 99], [7, 12], [7, 12], [2, 3]],
        {3: T.INT64},
        {"num_heads": 4},
        "4 heads of an input [2, 3, 99]",
    ),
    (
        "MatMulInteger",
        [[3, 5], [5, 1], [], [7]],
        dict.fromkeys(range(4), T.UINT8),
        {},
        "b_zero_point [7] should be [] or [1]",
    ),
    (
        "DequantizeLinear",
        [[2, 3], [1, 3], [1, 3]],
        {0: T.INT8, 2: T.INT8},
        {"axis": 1},
        "scales [1, 3] without block_size",
    ),
    (
        "QuantizeLinear",
        [[2, 3], [3], [3, 1]],
        {2: T.INT8},
        {"axis": 1},
        "zero points of shape [3, 1] for scales of shape [3]",
    ),
    (
        "com.microsoft.MatMulNBits",
        [[2, 40], [37, 3, 16], [74]],
        {1: T.UINT8},
        {"N": 37, "K": 40, "block_size": 32},
        "B [37, 3, 16] should be [37, 2, 16]",
    ),
    (
        "com.microsoft.MatMulNBits",
        [[2, 40], [37, 2, 16], [74], [74]],
        {1: T.UINT8, 3: T.UINT8},
        {"N": 37, "K": 40, "block_size": 32},
        "zero_points [74] should be [37, 1] or [37]",
    ),
]
#: operator, shape of its data, its constants by place, what is said
LISTS: list[tuple[str, list[int], dict[int, Any], str]] = [
    ("Reshape", [2, 3], {1: [[3], [2]]}, "the shape [2, 1] should be a list"),
    ("Slice", [4, 5], {1: [[1]], 2: [3]}, "starts [1, 1] should be a list"),
    ("Slice", [4, 5], {1: [1], 2: [3], 3: 0}, "axes [] should be a list"),
    ("Slice", [4, 5], {1: [1], 2: [3], 3: [0], 4: [[1]]}, "steps [1, 1] should be a list"),
    ("Split", [4, 5], {1: [[4]]}, "the lengths [1, 1] should be a list"),
    ("Squeeze", [1, 3, 1], {1: [[0, 2]]}, "axes [1, 2] should be a list"),
    ("Unsqueeze", [3], {1: [[0, 2]]}, "axes [1, 2] should be a list"),
    ("ReduceSum", [2, 3], {1: [[0, 1]]}, "axes [1, 2] should be a list"),
    ("ReduceLogSumExp", [2, 3], {1: [[0], [1]]}, "axes [2, 1] should be a list"),
    ("Pad", [2, 3], {1: [0, 1, 0, 1], 2: np.ones(2, np.float32)}, "the constant [2] is not one"),
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
    kind = T.INT32 if op.endswith("Integer") else T.INT8 if op == "QuantizeLinear" else T.FLOAT
    y = helper.make_tensor_value_info("y", kind, None)
    domain, _, name = op.rpartition(".")
    node = helper.make_node(name, names, ["y"], domain=domain, **attrs)
    graph = helper.make_graph([node], "g", inputs, [y])
    opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version())]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    return helper.make_model(graph, opset_imports=opsets)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[4][:20]}")
def test_they_are_named(
    case: tuple[str, list[list[int]], dict[int, int], dict[str, Any], str],
) -> None:
    *what, says = case
    with pytest.raises(ModelError) as caught:
        load(model(*what))
    assert says in str(caught.value)
    assert case[0].rpartition(".")[2] in str(caught.value)


@pytest.mark.parametrize("case", LISTS, ids=lambda c: f"{c[0]}-{c[3][:20]}")
def test_lists_have_one_axis(case: tuple[str, list[int], dict[int, Any], str]) -> None:
    op, shape, constants, says = case
    made = model(op, [shape], {}, {})
    node = made.graph.node[0]
    for place, value in constants.items():
        array = value if isinstance(value, np.ndarray) else np.array(value, np.int64)
        made.graph.initializer.append(numpy_helper.from_array(array, f"x{place}"))
        node.input.append(f"x{place}")
    with pytest.raises(ModelError) as caught:
        load(made)
    assert says in str(caught.value)
