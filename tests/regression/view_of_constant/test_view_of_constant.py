# SPDX-License-Identifier: Apache-2.0
"""A view of a constant reads nothing that a run makes; the choice by cost looked for its operand.

It failed with an IndexError where an output, an operand of a region, or the length of a sequence
was such a view.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import parser

import aot


def test_the_length_of_a_sequence_is_a_constant(tmp_path: Path) -> None:
    proto = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        net (float[3] x, float[3] w) => (int64 n, float[3] y) {
            s = SequenceConstruct(x, w, w)
            n = SequenceLength(s)
            y = Relu(x)
        }"""
    )
    onnx.checker.check_model(proto)
    net = aot.compile(proto, tmp_path, name="net", backends=("dnnl",), partition="cost").load()
    x = np.array([-1, 0, 2], np.float32)
    length, rectified = net(x, x)
    assert length == 3
    np.testing.assert_array_equal(rectified, np.maximum(x, 0))
