# SPDX-License-Identifier: Apache-2.0
"""Write motion.onnx: how much a picture of 64 pixels differs from the one before, on average."""

import onnx
from onnx import TensorProto, helper

NODES = [
    helper.make_node("Sub", ["image", "before"], ["difference"]),
    helper.make_node("Abs", ["difference"], ["distance"]),
    helper.make_node("ReduceMean", ["distance"], ["motion"], keepdims=1),
    helper.make_node("Identity", ["image"], ["kept"]),
]


def value(name: str, *shape: int) -> onnx.ValueInfoProto:
    """A float32 input or output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


PIXELS = [value(name, 1, 64) for name in ("image", "before", "kept")]
GRAPH = helper.make_graph(NODES, "motion", PIXELS[:2], [value("motion", 1, 1), PIXELS[2]])
OPSET = [helper.make_opsetid("", 17)]
onnx.save(helper.make_model(GRAPH, opset_imports=OPSET, ir_version=9), "motion.onnx")
