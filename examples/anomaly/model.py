# SPDX-License-Identifier: Apache-2.0
"""Write before.onnx, after.onnx, worse.onnx: versions of a network that tells how unusual a motor
sounds.

Eight energies are compared with usual ones: the mean of the squared differences. The versions
differ in their constants only, as after training on more motors, so that a firmware with the first
one takes the weights of the second.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NODES = [
    helper.make_node("Sub", ["energies", "usual"], ["difference"]),
    helper.make_node("MatMul", ["difference", "mixing"], ["mixed"]),
    helper.make_node("Mul", ["mixed", "mixed"], ["square"]),
    helper.make_node("ReduceMean", ["square"], ["score"], axes=[1], keepdims=1),
]
ENDS = [
    helper.make_tensor_value_info("energies", TensorProto.FLOAT, [1, 8]),
    helper.make_tensor_value_info("score", TensorProto.FLOAT, [1, 1]),
]


def write(name: str, usual: list[float]) -> None:
    """A version of the network, for motors with these usual energies."""
    mixing = np.eye(8, dtype=np.float32) + np.float32(0.125)
    constants = {"usual": np.array([usual], np.float32), "mixing": mixing}
    tensors = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    graph = helper.make_graph(NODES, "anomaly", ENDS[:1], ENDS[1:], tensors)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), name)


write("before.onnx", [4, 3, 2, 1, 1, 0, 0, 0])
write("after.onnx", [4, 3, 2, 1, 1, 3, 0, 0])
write("worse.onnx", [9, 0, 7, 0, 8, 0, 9, 0])
