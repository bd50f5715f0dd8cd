# SPDX-License-Identifier: Apache-2.0
"""Result types of the quantised operators of com.microsoft, and of those like their input."""

from __future__ import annotations

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import SAME, attribute
from aot.normalise.decompose import decompose
from aot.normalise.decompose_builder import Body
from aot.ops.microsoft import MICROSOFT
from aot.shapes.types import Rule, Type, infer_types, need


@infer_types("GroupNormalization MeanVarianceNormalization")
@infer_types("BiasGelu FastGelu Gelu QuickGelu", MICROSOFT)
@infer_types("QLinearLeakyRelu QLinearSigmoid QLinearSoftmax RotaryEmbedding", MICROSOFT)
def _first(node: ir.Node, types: list[Type | None]) -> list[Type]:
    return [need(types, 0)]


def _broadcast(left: int, right: int) -> Rule:
    def rule(node: ir.Node, types: list[Type | None]) -> list[Type]:
        import numpy as np

        dtype, a = need(types, left)
        _, b = need(types, right)
        return [(dtype, tuple(np.broadcast_shapes(a, b)))]

    return rule


@infer_types("QLinearGlobalAveragePool", MICROSOFT)
def _global_pool(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, shape = need(types, 0)
    last = bool(attribute(node, "channels_last", 0))
    spatial = range(1, len(shape) - 1) if last else range(2, len(shape))
    return [(dtype, tuple(1 if i in spatial else s for i, s in enumerate(shape)))]


@infer_types("QLinearAveragePool", MICROSOFT)
def _pool(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, shape = need(types, 0)
    last, out = _windows(node, shape, [int(k) for k in attribute(node, "kernel_shape", ())])
    shape = (shape[0], *out, shape[-1]) if last else (*shape[:2], *out)
    return [(dtype, shape)]


def _windows(node: ir.Node, shape: tuple[int, ...], reach: list[int]) -> tuple[bool, list[int]]:
    """Whether channels are last, and how many windows of `reach` there are per spatial axis."""
    last = bool(attribute(node, "channels_last", 0))
    spatial = list(shape[1:-1] if last else shape[2:])
    strides = [int(s) for s in attribute(node, "strides", [1] * len(reach))]
    pads = [int(p) for p in attribute(node, "pads", [0] * (2 * len(reach)))]
    auto = attribute(node, "auto_pad", "NOTSET")
    up = bool(attribute(node, "ceil_mode", 0))
    out = []
    for i, size in enumerate(spatial):
        if auto in SAME:
            out.append(-(-size // strides[i]))
            continue
        around = 0 if auto == "VALID" else pads[i] + pads[i + len(reach)]
        room = size + around - reach[i]
        out.append((-(-room // strides[i]) if up else room // strides[i]) + 1)
    return last, out


@infer_types("NhwcMaxPool", MICROSOFT)
def _last_pool(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, shape = need(types, 0)
    kernel = [int(k) for k in attribute(node, "kernel_shape", ())]
    dilations = [int(d) for d in attribute(node, "dilations", [1] * len(kernel))]
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    _, out = _windows(node, (shape[0], shape[-1], *shape[1:-1]), reach)
    return [(dtype, (shape[0], *out, shape[-1]))]


@decompose("NhwcMaxPool", MICROSOFT)
def _max_pool(b: Body) -> bool:
    """Before: y = NhwcMaxPool(x)      After: y = Transpose(MaxPool(Transpose(x)))"""
    rank = len(b.shape(0))
    first = b.add("Transpose", "i0", perm=[0, rank - 1, *range(1, rank - 1)])
    pooled = b.add("MaxPool", first, **b.attributes())
    b.add("Transpose", pooled, perm=[0, *range(2, rank), 1], out="o0")
    return True


@infer_types("QLinearConcat", MICROSOFT)
def _concat(node: ir.Node, types: list[Type | None]) -> list[Type]:
    parts = [need(types, i) for i in range(2, len(types), 3)]
    dtype, shape = parts[0]
    axis = int(attribute(node, "axis", 0)) % len(shape)
    total = sum(p[1][axis] for p in parts)
    return [(dtype, (*shape[:axis], total, *shape[axis + 1 :]))]


@infer_types("QLinearConv", MICROSOFT)
def _conv(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """Input 0 is x, 3 the weights [M, C / group, …], 7 the zero point of the result."""
    shape, weights = need(types, 0)[1], need(types, 3)[1]
    last = bool(attribute(node, "channels_last", 0))
    dilations = [int(d) for d in attribute(node, "dilations", [1] * (len(weights) - 2))]
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, weights[2:], strict=True)]
    _, out = _windows(node, shape, reach)
    dtype = need(types, 7)[0]
    return [(dtype, (shape[0], *out, weights[0]) if last else (shape[0], weights[0], *out))]


@infer_types("FusedConv", MICROSOFT)
def _fused_conv(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """Input 1 are the weights."""
    return _conv(node, [need(types, 0), None, None, need(types, 1), None, None, None, types[0]])


@infer_types("QLinearReduceMean", MICROSOFT)
def _mean(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, shape = need(types, 0)
    rank = len(shape)
    axes = {int(a) % rank for a in attribute(node, "axes", None) or range(rank)}
    if attribute(node, "keepdims", 1):
        return [(dtype, tuple(1 if i in axes else s for i, s in enumerate(shape)))]
    return [(dtype, tuple(s for i, s in enumerate(shape) if i not in axes))]


@infer_types("QLinearWhere", MICROSOFT)
def _where(node: ir.Node, types: list[Type | None]) -> list[Type]:
    import numpy as np

    condition, (dtype, x), (_, y) = (need(types, i) for i in (0, 1, 4))
    return [(dtype, tuple(np.broadcast_shapes(condition[1], x, y)))]


@infer_types("QGemm", MICROSOFT)
def _gemm(node: ir.Node, types: list[Type | None]) -> list[Type]:
    a, b = need(types, 0)[1], need(types, 3)[1]
    rows = a[1] if attribute(node, "transA", 0) else a[0]
    columns = b[0] if attribute(node, "transB", 0) else b[1]
    given = types[8] if len(types) > 8 else None
    if len(types) > 7 and types[7] is not None:
        return [((given or need(types, 0))[0], (rows, columns))]
    return [(1, (rows, columns))]


def _matmul(scale: int) -> Rule:
    """A product of inputs 0 and 1 in the type of a scale."""

    def rule(node: ir.Node, types: list[Type | None]) -> list[Type]:
        import numpy as np

        a, b = need(types, 0)[1], need(types, 1)[1]
        if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
            raise ValueError(f"cannot multiply {list(a)} by {list(b)}")
        outer = np.broadcast_shapes(a[:-2], b[:-2])
        return [(need(types, scale)[0], (*outer, a[-2], b[-1]))]

    return rule


@infer_types("QuantizeLinear", MICROSOFT)
def _quantise(node: ir.Node, types: list[Type | None]) -> list[Type]:
    zero = types[2] if len(types) > 2 else None
    return [(zero[0] if zero else 2, need(types, 0)[1])]


@infer_types("DequantizeLinear", MICROSOFT)
def _dequantise(node: ir.Node, types: list[Type | None]) -> list[Type]:
    return [(need(types, 1)[0], need(types, 0)[1])]


infer_types("QLinearAdd QLinearMul", MICROSOFT)(_broadcast(0, 3))
infer_types("DynamicQuantizeMatMul MatMulIntegerToFloat", MICROSOFT)(_matmul(2))
