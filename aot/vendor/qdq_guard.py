# SPDX-License-Identifier: Apache-2.0
"""Float operators between quantised values: whoever matches one alone keeps the whole from
integers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aot.vendor.match import Match

#: Operators through which a float is looked for that becomes quantised values, or that was
#: quantised values.
_THROUGH = frozenset(
    "Relu Clip LeakyRelu HardSwish HardSigmoid Sigmoid Swish Tanh Gelu Elu Mish Abs Exp Log Sqrt "
    "Round Neg Add Sub Mul Div Max Min Conv ConvTranspose Gemm MatMul AveragePool "
    "GlobalAveragePool ReduceMean Softmax".split()
)
#: Operators of a chain that are looked at: the search follows every operand and reader, so its time
#: needs a limit.
_FURTHEST = 8


def outside_of_quantised(m: Match) -> Iterator[tuple[bool, str]]:
    """Check that the match is not a float operator between quantised values.

    Kernels on integers compute such a chain as a whole, from DequantizeLinear to QuantizeLinear.
    """
    inside = any(_was_quantised(v.ir, _FURTHEST) for _, v in m.inputs())
    inside = inside and all(_becomes_quantised(v.ir, _FURTHEST) for v in m.outputs())
    yield not inside, "between quantised values (left to kernels on integers)"


def _was_quantised(v: Any, steps: int) -> bool:
    """Whether value `v` comes from a DequantizeLinear of computed values through at most `steps`
    nodes.

    None and constants do not.
    """
    node = v.producer() if v is not None and v.const_value is None else None
    if node is None or not steps:
        return False
    if node.op_type == "DequantizeLinear":
        return bool(node.inputs[0].const_value is None)
    return node.op_type in _THROUGH and any(_was_quantised(i, steps - 1) for i in node.inputs)


def _becomes_quantised(v: Any, steps: int) -> bool:
    """Whether all readers of `v` lead to a QuantizeLinear through at most `steps` nodes.

    False for a value without readers and for a graph output.
    """
    readers = [use.node for use in v.uses()]
    if not readers or not steps or v.is_graph_output():
        return False
    return all(
        n.op_type == "QuantizeLinear"
        or (n.op_type in _THROUGH and _becomes_quantised(n.outputs[0], steps - 1))
        for n in readers
    )
