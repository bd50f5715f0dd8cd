# SPDX-License-Identifier: Apache-2.0
"""Result types of the quantised operators of com.microsoft, and of those like their input."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.deferred_import import ir
from aot.normalise.decompose import FLOAT, Body, decompose
from aot.ops.microsoft import MICROSOFT
from aot.shapes.types import Type, TypedAs, given, infer_types, need

UINT8 = 2


@infer_types("GroupNormalization MeanVarianceNormalization")
@infer_types("BiasGelu FastGelu Gelu QuickGelu", MICROSOFT)
@infer_types("QLinearLeakyRelu QLinearSigmoid QLinearSoftmax RotaryEmbedding", MICROSOFT)
def _first(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The type of input 0."""
    return [need(types, 0)]


@decompose("NhwcMaxPool", MICROSOFT)
def _max_pool(b: Body) -> bool:
    """Decompose a NhwcMaxPool: a MaxPool between Transposes.

    Before: y = NhwcMaxPool(x)      After: y = Transpose(MaxPool(Transpose(x)))
    """
    rank = len(b.shape(0))
    first = b.add("Transpose", "i0", perm=[0, rank - 1, *range(1, rank - 1)])
    pooled = b.add("MaxPool", first, **b.attributes())
    b.add("Transpose", pooled, perm=[0, *range(2, rank), 1], out="o0")
    return True


def _gemm_element(types: Sequence[Type | None]) -> int:
    """The element type of a QGemm: the zero point's or input 0's; float32 without a scale of y."""
    if given(types, 7) is None:
        return FLOAT
    return (given(types, 8) or need(types, 0))[0]


def _quantised_element(types: Sequence[Type | None]) -> int:
    """The element type of the zero point; uint8 without one."""
    return (given(types, 2) or (UINT8, ()))[0]


#: Operators, each with the one of ONNX whose result has the shape of theirs.
TYPES = {
    "QuantizeLinear": TypedAs("Identity", (0,), _quantised_element),
    "DequantizeLinear": TypedAs("Identity", (0,), 1),
    "QLinearAdd QLinearMul": TypedAs("Add", (0, 3)),
    "QLinearAveragePool": TypedAs("AveragePool", (0,)),
    "QLinearGlobalAveragePool": TypedAs("GlobalAveragePool", (0,)),
    "NhwcMaxPool": TypedAs("MaxPool", (0,), last=True),
    "QLinearReduceMean": TypedAs("ReduceMean", (0,)),
    "QLinearConcat": TypedAs("Concat", slice(2, None, 3), 2),
    "QLinearWhere": TypedAs("Where", (0, 1, 4), 1),
    "QLinearConv": TypedAs("Conv", (0, 3), 7),
    "FusedConv": TypedAs("Conv", (0, 1)),
    "QGemm": TypedAs("Gemm", (0, 3), _gemm_element),
    "FusedGemm": TypedAs("Gemm", (0, 1)),
    "DynamicQuantizeMatMul MatMulIntegerToFloat": TypedAs("MatMul", (0, 1), 2),
}
for names, other in TYPES.items():
    infer_types(names, MICROSOFT)(other)
