# SPDX-License-Identifier: Apache-2.0
"""Gelu and products of com.microsoft, with the sums and activations that were fused into them.

Before: y = com.microsoft.FusedConv<activation="Relu">(x, w, b)
After: y = Relu(Conv(x, w, b))
"""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import attribute
from aot.ir.operators import AUTO_PAD, OneOf, Rowwise, operator
from aot.normalise.decompose import Body, decompose
from aot.ops.microsoft import MICROSOFT
from aot.shapes.dynamic.rules import dynamic, every_axis
from aot.shapes.types import Type, infer_types, need


@decompose("Gelu", MICROSOFT)
def _gelu(b: Body) -> bool:
    """Decompose Gelu into ONNX's."""
    b.add("Gelu", "i0", out="o0")
    return True


operator("BiasGelu", "x bias", domain=MICROSOFT, traits=[Rowwise()])


@decompose("BiasGelu", MICROSOFT)
def _bias_gelu(b: Body) -> bool:
    """Decompose BiasGelu: Gelu of the sum."""
    b.add("Gelu", b.add("Add", "i0", "i1"), out="o0")
    return True


operator("FastGelu", "x bias?", domain=MICROSOFT, traits=[Rowwise()])


@decompose("FastGelu", MICROSOFT)
def _fast_gelu(b: Body) -> bool:
    """Decompose FastGelu: Gelu by tanh of x, or of the sum with a bias."""
    x = b.add("Add", "i0", "i1") if b.has(1) else "i0"
    b.add("Gelu", x, out="o0", approximate="tanh")
    return True


@decompose("QuickGelu", MICROSOFT)
def _quick_gelu(b: Body) -> bool:
    """Decompose QuickGelu: x * Sigmoid(alpha * x)."""
    alpha = b.number(float(attribute(b.node, "alpha", 1.702)))
    b.add("Mul", "i0", b.add("Sigmoid", b.add("Mul", "i0", alpha)), out="o0")
    return True


def transposed(shape: tuple[int, ...], batch: bool, matrix: bool) -> tuple[int, ...]:
    """`shape` in the order of axes that FusedMatMul reads an operand in.

    `batch` moves the first axis before the last, `matrix` exchanges the last two.
    """
    axes = list(range(len(shape)))
    if batch and len(axes) > 2:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if matrix and len(axes) > 1:
        axes[-2:] = [axes[-1], axes[-2]]
    return tuple(shape[a] for a in axes)


@infer_types("FusedMatMul", MICROSOFT)
def _fused_matmul_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The type of FusedMatMul: that of a product of transposed operands; ValueError if they do not
    fit.
    """
    import numpy as np

    dtype, a = need(types, 0)
    _, b = need(types, 1)
    left, right = (
        transposed(s, bool(attribute(node, f"transBatch{k}")), bool(attribute(node, f"trans{k}")))
        for k, s in (("A", a), ("B", b))
    )
    wide = (1, *left) if len(left) == 1 else left
    tall = (*right, 1) if len(right) == 1 else right
    if wide[-1] != tall[-2]:
        raise ValueError(f"{wide[-1]} columns times {tall[-2]} rows")
    batch = tuple(np.broadcast_shapes(wide[:-2], tall[:-2]))
    rows = wide[-2:-1] if len(left) > 1 else ()
    return [(dtype, (*batch, *rows, *(tall[-1:] if len(right) > 1 else ())))]


def _operand(b: Body, index: int, letter: str) -> str:
    """The name of an operand of FusedMatMul with its axes in order; `letter` is A or B."""
    rank = len(b.shape(index))
    flags = [bool(attribute(b.node, f"trans{w}{letter}", 0)) for w in ("Batch", "")]
    perm = transposed(tuple(range(rank)), *flags)
    if perm == tuple(range(rank)):
        return f"i{index}"
    return b.add("Transpose", f"i{index}", perm=list(perm))


@decompose("FusedMatMul", MICROSOFT)
def _fused_matmul(b: Body) -> bool:
    """Decompose a FusedMatMul: Transposes, MatMul, times alpha."""
    alpha = float(attribute(b.node, "alpha", 1.0))
    y = b.add("MatMul", _operand(b, 0, "A"), _operand(b, 1, "B"))
    b.add("Mul", y, b.number(alpha), out="o0")
    return True


def _activated(b: Body, x: str, numbers: list[float]) -> bool:
    """Add output o0 as the node's activation of `x` with parameters `numbers`; False for unknown
    ones.
    """
    name = attribute(b.node, "activation", "")
    if name in ("", "Relu", "Tanh", "Sigmoid"):
        b.add(name or "Identity", x, out="o0")
    elif name == "LeakyRelu":
        b.add(name, x, out="o0", alpha=(numbers or [0.01])[0])
    elif name == "HardSigmoid":
        alpha, beta = numbers if len(numbers) == 2 else (0.2, 0.5)
        b.add(name, x, out="o0", alpha=alpha, beta=beta)
    elif name == "Clip" and len(numbers) == 2:
        b.add(name, x, *(b.number(v) for v in numbers), out="o0")
    else:
        return False
    return True


operator(
    "FusedConv",
    "x w b? z?",
    domain=MICROSOFT,
    auto_pad=AUTO_PAD,
    activation=OneOf("Relu Tanh Sigmoid LeakyRelu Clip HardSigmoid HardSwish"),
)
operator(
    "FusedGemm",
    "a b c?",
    domain=MICROSOFT,
    activation=OneOf(
        "Relu Tanh Sigmoid LeakyRelu HardSigmoid Elu Celu Selu Softplus Softsign ScaledTanh "
        "ThresholdedRelu ParametricSoftplus"
    ),
)


@decompose("FusedConv", MICROSOFT)
def _fused_conv(b: Body) -> bool:
    """Decompose a FusedConv: Conv, sum with input 3, activation."""
    own = ("activation", "activation_params")
    numbers = [float(v) for v in attribute(b.node, "activation_params", None) or ()]
    bias = ["i2"] if b.has(2) else []
    y = b.add("Conv", "i0", "i1", *bias, **b.attributes(*own))
    return _activated(b, b.add("Add", y, "i3") if b.has(3) else y, numbers)


@decompose("FusedGemm", MICROSOFT)
def _fused_gemm(b: Body) -> bool:
    """Decompose a FusedGemm: Gemm, activation."""
    own = [f"activation_{k}" for k in ("alpha", "beta", "gamma")]
    numbers = [float(attribute(b.node, k)) for k in own if attribute(b.node, k) is not None]
    c = ["i2"] if b.has(2) else []
    y = b.add("Gemm", "i0", "i1", *c, **b.attributes("activation", *own))
    return _activated(b, y, numbers)


dynamic("Gelu QuickGelu", MICROSOFT)(every_axis)
