# SPDX-License-Identifier: Apache-2.0
"""A 1x1 convolution with pads below the image alone read beyond it (found by fuzzing)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot

SCALAR = Path(__file__).parents[2] / "fuzz" / "scalar.toml"
W = np.arange(80, dtype=np.float32).reshape(4, 20, 1, 1) % 7 - 3


@pytest.mark.parametrize("quantised", [False, True])
def test_rows_below_hold_the_bias(quantised: bool, tmp_path: Path) -> None:
    nodes = [helper.make_node("Conv", ["a", "w"], ["b"], pads=[0, 0, 1, 0])]
    consts = [numpy_helper.from_array(W, "w")]
    if quantised:
        consts = [numpy_helper.from_array(W.astype(np.int8), "c")]
        for name, value in (("s", np.float32(1.0)), ("z", np.int8(0))):
            consts.append(numpy_helper.from_array(np.asarray(value), name))
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
            helper.make_node("DequantizeLinear", ["c", "s", "z"], ["w"]),
            *nodes,
            helper.make_node("QuantizeLinear", ["b", "s", "z"], ["r"]),
            helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
        ]
    else:
        nodes[0].input[0], nodes[0].output[0] = "x", "y"
    info = helper.make_tensor_value_info
    ends = [info("x", TensorProto.FLOAT, [2, 20, 2, 10])]
    outs = [info("y", TensorProto.FLOAT, [2, 4, 3, 10])]
    graph = helper.make_graph(nodes, "g", ends, outs, consts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.arange(800).reshape(2, 20, 2, 10) % 3 - 1
    want = np.zeros([2, 4, 3, 10])
    want[:, :, :2] = np.einsum("nchw,oc->nohw", x, W[:, :, 0, 0]).clip(-128, 127)
    for k, target in enumerate(["x86-64-v3", str(SCALAR)]):
        made = aot.compile(model, tmp_path / str(k), name="n", target=target)
        assert (np.asarray(made.load()(x.astype(np.float32))) == want).all(), target
