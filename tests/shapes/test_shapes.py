# SPDX-License-Identifier: Apache-2.0
"""The value interpreter: evaluation and partially known values against the reference."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from aot.ir.opset import canonical_opset
from aot.shapes.evaluate import Invalid, evaluate
from aot.shapes.limits import MAX_ELEMENTS, excess
from aot.shapes.partial_values import Known, propagate
from aot.shapes.signatures import type_problem

I64 = np.int64


def make(op, arrays, outputs=1, **attributes):
    values = []
    for index, array in enumerate(arrays):
        if array is None:
            values.append(None)
            continue
        array = np.asarray(array)
        values.append(
            ir.Value(
                name=f"i{index}",
                shape=ir.Shape(array.shape),
                type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
            )
        )
    attrs = [ir.convenience.convert_attribute(k, v) for k, v in attributes.items()]
    node = ir.Node("", op, values, attrs, num_outputs=outputs)
    for index, value in enumerate(node.outputs):
        value.name = f"o{index}"
    return node


X = np.arange(24, dtype=I64).reshape(2, 3, 4)
CASES = [
    ("Gather", [X, np.array([-1, 0], I64)], {"axis": 1}),
    (
        "Slice",
        [X, np.array([2], I64), np.array([-99], I64), np.array([2], I64), np.array([-2], I64)],
        {},
    ),
    ("Slice", [X, np.array([1, 0], I64), np.array([99, 2], I64)], {}),
    ("Concat", [X, X], {"axis": -1}),
    ("Unsqueeze", [X, np.array([-1, 0], I64)], {}),
    ("Squeeze", [X[:1], np.array([0], I64)], {}),
    ("Squeeze", [X[:1, :, :1]], {}),
    ("Reshape", [X, np.array([0, -1], I64)], {}),
    ("Flatten", [X], {"axis": -1}),
    ("Transpose", [X], {"perm": [2, 0, 1]}),
    ("Expand", [X[:, :1], np.array([3, 1], I64)], {}),
    ("Tile", [X, np.array([1, 2, 1], I64)], {}),
    ("Cast", [np.array([1.9, -1.9], np.float32)], {"to": 7}),
    ("Cast", [np.array([0, 3, -1], I64)], {"to": 9}),
    ("Cast", [np.array([0.5, 3], np.float32)], {"to": 16}),
    ("Div", [np.array([7, -7, 6], I64), np.array([2, 2, -3], I64)], {}),
    ("Mod", [np.array([7, -7, 6], I64), np.array([2, 2, -4], I64)], {}),
    ("Mod", [np.array([7, -7], I64), np.array([4, 4], I64)], {"fmod": 1}),
    ("Range", [np.array(10, I64), np.array(0, I64), np.array(-3, I64)], {}),
    ("Range", [np.float32(0), np.float32(1), np.float32(0.3)], {}),
    ("ConstantOfShape", [np.array([2, 3], I64)], {}),
    ("ReduceProd", [X[0] + 1, np.array([0], I64)], {"keepdims": 0}),
    ("ReduceMax", [X], {"keepdims": 1}),
    ("Where", [X % 2 == 0, X, -X], {}),
    ("Equal", [X, np.array(5, I64)], {}),
    ("Shape", [X], {"start": -2}),
    ("Size", [X], {}),
    ("Min", [X, np.array(5, I64), X + 1], {}),
]


@pytest.mark.parametrize(("op", "arrays", "attributes"), CASES)
def test_evaluation_equals_the_reference(op, arrays, attributes):
    node = make(op, arrays, **attributes)
    found = evaluate(node, arrays)
    proto = ir.serde.serialize_node(node)
    feeds = {f"i{i}": np.asarray(a) for i, a in enumerate(arrays)}
    wanted = ReferenceEvaluator(proto, opsets={"": canonical_opset()}).run(None, feeds)
    for want, got in zip(wanted, found, strict=True):
        assert got.dtype == want.dtype and np.array_equal(got, want)


def test_operators_without_a_rule_go_to_the_reference():
    x = np.array([[0.0, 1.0]], np.float32)
    (found,) = evaluate(make("Softplus", [x]), [x])
    np.testing.assert_allclose(found, np.log1p(np.exp(x)), rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "arrays"),
    [
        ("Gather", [X, np.array([2], I64)]),
        ("Range", [np.array(0, I64), np.array(5, I64), np.array(0, I64)]),
        ("Add", [np.zeros(2, I64), np.zeros(3, I64)]),
    ],
)
def test_impossible_evaluations_are_invalid(op, arrays):
    with pytest.raises(Invalid):
        evaluate(make(op, arrays), arrays)


def partial(op, known, **attributes):
    """Items of the first output where inputs are lists (None: unknown element) or arrays."""
    arrays = [
        np.array([0 if v is None else v for v in k], I64) if isinstance(k, list) else k
        for k in known
    ]
    node = make(op, arrays, **attributes)
    partial_values = {}
    for value, given, array in zip(node.inputs, known, arrays, strict=True):
        mask = np.array([v is not None for v in given]) if isinstance(given, list) else None
        partial_values[value] = Known(array, mask)
    propagate(node, partial_values)
    found = partial_values.get(node.outputs[0])
    return None if found is None else found.items()


def test_known_elements_survive_moves_and_arithmetic():
    assert partial("Concat", [[1, None], [3, 4]], axis=0) == [1, None, 3, 4]
    assert partial("Gather", [[1, None, 3], np.array([2, 1], I64)]) == [3, None]
    assert partial("Gather", [[1, None, 3], np.array([2], I64)]) == [3]
    assert partial("Slice", [[None, 2, 3], np.array([1], I64), np.array([3], I64)]) == [2, 3]
    assert partial("Add", [[1, None], [None, 2]]) is None
    assert partial("Mul", [[2, None], [5, 2]]) == [10, None]
    assert partial("Where", [np.array([True, False]), [1, None], [None, 4]]) == [1, 4]
    assert partial("Div", [[8, 9], [2, None]]) == [4, None]


def test_an_unknown_divisor_raises_nothing():
    assert partial("Div", [[None, 9], [0, None]]) is None


def test_excess_counts_without_overflow():
    assert excess((2, 3)) == ""
    assert excess((0, 1 << 30)) == ""
    assert "limit" in excess((0, 1 << 62))
    assert "axes" in excess((1,) * 65)
    assert "negative" in excess((2, -1))
    assert str((1 << 40) ** 2) in excess((1 << 40, 1 << 40))
    assert excess((MAX_ELEMENTS,)) == "" and excess((MAX_ELEMENTS + 1,))


def test_mixed_element_types_are_found():
    version = canonical_opset()
    f, i = np.zeros(2, np.float32), np.zeros(2, I64)
    assert type_problem(make("Add", [f, f]), version) == ""
    assert "float" in type_problem(make("Add", [f, i]), version)
    assert "does not take" in type_problem(make("Relu", [np.zeros(2, bool)]), version)
    assert "does not take" in type_problem(make("Gather", [f, f]), version)
    assert type_problem(make("Where", [np.zeros(2, bool), f, f]), version) == ""
    assert type_problem(make("Concat", [f, i], axis=0), version)
