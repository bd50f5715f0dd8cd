# SPDX-License-Identifier: Apache-2.0
"""A small quantised network whose calls slices cut in every way."""

from __future__ import annotations

import numpy as np
import onnx

from quant_graphs import Net

#: Multiplications per kernel of `parts`: a pixel of the first one has 128, a row 640.
POINT, DEEP, DENSE = 3200, 3600, 192


def parts(kind: type = np.int8) -> onnx.ModelProto:
    """[1, 8, 5, 5] of int8 or int16 to [1, 12]: Conv 1x1 (16), depthwise 3x3, average, MatMul."""
    rng, net = np.random.default_rng(0), Net(x=(kind, (1, 8, 5, 5)))
    step, zero = (0.05, kind(3)) if kind is np.int8 else (0.0002, kind(0))

    def weights(*shape: int, axis: int = 0) -> str:
        data = rng.integers(-127, 128, shape).astype(np.int8)
        zeros = np.zeros(shape[axis], np.int8)
        return net.dq(net.const(data), np.full(shape[axis], 0.01), zeros, axis=axis)

    def quantised(x: str) -> str:
        return net.dq(net.q(x, step, zero), step, zero)

    point = quantised(net.add("Conv", net.dq("x", step, zero), weights(16, 8, 1, 1)))
    deep = quantised(net.add("Conv", point, weights(16, 1, 3, 3), pads=[1] * 4, group=16))
    flat = net.add("Flatten", quantised(net.add("GlobalAveragePool", deep)), axis=1)
    dense = net.add("MatMul", quantised(flat), weights(16, 12, axis=1))
    return net.model(**{net.q(dense, step, zero): kind})
