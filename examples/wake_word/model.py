# SPDX-License-Identifier: Apache-2.0
"""Write wake.onnx: how sure it is that the wake word was said, from the sound so far.

A frame of sound is its loudness and its pitch. The network keeps its certainty from run to run, as
the state `before`: a frame alone never wakes anybody.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CONSTANTS = {
    "weights": np.array([[4], [8]], np.float32),
    "bias": np.array([-8], np.float32),
    "kept": np.array([0.75], np.float32),
    "new": np.array([0.25], np.float32),
}
NODES = [
    helper.make_node("Gemm", ["frame", "weights", "bias"], ["units"]),
    helper.make_node("Sigmoid", ["units"], ["likely"]),
    helper.make_node("Mul", ["likely", "new"], ["part"]),
    helper.make_node("Mul", ["before", "kept"], ["rest"]),
    helper.make_node("Add", ["part", "rest"], ["certainty"]),
    helper.make_node("Identity", ["certainty"], ["after"]),
]


def value(name: str, *shape: int) -> onnx.ValueInfoProto:
    """A float32 input or output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


INPUTS = [value("frame", 1, 2), value("before", 1, 1)]
OUTPUTS = [value("certainty", 1, 1), value("after", 1, 1)]
TENSORS = [numpy_helper.from_array(v, k) for k, v in CONSTANTS.items()]
GRAPH = helper.make_graph(NODES, "wake", INPUTS, OUTPUTS, TENSORS)
OPSET = [helper.make_opsetid("", 17)]
onnx.save(helper.make_model(GRAPH, opset_imports=OPSET, ir_version=9), "wake.onnx")
