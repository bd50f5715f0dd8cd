# SPDX-License-Identifier: Apache-2.0
"""Which of two convolutions the sum of their codes is computed with."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from aot.load import LoadOptions, load
from aot.normalise import normalise
from aot.ops.registry import load_all
from aot.partition.select import select
from quant_graphs import S8, SX, Net, codes, convolved


@pytest.mark.parametrize("swapped", [False, True])
def test_the_larger_convolution_takes_the_sum(swapped):
    net = Net(x=(np.int8, (1, 4, 8, 8)))
    large = convolved(net, "x", pads=[1, 1, 1, 1])
    small = convolved(net, "x", weights=codes(6, 4, 1, 1))
    read = [net.dq(net.q(v, SX, S8(-4)), SX, S8(-4)) for v in (large, small)]
    total = net.add("Add", *(reversed(read) if swapped else read))
    net.q(total, 2 * SX, S8(5), out="y")
    loaded = load(ir.from_proto(net.model(y=np.int8)), LoadOptions())
    chosen = select(normalise(loaded, LoadOptions()).graph, [load_all()])
    text = [line for line in chosen.text().splitlines() if "refused" not in line]
    fused = [i.match for i in chosen.items if "qconv_add" in i.pattern.name]
    assert len(fused) == 1, text
    assert fused[0].w.shape == (6, 4, 3, 3)
