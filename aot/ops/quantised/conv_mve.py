# SPDX-License-Identifier: Apache-2.0
"""Plans of the int8 kernels for Arm's vector extension (runtime_c/kernels/aot_q*__mve.h)."""

from __future__ import annotations

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ops.quantised import conv_portable
from aot.ops.quantised.shapes import QCall, QConv, QFc
from aot.vendor.requant import INTEGER, TFLITE


def ceil_to(value: int, step: int) -> int:
    """`value` rounded up to a multiple of `step`."""
    return -(-value // step) * step


def pack_rows(w: Array) -> Array:
    """int8 [ceil(n / 4)][ceil(k / 16)][4][16] of w [n, k], zeros where it ends."""
    n, k = w.shape
    full = np.zeros((ceil_to(n, 4), ceil_to(k, 16)), np.int8)
    full[:n, :k] = w
    blocks = full.reshape(full.shape[0] // 4, 4, -1, 16).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(blocks).reshape(-1)


def _below_zero(layer: QConv | QFc) -> int:
    """Whether quantised values below the zero point are stored: 0 after a Relu of fixed-point
    sums."""
    return int(layer.rq == TFLITE and layer.lo < layer.y_zero)


def _reading(conv: QConv) -> tuple[int, int]:
    """How windows are read (DIRECT of aot_qconv_s8__mve.h) and the scratch bytes that needs."""
    k = conv.kh * conv.kw * conv.ic
    inside = (conv.oh - 1) * conv.sh < conv.ih and (conv.ow - 1) * conv.sw < conv.iw
    if conv.kh == conv.kw == 1 and conv.pt == conv.pl == 0 and conv.ic % 16 == 0 and inside:
        return 1, 0
    if conv.ic % 16 == 0 and conv.kw > conv.sw and conv.dw == 1:
        return 2, k + conv.sw * conv.kh * conv.ic
    return 0, 2 * ceil_to(k, 16)


def plan_conv(conv: QConv, w: Array, bias: Array, objective: str) -> QCall:
    """The kernel for w [oc, ic, kh, kw] and bias [oc]."""
    if conv.rq == INTEGER:  # has no form in vectors
        return conv_portable.plan_conv(conv, w, bias, objective)
    direct, scratch = _reading(conv)
    order = (0, 3, 2, 1) if direct == 2 else (0, 2, 3, 1)
    return QCall(
        "aot_qconv_s8__mve",
        pack_rows(w.transpose(order).reshape(conv.oc, -1)),
        bias,
        scratch,
        {"DIRECT": direct, "NEG": _below_zero(conv)},
    )


def plan_fc(dense: QFc, w: Array, bias: Array, objective: str) -> QCall:
    """The kernel for w [n, k] and bias [n]."""
    if dense.rq == INTEGER:
        return conv_portable.plan_fc(dense, w, bias, objective)
    direct = dense.k % 16 == 0
    rows = 1 if dense.m == 1 else 2
    return QCall(
        "aot_qfc_s8__mve",
        pack_rows(w),
        bias,
        0 if direct else rows * ceil_to(dense.k, 16),
        {"DIRECT": int(direct), "NEG": _below_zero(dense), "ROWS": rows},
    )


def pack_channels(w: Array) -> Array:
    """int8 [ceil(c / 16)][taps][16] of w [c, taps], repeated where it ends."""
    c, taps = w.shape
    full = w[np.arange(ceil_to(c, 16)) % c].astype(np.int8)
    return np.ascontiguousarray(full.reshape(-1, 16, taps).transpose(0, 2, 1)).reshape(-1)


def plan_depthwise(conv: QConv, w: Array, bias: Array, objective: str) -> QCall:
    """The kernel for w [c, 1, kh, kw] and bias [c]."""
    overflows = w.size and int(w.min()) < -127  # the sum of two products must fit 16 bits
    if overflows or conv.rq == INTEGER:
        return conv_portable.plan_depthwise(conv, w, bias, objective)
    taps = conv.kh * conv.kw
    padded = ceil_to(taps, 4)
    scratch = 12 * padded + ceil_to(conv.oc, 16)
    if conv.oc % 16:
        scratch += 8 * padded + 16 * taps
    group = 16 // conv.oc if 16 % conv.oc == 0 and conv.sw == 1 else 1
    return QCall(
        "aot_qdwconv_s8__mve",
        pack_channels(w.reshape(conv.oc, taps)),
        bias,
        scratch,
        {"NEG": _below_zero(conv), "NINE": int(taps == 9), "GROUP": group},
    )
