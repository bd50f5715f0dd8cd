# SPDX-License-Identifier: Apache-2.0
"""Write keywords.onnx: silence, a low or a high tone, from loudness and crossings of zero.

The input has eight pieces of sound, each with its mean loudness (1 for samples of 1000) and how
often it crosses zero. The constants are chosen by hand; a network for words is used in the same
way.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PER_PIECE = np.array([[-1.0, 0.0, 0.0], [0.0, -0.05, 0.2]], np.float32)
CONSTANTS = {"weights": np.tile(PER_PIECE, (8, 1)), "bias": np.array([4, 1, -6], np.float32)}
NODES = [
    helper.make_node("Gemm", ["pieces", "weights", "bias"], ["units"]),
    helper.make_node("Softmax", ["units"], ["chances"], axis=1),
]
ENDS = [
    helper.make_tensor_value_info("pieces", TensorProto.FLOAT, [1, 16]),
    helper.make_tensor_value_info("chances", TensorProto.FLOAT, [1, 3]),
]
TENSORS = [numpy_helper.from_array(v, k) for k, v in CONSTANTS.items()]
GRAPH = helper.make_graph(NODES, "keywords", ENDS[:1], ENDS[1:], TENSORS)
OPSET = [helper.make_opsetid("", 17)]
onnx.save(helper.make_model(GRAPH, opset_imports=OPSET, ir_version=9), "keywords.onnx")
