# SPDX-License-Identifier: Apache-2.0
"""Convolutions and matrix products of int8 quantised values on float targets' vectors of int32
sums."""

from __future__ import annotations

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ops.quantised.shapes import QCall, QConv, padded

#: Vectors of channels that a tile of P pixels holds sums for: P * O registers of 16.
VECTORS, PIXELS = 2, 4


def suits(conv: QConv) -> bool:
    """Whether the target has vectors."""
    return conv.vlen > 1


def pack(w: Array, vectors: int, vlen: int, pair: bool) -> Array:
    """The weights [n, k] as int8 panels in the order of aot_qvec.h; `pair`: pairs along k
    together.
    """
    full = padded(padded(w.astype(np.int8), vectors * vlen), 2, axis=1)
    panels = full.reshape(-1, vectors, vlen, full.shape[1] // 2, 2)
    order = (0, 3, 1, 2, 4) if pair else (0, 3, 4, 1, 2)
    return np.ascontiguousarray(panels.transpose(order)).reshape(-1)


def plan(conv: QConv, w: Array, bias: Array) -> QCall:
    """The call of the kernel on vectors of sums, for weights [oc, ic, kh, kw] and bias [oc]."""
    if conv.kind == "dwconv":
        # Weights less their zero points may need nine bits.
        wide = w.min() < -128 or w.max() > 127
        taps = padded(
            w.astype(np.int16 if wide else np.int8).reshape(conv.oc, -1).T, conv.vlen, axis=1
        )
        bias = padded(bias.astype(np.int32), conv.vlen)
        instance = {"O": min(4, max(1, conv.oc // conv.vlen)), "W16": int(wide)}
        return QCall(conv.kernel("__vec"), taps.reshape(-1), bias, 0, instance)
    flat = w.transpose(0, 2, 3, 1).reshape(conv.oc, -1)
    n, k = flat.shape
    vectors = VECTORS if n > conv.vlen else 1
    p, pair = min(conv.oh * conv.ow, PIXELS), conv.arch == "x86_64"
    return QCall(
        conv.kernel("__vec"),
        pack(flat, vectors, conv.vlen, pair),
        padded(bias.astype(np.int32), vectors * conv.vlen),
        2 * p * (k + k % 2),
        {"P": p, "O": vectors, "PAIR": int(pair)},
    )
