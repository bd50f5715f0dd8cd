# SPDX-License-Identifier: Apache-2.0
"""Products between two Transposes of channels."""

from __future__ import annotations

import pytest

from normalise_graphs import f32, model_of, node, run

BACK, FRONT = [0, 2, 3, 1], [0, 3, 1, 2]
BLOCK = [
    node("Transpose", ["x"], ["t"], perm=BACK),
    node("LayerNormalization", ["t", "s", "b"], ["n"]),
    node("MatMul", ["n", "v"], ["h"]),
    node("Add", ["h", "c"], ["i"]),
    node("Relu", ["i"], ["j"]),
    node("MatMul", ["j", "w"], ["k"]),
    node("Transpose", ["k"], ["f"], perm=FRONT),
    node("Mul", ["f", "g"], ["l"]),
    node("Add", ["l", "x"], ["y"]),
]


def block_constants():
    return {
        "s": f32(6),
        "b": f32(6),
        "v": f32(6, 9),
        "c": f32(9),
        "w": f32(9, 6),
        "g": f32(6, 1, 1),
    }


def test_products_between_transposes_become_convolutions():
    counts, result = run(model_of(BLOCK, {"x": (2, 6, 4, 5)}, ["y"], block_constants()))
    assert counts == {"Transpose": 2, "LayerNormalization": 1, "Conv": 2, "Relu": 1, "Add": 1}
    # The Transposes are around the normalisation, where one kernel takes all three.
    kinds = [each.op_type for each in result.graph]
    assert kinds[:4] == ["Transpose", "LayerNormalization", "Transpose", "Conv"]


def test_products_of_transposed_rows_alone_become_convolutions():
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["t", "w"], ["h"]),
        node("Tanh", ["h"], ["i"]),
        node("Transpose", ["i"], ["y"], perm=[0, 2, 1]),
    ]
    counts, _ = run(model_of(nodes, {"x": (2, 6, 5)}, ["y"], {"w": f32(6, 9)}))
    assert counts == {"Conv": 1, "Tanh": 1}


@pytest.mark.parametrize("change", ["another reader", "computed weights", "another order"])
def test_products_that_stay(change):
    nodes, constants, inputs = list(BLOCK), block_constants(), {"x": (2, 6, 4, 5)}
    outputs = ["y"]
    if change == "another reader":
        nodes.append(node("Relu", ["j"], ["z"]))
        nodes.append(node("Relu", ["k"], ["u"]))
        outputs += ["z", "u"]
    elif change == "computed weights":
        inputs |= {"v": (6, 9), "w": (9, 6)}
        del constants["v"], constants["w"]
    else:
        nodes[6] = node("Transpose", ["k"], ["f"], perm=[0, 3, 2, 1])
        nodes[8] = node("Add", ["l", "o"], ["y"])
        constants["o"] = f32(2, 6, 5, 4)
    counts, _ = run(model_of(nodes, inputs, outputs, constants))
    assert counts["MatMul"] == 2
    assert "Conv" not in counts
