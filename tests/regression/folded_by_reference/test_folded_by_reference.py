# SPDX-License-Identifier: Apache-2.0
"""Nodes of constants only had onnx.reference's result, where it is not ONNX's (found by fuzzing).

It ignores the lengths and activations of recurrent layers, LRN sums the wrong channels, PRelu
multiplies zero, sums of float16 are rounded after every element. And CastLike did not saturate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot

RNG = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


RECURRENT = {
    "x": floats(3, 2, 2),
    "w": floats(1, 9, 2),
    "r": floats(1, 9, 3),
    "b": floats(1, 18),
    "lengths": np.array([3, 1], np.int32),
}
IMAGE = {"x": floats(1, 7, 2, 2) * 9}
SLOPE = {"x": np.array([0.0, -1, 2], np.float32), "s": np.array(np.inf, np.float32)}


def both(node: onnx.NodeProto, feeds: dict[str, Any], constant: bool, folder: Path) -> Any:
    """What a node gives whose operands are constants, or inputs."""
    types = {k: helper.np_dtype_to_tensor_dtype(a.dtype) for k, a in feeds.items()}
    ends = [helper.make_tensor_value_info(k, types[k], a.shape) for k, a in feeds.items()]
    data = [numpy_helper.from_array(a, k) for k, a in feeds.items()]
    switch = helper.make_tensor_value_info("on", TensorProto.FLOAT, [1])
    back = helper.make_node("Cast", [node.output[0]], ["out"], to=TensorProto.FLOAT)
    nodes = [node, back, helper.make_node("Identity", ["on"], ["off"])]
    outputs = [onnx.ValueInfoProto(name="out"), onnx.ValueInfoProto(name="off")]
    graph = helper.make_graph(
        nodes, "g", [switch] if constant else [switch, *ends], outputs, data if constant else []
    )
    opsets = [helper.make_opsetid("", 21)]
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opsets, ir_version=10)
    )
    loaded = aot.compile(model, folder, name="g").load()
    on = np.ones(1, np.float32)
    return np.asarray(loaded(*([on] if constant else [on, *feeds.values()]))[0])


@pytest.mark.parametrize(
    "node, feeds",
    [
        (helper.make_node("GRU", list(RECURRENT), ["y"], hidden_size=3), RECURRENT),
        (helper.make_node("LRN", ["x"], ["y"], size=3, alpha=0.5), IMAGE),
        (helper.make_node("PRelu", ["x", "s"], ["y"]), SLOPE),
    ],
    ids=lambda v: v.op_type if isinstance(v, onnx.NodeProto) else "",
)
def test_a_constant_is_what_the_kernel_computes(
    node: onnx.NodeProto, feeds: dict[str, Any], tmp_path: Path
) -> None:
    folded = both(node, feeds, True, tmp_path / "constant")
    computed = both(node, feeds, False, tmp_path / "computed")
    assert np.allclose(folded, computed, rtol=1e-5, atol=1e-6)
    if "lengths" in feeds:
        assert not folded[1:, :, 1].any() and folded[1:, :, 0].all()


def test_a_sum_of_constants_is_rounded_once(tmp_path: Path) -> None:
    x = np.full(4100, 1.0, np.float16)  # 2049 is no float16: 2048 + 1 rounds back to 2048
    feeds = {"x": x, "axis": np.array(0)}
    node = helper.make_node("CumSum", ["x", "axis"], ["y"])
    assert float(both(node, feeds, True, tmp_path / "o")[-1]) == 4100.0


@pytest.mark.parametrize(
    "kind, most", [(ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float8_e5m2, 57344)]
)
@pytest.mark.parametrize("op", ["Cast", "CastLike"])
def test_a_constant_saturates(op: str, kind: Any, most: float, tmp_path: Path) -> None:
    x = np.array([1e6, -1e6, 3.5, np.nan, np.inf], np.float32)
    feeds = {"x": x, "like": np.zeros(1, kind)} if op == "CastLike" else {"x": x}
    more = {} if op == "CastLike" else {"to": helper.np_dtype_to_tensor_dtype(np.dtype(kind))}
    y = both(helper.make_node(op, list(feeds), ["y"], **more), feeds, True, tmp_path / "o")
    expected = np.array([most, -most, 3.5, np.nan, most], np.float32)
    assert np.array_equal(y, expected, equal_nan=True)
