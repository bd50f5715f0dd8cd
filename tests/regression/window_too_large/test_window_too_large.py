# SPDX-License-Identifier: Apache-2.0
"""A pool whose window is larger than the padded image had one result instead of none.

Found by fuzzing: ONNX's inference rounds (2 - 3) / 2 towards zero, onnxruntime down; with
`ceil_mode`, ONNX's inference of opset 22 has one result where its reference has none.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot
from aot.errors import ModelError


def compiled(op: str, folder: Path, opset: int = 21, **attrs: object) -> object:
    info = helper.make_tensor_value_info
    names, consts = ["x"], []
    if op == "Conv":
        names.append("w")
        consts = [numpy_helper.from_array(np.ones((1, 1, 2, 2), np.float32), "w")]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attrs)],
        "g",
        [info("x", TensorProto.FLOAT, [1, 1, 1, 1])],
        [info("y", TensorProto.FLOAT, None)],
        consts,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return aot.compile(model, folder / "o", name="n")


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "Conv"])
def test_a_window_that_does_not_fit_is_refused(op: str, tmp_path: Path) -> None:
    attrs = {"kernel_shape": [2, 2], "dilations": [2, 1], "strides": [2, 1], "pads": [0, 0, 1, 1]}
    with pytest.raises(ModelError) as caught:
        compiled(op, tmp_path, **attrs)
    assert "a window of 3 does not fit 2 elements on axis 2" in str(caught.value)


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize("opset", [18, 22])
def test_nor_one_that_hangs_over_by_a_stride(op: str, opset: int, tmp_path: Path) -> None:
    attrs = {"kernel_shape": [3, 1], "strides": [2, 1], "ceil_mode": 1, "opset": opset}
    with pytest.raises(ModelError) as caught:
        compiled(op, tmp_path, **attrs)
    assert "a window of 3 does not fit 1 elements on axis 2" in str(caught.value)
    compiled(op, tmp_path, **attrs | {"strides": [3, 1]})


def test_pads_do_not_count_beside_auto_pad(tmp_path: Path) -> None:
    attrs = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    compiled("MaxPool", tmp_path, **attrs)
    with pytest.raises(ModelError):
        compiled("MaxPool", tmp_path, **attrs, auto_pad="VALID")


def test_one_that_just_fits_is_not(tmp_path: Path) -> None:
    compiled("AveragePool", tmp_path, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
