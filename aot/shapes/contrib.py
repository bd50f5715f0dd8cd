# SPDX-License-Identifier: Apache-2.0
"""Shape rules of operators onnx cannot infer: onnxruntime's, and functions of ONNX itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aot.shapes.nodes import attribute

if TYPE_CHECKING:
    import onnx_ir as ir

Type = tuple[int, tuple[int, ...]]
"""Element type (TensorProto.DataType) and shape of a value."""

Rule = Callable[["ir.Node", list[Type | None]], list[Type]]


def _first(node: ir.Node, types: list[Type | None]) -> list[Type]:
    return [_need(types, 0)]


def _to_float(node: ir.Node, types: list[Type | None]) -> list[Type]:
    return [(1, _need(types, 0)[1])]


def _broadcast(left: int, right: int) -> Rule:
    def rule(node: ir.Node, types: list[Type | None]) -> list[Type]:
        import numpy as np

        dtype, a = _need(types, left)
        _, b = _need(types, right)
        return [(dtype, tuple(np.broadcast_shapes(a, b)))]

    return rule


def _global_pool(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, shape = _need(types, 0)
    last = bool(attribute(node, "channels_last", 0))
    spatial = range(1, len(shape) - 1) if last else range(2, len(shape))
    return [(dtype, tuple(1 if i in spatial else s for i, s in enumerate(shape)))]


def _pool(node: ir.Node, types: list[Type | None]) -> list[Type]:
    dtype, shape = _need(types, 0)
    kernel = [int(k) for k in attribute(node, "kernel_shape", ())]
    last = bool(attribute(node, "channels_last", 0))
    spatial = list(shape[1:-1] if last else shape[2:])
    strides = [int(s) for s in attribute(node, "strides", [1] * len(kernel))]
    pads = [int(p) for p in attribute(node, "pads", [0] * (2 * len(kernel)))]
    auto = attribute(node, "auto_pad", "NOTSET")
    up = bool(attribute(node, "ceil_mode", 0))
    out = []
    for i, size in enumerate(spatial):
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            out.append(-(-size // strides[i]))
            continue
        room = size + pads[i] + pads[i + len(kernel)] - kernel[i]
        out.append((-(-room // strides[i]) if up else room // strides[i]) + 1)
    shape = (shape[0], *out, shape[-1]) if last else (*shape[:2], *out)
    return [(dtype, shape)]


def _concat(node: ir.Node, types: list[Type | None]) -> list[Type]:
    parts = [_need(types, i) for i in range(2, len(types), 3)]
    dtype, shape = parts[0]
    axis = int(attribute(node, "axis", 0)) % len(shape)
    total = sum(p[1][axis] for p in parts)
    return [(dtype, (*shape[:axis], total, *shape[axis + 1 :]))]


def _need(types: list[Type | None], index: int) -> Type:
    found = types[index] if index < len(types) else None
    if found is None:
        raise ValueError(f"input {index} is absent")
    return found


_MS = "com.microsoft"
CONTRIB: dict[tuple[str, str], Rule] = {
    **{(_MS, name): _first for name in ("Gelu", "FastGelu", "QuickGelu", "BiasGelu")},
    **{(_MS, name): _first for name in ("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax")},
    (_MS, "QLinearAdd"): _broadcast(0, 3),
    (_MS, "QLinearMul"): _broadcast(0, 3),
    (_MS, "QLinearGlobalAveragePool"): _global_pool,
    (_MS, "QLinearAveragePool"): _pool,
    (_MS, "QLinearConcat"): _concat,
    ("ai.onnx.ml", "Scaler"): _to_float,
    ("", "GroupNormalization"): _first,
    ("", "MeanVarianceNormalization"): _first,
}
