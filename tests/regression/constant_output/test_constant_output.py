# SPDX-License-Identifier: Apache-2.0
"""A constant that an operator reads and that is an output of the model, too.

onnx's inference read the axes of the Slice as absent, because the output had lost its shape: the
bundle computed another slice.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aot.options import Options
from aot.pipeline import compile_model

OPERANDS = {"starts": [0, 1], "ends": [-99, -99], "axes": [1, 2], "steps": [-1, -1]}


@pytest.mark.parametrize("node", [False, True], ids=["initializer", "Constant"])
@pytest.mark.parametrize("output", OPERANDS)
def test_operands_that_are_outputs_are_read(output: str, node: bool) -> None:
    constants = [
        numpy_helper.from_array(np.array(v, np.int64), name) for name, v in OPERANDS.items()
    ]
    nodes = [helper.make_node("Slice", ["x", *OPERANDS], ["y"])]
    if node:
        made = [helper.make_node("Constant", [], [c.name], value=c) for c in constants]
        nodes, constants = [*made, *nodes], []
    ends = [
        helper.make_tensor_value_info(output, TensorProto.INT64, (2,)),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ("a", "b", "c")),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 1))
    graph = helper.make_graph(nodes, "g", [x], ends, constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(proto)
    manifest = compile_model(proto, Options(name="net")).manifest
    assert [o["shape"] for o in manifest["outputs"]] == [[2], [2, 1, 1]]
