# SPDX-License-Identifier: Apache-2.0
"""A quantised network whose weights take fewer bytes as codes: a convolution, one with a residual
sum behind it, a matrix product."""

from __future__ import annotations

import numpy as np
import onnx

from quant_graphs import Net


def layers(seed: int = 0, size: int = 4) -> onnx.ModelProto:
    """int8 [1, 8, size, size] to [1, 96]: Conv 3x3 (32), Conv 3x3 + residual, average, MatMul
    32 x 160 and 160 x 96."""
    rng, net = np.random.default_rng(seed), Net(x=(np.int8, (1, 8, size, size)))

    def weights(*shape: int, axis: int = 0) -> str:
        data = rng.normal(0, 7, shape).round().clip(-127, 127).astype(np.int8)
        steps = rng.uniform(0.01, 0.02, shape[axis]).astype(np.float32)
        return net.dq(net.const(data), steps, np.zeros(shape[axis], np.int8), axis=axis)

    def quantised(x: str) -> str:
        return net.dq(net.q(x, 0.05, np.int8(3)), 0.05, np.int8(3))

    first = net.add("Conv", net.dq("x", 0.05, np.int8(3)), weights(32, 8, 3, 3), pads=[1] * 4)
    first = quantised(net.add("Relu", first))
    second = quantised(net.add("Conv", first, weights(32, 32, 3, 3), pads=[1] * 4))
    total = quantised(net.add("Add", second, first))
    flat = net.add("Flatten", quantised(net.add("GlobalAveragePool", total)), axis=1)
    wide = quantised(net.add("MatMul", quantised(flat), weights(32, 160, axis=1)))
    made = net.q(net.add("MatMul", wide, weights(160, 96, axis=1)), 0.05, np.int8(3))
    return net.model(**{made: np.int8})
