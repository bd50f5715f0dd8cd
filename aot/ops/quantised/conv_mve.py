# SPDX-License-Identifier: Apache-2.0
"""Plans of the int8 kernels for Arm's vector extension (runtime_c/kernels/aot_q*__mve.h)."""

from __future__ import annotations

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ops.quantised import conv_portable
from aot.ops.quantised.shapes import QCall, QConv, padded, round_up
from aot.vendor.requant import INTEGER, TFLITE


def pack_rows(w: Array) -> Array:
    """The weights [n, k] as int8 [ceil(n / 4)][ceil(k / 16)][4][16], flat, zeros past their
    ends.
    """
    full = padded(padded(w.astype(np.int8), 4), 16, axis=1)
    blocks = full.reshape(full.shape[0] // 4, 4, -1, 16).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(blocks).reshape(-1)


def _below_zero(conv: QConv) -> int:
    """1 if quantised values below the zero point are stored, else 0: the instance constant NEG.

    A Relu of fixed-point sums stores none.
    """
    return int(conv.rq == TFLITE and conv.lo < conv.y_zero)


def _reading(conv: QConv, at_once: int) -> tuple[int, int]:
    """(how windows are read, the instance constant DIRECT; bytes of scratch for `at_once`
    windows).
    """
    k = conv.kh * conv.kw * conv.ic
    inside = (conv.oh - 1) * conv.sh < conv.ih and (conv.ow - 1) * conv.sw < conv.iw
    if conv.kh == conv.kw == 1 and conv.pt == conv.pl == 0 and conv.ic % 16 == 0 and inside:
        return 1, 0
    if conv.ic % 16 == 0 and conv.kw > conv.sw and conv.dw == 1:
        return 2, k + conv.sw * conv.kh * conv.ic
    return 0, at_once * round_up(k, 16)


def plan(conv: QConv, w: Array, bias: Array, objective: str) -> QCall:
    """The call for weights [oc, ic, kh, kw] (ic is 1 for a filter per channel) and bias [oc].

    The integer arithmetic, and depthwise weights of -128, go to the portable kernel.
    """
    depthwise = conv.kind == "dwconv"
    overflows = depthwise and w.size and int(w.min()) < -127  # sums of two must fit 16 bits
    if overflows or conv.rq == INTEGER:  # INTEGER has no form in vectors
        return conv_portable.plan(conv, w, bias, objective)
    if depthwise:
        return plan_depthwise(conv, w, bias)
    rows = 1 if conv.kind == "fc" and conv.ow == 1 else 2
    direct, scratch = _reading(conv, rows)
    order = (0, 3, 2, 1) if direct == 2 else (0, 2, 3, 1)
    instance = {"DIRECT": direct, "NEG": _below_zero(conv)}
    instance |= {"ROWS": rows} if conv.kind == "fc" else {}
    packed = pack_rows(w.transpose(order).reshape(conv.oc, -1))
    return QCall(conv.kernel("__mve"), packed, bias, scratch, instance)


def pack_channels(w: Array) -> Array:
    """The weights [c, taps] as int8 [ceil(c / 16)][taps][16], flat; channels repeat past
    the end.
    """
    c, taps = w.shape
    full = w[np.arange(round_up(c, 16)) % c].astype(np.int8)
    return np.ascontiguousarray(full.reshape(-1, 16, taps).transpose(0, 2, 1)).reshape(-1)


def plan_depthwise(conv: QConv, w: Array, bias: Array) -> QCall:
    """The call of the depthwise kernel; weights [c, 1, kh, kw] and bias [c]."""
    taps = conv.kh * conv.kw
    whole = round_up(taps, 4)
    scratch = 12 * whole + round_up(conv.oc, 16)
    if conv.oc % 16:
        scratch += 8 * whole + 16 * taps
    group = 16 // conv.oc if 16 % conv.oc == 0 and conv.sw == 1 else 1
    return QCall(
        conv.kernel("__mve"),
        pack_channels(w.reshape(conv.oc, taps)),
        bias,
        scratch,
        {"NEG": _below_zero(conv), "NINE": int(taps == 9), "GROUP": group},
    )
