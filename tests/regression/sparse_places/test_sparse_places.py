# SPDX-License-Identifier: Apache-2.0
"""A sparse constant was an internal error; one whose places lie outside must not be written."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

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
        ([1], [6], "places of shape [1]"),
        ([1, 2], [-6], "negative"),
    ],
)
def test_places_that_are_wrong(places: object, dims: list[int], part: str) -> None:
    refused(sparse(places, dims), part, '"w"')


def test_a_huge_one() -> None:
    from aot.errors import UnsupportedError

    refused(sparse([1, 2], [1 << 40]), "limit", kind=UnsupportedError)
