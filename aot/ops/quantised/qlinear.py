# SPDX-License-Identifier: Apache-2.0
"""QLinearMatMul and QLinearConv where no kernel takes them: products of integers, requantised.

Before: y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz)
After: y = QuantizeLinear(MatMul(a - az, b - bz) * (as * bs / ys), 1, yz)
"""

from __future__ import annotations

from aot.ir.operators import AUTO_PAD, operator
from aot.normalise.decompose import DOUBLE, FLOAT, INT32, Body, decompose
from aot.ops.microsoft import MICROSOFT

operator("QLinearConv", "x xs xz w ws wz ys yz b?", domain=MICROSOFT, auto_pad=AUTO_PAD)
operator("QLinearAveragePool", "x xs xz ys yz", domain=MICROSOFT, auto_pad=AUTO_PAD)


@decompose("QLinearMatMul")
def _qlinear_matmul(b: Body) -> bool:
    """Decompose a QLinearMatMul: int32 products, requantised; False for several scales of y."""
    left, right = b.centred(0, 2, INT32, -2), b.centred(3, 5, INT32, -1)
    ranks = len(b.shape(0)), len(b.shape(3))
    scales = [b.column(1, ranks[0], -2, FLOAT), b.column(4, ranks[1], -1, FLOAT)]
    b.requantised(b.add("MatMul", left, right), [*scales, b.column(6, 2, -2, FLOAT)], 7)
    return len(b.shape(6)) == 0 or b.shape(6) == (1,)


@decompose("QLinearConv")
def _qlinear_conv(b: Body) -> bool:
    """Decompose a QLinearConv: exact float64 products and bias, requantised."""
    left, right = b.centred(0, 2, DOUBLE, 1), b.centred(3, 5, DOUBLE, 0)
    rank = len(b.shape(0))
    bias = [b.add("Cast", "i8", to=DOUBLE)] if b.has(8) else []
    total = b.add("Conv", left, right, *bias, **b.attributes())
    scales = [b.column(1, rank, 1, FLOAT), b.column(4, rank, 1, FLOAT)]
    b.requantised(total, [*scales, b.column(6, rank, 1, FLOAT)], 7)
    return True
