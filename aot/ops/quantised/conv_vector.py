# SPDX-License-Identifier: Apache-2.0
"""Convolutions and matrix products of int8 quantised values on float targets' vectors of int32
sums."""

from __future__ import annotations

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ops.quantised.shapes import QCall, QConv, QFc

#: Vectors of channels that a tile of P pixels holds sums for: P * O registers of 16.
VECTORS, PIXELS = 2, 4


def suits(layer: QConv | QFc) -> bool:
    """Whether the target has vectors."""
    return layer.vlen > 1


def padded(data: Array, multiple: int, axis: int = 0) -> Array:
    """`data` with an axis extended by zeros to a multiple."""
    widths = [(0, 0)] * data.ndim
    widths[axis] = (0, -data.shape[axis] % multiple)
    return np.pad(data, widths)


def pack(w: Array, vectors: int, vlen: int, pair: bool) -> Array:
    """Panels of w [n, k] in the order of aot_qvec.h."""
    full = padded(padded(w.astype(np.int8), vectors * vlen), 2, axis=1)
    panels = full.reshape(-1, vectors, vlen, full.shape[1] // 2, 2)
    order = (0, 3, 1, 2, 4) if pair else (0, 3, 4, 1, 2)
    return np.ascontiguousarray(panels.transpose(order)).reshape(-1)


def _product(kernel: str, layer: QConv | QFc, w: Array, bias: Array, pixels: int) -> QCall:
    """The call for weights [n, k] and a number of pixels."""
    n, k = w.shape
    vectors = VECTORS if n > layer.vlen else 1
    p = min(pixels, PIXELS)
    pair = layer.arch == "x86_64"
    return QCall(
        kernel,
        pack(w, vectors, layer.vlen, pair),
        padded(bias.astype(np.int32), vectors * layer.vlen),
        2 * p * (k + k % 2),
        {"P": p, "O": vectors, "PAIR": int(pair)},
    )


def plan_conv(conv: QConv, w: Array, bias: Array) -> QCall:
    """aot_qconv_s8__vec for w [oc, ic, kh, kw]."""
    flat = w.transpose(0, 2, 3, 1).reshape(conv.oc, -1)
    return _product("aot_qconv_s8__vec", conv, flat, bias, conv.oh * conv.ow)


def plan_depthwise(conv: QConv, w: Array, bias: Array) -> QCall:
    """aot_qdwconv_s8__vec for w [c, 1, kh, kw]."""
    taps = padded(w.astype(np.int8).reshape(conv.oc, -1).T, conv.vlen, axis=1)
    vectors = min(4, max(1, conv.oc // conv.vlen))
    return QCall(
        "aot_qdwconv_s8__vec",
        np.ascontiguousarray(taps).reshape(-1),
        padded(bias.astype(np.int32), conv.vlen),
        0,
        {"O": vectors},
    )


def plan_fc(dense: QFc, w: Array, bias: Array) -> QCall:
    """aot_qfc_s8__vec for w [n, k]."""
    return _product("aot_qfc_s8__vec", dense, w, bias, dense.m)
