# SPDX-License-Identifier: Apache-2.0
"""Range: its result is as long as its operands say, so the compiler computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ir.operators import DataSized, operator
from aot.shapes.cures import Sizing, sizings, zeros
from aot.shapes.evaluate import Invalid, evaluates, need
from aot.shapes.reference import Inputs, Unknown

if TYPE_CHECKING:
    import onnx_ir as ir

#: More elements stay for the run: a constant of them would fill the bundle.
MOST_ELEMENTS = 1 << 24


operator("Range", "start limit delta", traits=[DataSized()])
sizings("Range")(Sizing(data=0, real=True, examples={0: zeros}))


@evaluates("Range")
def numbers(node: ir.Node, inputs: Inputs) -> list[Array]:
    """start, start + delta, ... below (or above) limit."""
    start, limit, delta = (need(inputs, i).reshape(()) for i in range(3))
    if delta == 0:
        raise Invalid("Range with delta 0")
    count = max(0, int(np.ceil((limit.astype(np.float64) - start) / delta)))
    if start.dtype.kind in "iu":
        count = max(0, -(-(int(limit) - int(start)) // int(delta)))
    if count > MOST_ELEMENTS:
        raise Unknown
    return [(start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype)]
