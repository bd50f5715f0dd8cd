# SPDX-License-Identifier: Apache-2.0
"""Random operators: type, shape, support, mean and deviation over ten thousand draws."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import aot

COUNT = 10000
RATIO = 0.3


def model() -> onnx.ModelProto:
    node, info = helper.make_node, helper.make_tensor_value_info
    nodes = [
        node("RandomUniform", [], ["uniform"], shape=[COUNT], low=-1.0, high=3.0),
        node("RandomNormal", [], ["normal"], shape=[100, 100], mean=2.0, scale=0.5, seed=3.0),
        node("RandomUniformLike", ["x"], ["wide"], dtype=TensorProto.DOUBLE),
        node("RandomNormalLike", ["x"], ["half"], dtype=TensorProto.FLOAT16),
        node("Bernoulli", ["p"], ["bits"], dtype=TensorProto.INT32),
        node("Multinomial", ["chances"], ["classes"], sample_size=COUNT, dtype=TensorProto.INT64),
        node("Dropout", ["x", "ratio", "training"], ["kept", "mask"], seed=1),
    ]
    ins = [info("x", 1, [COUNT]), info("p", 1, [COUNT]), info("chances", 1, [1, 3])]
    names = ("uniform", "normal", "wide", "half", "bits", "classes", "kept", "mask")
    kinds = (1, 1, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32, 7, 1, 9)
    outs = [info(n, k, None) for n, k in zip(names, kinds, strict=True)]
    consts = [
        onnx.numpy_helper.from_array(np.array(RATIO, np.float32), "ratio"),
        onnx.numpy_helper.from_array(np.array(True), "training"),
    ]
    graph = helper.make_graph(nodes, "g", ins, outs, consts)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[list[np.ndarray]]:
    """The outputs of two runs in a row, and of the first one of a model compiled again."""
    args = [
        np.ones(COUNT, np.float32),
        np.full(COUNT, 0.3, np.float32),
        np.log(np.array([[0.2, 0.3, 0.5]], np.float32)),
    ]
    found = []
    for again in range(2):
        loaded = aot.compile(model(), tmp_path_factory.mktemp(f"m{again}") / "o", name="r").load()
        for _ in range(2 - again):
            found.append([np.asarray(a).copy() for a in loaded(*args)])
    return found


def test_support_and_moments(runs: list[list[np.ndarray]]) -> None:
    want = [
        ("float32", -1.0, 3.0, 1.0, 4 / 12**0.5),
        ("float32", -1.5, 5.5, 2.0, 0.5),
        ("float64", 0.0, 1.0, 0.5, 1 / 12**0.5),
        ("float16", -6.0, 6.0, 0.0, 1.0),
        ("int32", 0, 1, 0.3, 0.21**0.5),
        ("int64", 0, 2, 1.3, 0.61**0.5),
        ("float32", 0.0, 1 / (1 - RATIO) + 1e-6, 1.0, (RATIO / (1 - RATIO)) ** 0.5),
        ("bool", False, True, 1 - RATIO, 0.21**0.5),
    ]
    for outputs in runs[:2]:
        for got, (dtype, low, high, mean, deviation) in zip(outputs, want, strict=True):
            assert got.dtype == dtype and got.size == COUNT
            assert got.min() >= low and got.max() <= high
            assert abs(got.mean(dtype=np.float64) - mean) < 4 * deviation / COUNT**0.5
            assert abs(got.astype(np.float64).std() - deviation) < 0.03 * deviation


def test_every_run_draws_anew_and_every_build_the_same(runs: list[list[np.ndarray]]) -> None:
    first, second, again = runs
    for a, b, c in zip(first, second, again, strict=True):
        assert not np.array_equal(a, b)
        assert np.array_equal(a, c)


def test_a_mask_says_what_was_kept(runs: list[list[np.ndarray]]) -> None:
    kept, mask = runs[0][6:]
    assert np.array_equal(kept != 0, mask)
