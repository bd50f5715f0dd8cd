# SPDX-License-Identifier: Apache-2.0
"""Plans of the int8 kernels for Arm's vector extension (runtime_c/kernels/aot_q*__mve.h)."""

from __future__ import annotations

from typing import Any

import numpy as np

from aot.ops.quantised import conv_portable
from aot.ops.quantised.shapes import QCall, QConv, QFc
from aot.vendor.requant import INTEGER, TFLITE

Array = np.ndarray[Any, Any]


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


def _below_zero(s: QConv | QFc) -> int:
    """Whether codes below the zero point are stored: 0 after a Relu of fixed-point sums."""
    return int(s.rq == TFLITE and s.lo < s.y_zero)


def _reading(s: QConv) -> tuple[int, int]:
    """How windows are read (DIRECT of aot_qconv_s8__mve.h) and the scratch bytes that needs."""
    k = s.kh * s.kw * s.ic
    inside = (s.oh - 1) * s.sh < s.ih and (s.ow - 1) * s.sw < s.iw
    if s.kh == s.kw == 1 and s.pt == s.pl == 0 and s.ic % 16 == 0 and inside:
        return 1, 0
    if s.ic % 16 == 0 and s.kw > s.sw and s.dw == 1:
        return 2, k + s.sw * s.kh * s.ic
    return 0, 2 * ceil_to(k, 16)


def plan_conv(s: QConv, w: Array, bias: Array, objective: str) -> QCall:
    """The kernel for w [oc, ic, kh, kw] and bias [oc]."""
    if s.rq == INTEGER:  # has no form in vectors
        return conv_portable.plan_conv(s, w, bias, objective)
    direct, scratch = _reading(s)
    order = (0, 3, 2, 1) if direct == 2 else (0, 2, 3, 1)
    return QCall(
        "aot_qconv_s8__mve",
        pack_rows(w.transpose(order).reshape(s.oc, -1)),
        bias,
        scratch,
        {"DIRECT": direct, "NEG": _below_zero(s)},
    )


def plan_fc(s: QFc, w: Array, bias: Array, objective: str) -> QCall:
    """The kernel for w [n, k] and bias [n]."""
    if s.rq == INTEGER:
        return conv_portable.plan_fc(s, w, bias, objective)
    direct = s.k % 16 == 0
    rows = 1 if s.m == 1 else 2
    return QCall(
        "aot_qfc_s8__mve",
        pack_rows(w),
        bias,
        0 if direct else rows * ceil_to(s.k, 16),
        {"DIRECT": int(direct), "NEG": _below_zero(s), "ROWS": rows},
    )


def pack_channels(w: Array) -> Array:
    """int8 [ceil(c / 16)][taps][16] of w [c, taps], repeated where it ends."""
    c, taps = w.shape
    full = w[np.arange(ceil_to(c, 16)) % c].astype(np.int8)
    return np.ascontiguousarray(full.reshape(-1, 16, taps).transpose(0, 2, 1)).reshape(-1)


def plan_depthwise(s: QConv, w: Array, bias: Array, objective: str) -> QCall:
    """The kernel for w [c, 1, kh, kw] and bias [c]."""
    overflows = w.size and int(w.min()) < -127  # the sum of two products must fit 16 bits
    if overflows or s.rq == INTEGER:
        return conv_portable.plan_depthwise(s, w, bias, objective)
    taps = s.kh * s.kw
    padded = ceil_to(taps, 4)
    scratch = 12 * padded + ceil_to(s.oc, 16)
    if s.oc % 16:
        scratch += 8 * padded + 16 * taps
    group = 16 // s.oc if 16 % s.oc == 0 and s.sw == 1 else 1
    return QCall(
        "aot_qdwconv_s8__mve",
        pack_channels(w.reshape(s.oc, taps)),
        bias,
        scratch,
        {"NEG": _below_zero(s), "NINE": int(taps == 9), "GROUP": group},
    )
