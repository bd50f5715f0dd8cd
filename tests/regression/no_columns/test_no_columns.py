# SPDX-License-Identifier: Apache-2.0
"""A quantised product with constant weights of no columns ended in a check's own ValueError."""

from __future__ import annotations

import numpy as np

from aot.options import Options
from aot.pipeline import compile_model
from quant_graphs import Net


def test_weights_without_columns() -> None:
    net = Net(x=("int8", [2, 3]))
    weights = net.dq(np.zeros((3, 0), np.int8), 0.1, np.int8(0))
    product = net.add("MatMul", net.dq("x", 0.1, np.int8(1)), weights)
    net.q(product, 0.1, np.int8(2), "y")
    made = compile_model(net.model(y="int8"), Options(name="net", target="x86-64-v3"))
    (result,) = (made.program.tensors[name] for name in made.program.outputs)
    assert result.shape == (2, 0)
