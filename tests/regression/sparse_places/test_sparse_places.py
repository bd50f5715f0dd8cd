# SPDX-License-Identifier: Apache-2.0
"""A sparse constant was an internal error; one whose places lie outside must not be written.

As the value of a node Constant, in a body, or in a function, it was refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot
from aot.load import load
from load_graphs import info, model, node, refused


def sparse(places: object, dims: list[int], values: tuple[float, ...] = (1, 2)) -> onnx.ModelProto:
    built = model([node("Add", ["x", "w"], ["y"])], [info("x", (6,))], [info("y", None)])
    held = built.graph.sparse_initializer.add()
    held.values.CopyFrom(numpy_helper.from_array(np.array(values, np.float32), "w"))
    held.indices.CopyFrom(numpy_helper.from_array(np.array(places, np.int64), "i"))
    held.dims.extend(dims)
    return built


@pytest.mark.parametrize(
    ("places", "dims", "want"),
    [([1, 4], [6], [0, 1, 0, 0, 2, 0]), ([[0, 1], [1, 2]], [2, 3], [[0, 1, 0], [0, 0, 2]])],
)
def test_it_is_spelled_out(places: object, dims: list[int], want: object) -> None:
    built = sparse(places, dims)
    built.graph.input[0].CopyFrom(info("x", dims))
    constant = load(built).graph.initializers["w"].const_value
    assert constant is not None and constant.numpy().tolist() == want


@pytest.mark.parametrize(
    ("places", "dims", "part"),
    [
        ([1, 7], [6], "place 7 is outside"),
        ([-1, 2], [6], "place -1 is outside"),
        ([[0, 1], [1, 3]], [2, 3], "place 3 is outside"),
        ([4, 1], [6], "do not ascend"),
        ([1, 1], [6], "do not ascend"),
        ([1], [6], "the places have shape [1]"),
        ([1, 2], [-6], "negative"),
    ],
)
def test_places_that_are_wrong(places: object, dims: list[int], part: str) -> None:
    refused(sparse(places, dims), part, '"w"')


def test_a_huge_one() -> None:
    from aot.errors import UnsupportedError

    refused(sparse([1, 2], [1 << 40]), "limit", kind=UnsupportedError)


PART = helper.make_sparse_tensor(
    numpy_helper.from_array(np.array([1, 2], np.float32), "v"),
    numpy_helper.from_array(np.array([1, 5], np.int64), "i"),
    [2, 3],
)
WANT = [[0, 1, 0], [0, 0, 2]]
CONSTANT = helper.make_node("Constant", [], ["k"], sparse_value=PART)


@pytest.mark.parametrize("opset", [11, 21, 25])
def test_of_a_node(opset: int) -> None:
    nodes = [CONSTANT, node("Add", ["x", "k"], ["y"])]
    built = model(nodes, [info("x", (2, 3))], [info("y", None)], opset=opset)
    constant = load(built).graph.initializers["k"].const_value
    assert constant is not None and constant.numpy().tolist() == WANT


def test_a_big_one_of_a_node() -> None:
    big = helper.make_sparse_tensor(PART.values, PART.indices, [300, 300])
    nodes = [node("Constant", [], ["k"], sparse_value=big), node("Add", ["x", "k"], ["y"])]
    built = model(nodes, [info("x", (300, 300))], [info("y", None)])
    constant = load(built).graph.initializers["k"].const_value
    assert constant is not None and constant.numpy().sum() == 3


@pytest.mark.parametrize("kind", ["function", "body", "initialiser of a body"])
def test_within(kind: str, tmp_path: Path) -> None:
    nodes = [CONSTANT, node("Add", ["x", "k"], ["r"])]
    if kind == "function":
        imports = [helper.make_opsetid("", 21)]
        function = helper.make_function("own", "F", ["x"], ["r"], nodes, imports)
        call = [node("F", ["x"], ["y"], domain="own")]
        own = [helper.make_opsetid("own", 1)]
        ends = [info("x", (2, 3))]
        built = model(call, ends, [info("y", None)], opset=21, imports=own, functions=[function])
    else:
        last = nodes if kind == "body" else nodes[1:]
        branches = [helper.make_graph(last, n, [], [info("r", (2, 3))]) for n in "ab"]
        for branch in branches if kind != "body" else []:
            held = branch.sparse_initializer.add()
            held.CopyFrom(PART)
            held.values.name = "k"
        both = node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
        ends = [info("x", (2, 3)), info("c", (), TensorProto.BOOL)]
        built = model([both], ends, [info("y", None)], opset=21)
    feed = {"x": np.zeros((2, 3), np.float32)}
    if kind != "function":
        feed["c"] = np.array(True)
    got = aot.compile(built, tmp_path, name="n").load()(**feed)
    assert np.asarray(got).tolist() == WANT


def test_places_of_a_node_that_are_wrong() -> None:
    outside = helper.make_sparse_tensor(PART.values, PART.indices, [2, 2])
    nodes = [node("Constant", [], ["k"], sparse_value=outside), node("Add", ["x", "k"], ["y"])]
    refused(model(nodes, [info("x", (2, 2))], [info("y", None)]), "place 5 is outside", '"k"')


def test_strings() -> None:
    from aot.errors import UnsupportedError

    words = numpy_helper.from_array(np.array(["a", "b"], object), "v")
    held = helper.make_sparse_tensor(words, PART.indices, [6])
    nodes = [node("Constant", [], ["y"], sparse_value=held)]
    kind = UnsupportedError
    refused(model(nodes, [], [info("y", None, TensorProto.STRING)]), "strings", kind=kind)
