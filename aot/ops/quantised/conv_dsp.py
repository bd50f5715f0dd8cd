# SPDX-License-Identifier: Apache-2.0
"""Plans of integer convolutions and products for Cortex-M4, M7 and M33 (runtime_c: *__dsp.h)."""

from __future__ import annotations

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ops.quantised import conv_portable
from aot.ops.quantised.shapes import QCall, QConv, padded, round_up

# aot_qdwconv_s8__dsp.h: AOT_QDW_DSP_SCRATCH
ROWS_SCRATCH = 4 * (4 * 2 * (8 + 2) + 2 * 8 + 24)
# Bytes of a pointer: the kernels run in plain C on hosts.
POINTER = 8


def is_wide(w: Array, bias: Array) -> bool:
    """Whether some sum of a second channel may not fit 24 bits, or a pair of weights 16.

    `w` is int8 [oc, k], `bias` [oc]; both channels of a pair are looked at.
    """
    w = w.astype(np.int64)
    second = w[1::2]
    first = w[0::2][: len(second)]
    sums = np.abs(second).sum(axis=1) * 128 + np.abs(bias.astype(np.int64)[1::2])
    halves = 256 * second + first
    fits = np.all(sums < 2**23) and np.all(np.abs(halves) < 2**15)
    return not fits


def in_blocks(channels: int) -> Array:
    """The channels (at least 4) of a convolution's blocks of four, as indices [4 * blocks].

    The last block ends at the last channel, so up to three channels are in two blocks where their
    number is no multiple of four.
    """
    whole = channels - channels % 4
    return np.r_[0:whole, channels - 4 : channels] if whole < channels else np.arange(whole)


def pack_weights(w: Array, wide: bool) -> Array:
    """w [oc, k] int8, k a multiple of 4 (quantised values in memory order) as words of
    aot_dsp_mac.h.

    Returns [oc/4][k/4][even, odd quantised values][channels (0, 1), (2, 3)][4 bytes] int8, flat.
    """
    filled = padded(w.astype(np.int64), 4)
    # [blocks, pair of channels, first or second, groups of 4 quantised values, first or second
    # quantised value, parity]
    parts = filled.reshape(-1, 2, 2, w.shape[1] // 4, 2, 2)
    first, second = parts[:, :, 0], parts[:, :, 1]
    if not wide:
        second = second - (first < 0)  # the half words are 256 * second + first
    # [blocks, pair, groups, code, parity, (first, second)]
    words = np.stack([first, second], axis=-1).transpose(0, 2, 4, 1, 3, 5)
    return np.ascontiguousarray(words).astype(np.int8).reshape(-1)


def pack_columns(w: Array, wide: bool) -> Array:
    """w [oc, kh, 3, ic] int8, ic a multiple of 4, in the order of aot_dsp_row_2x4, flat.

    The order is [oc / 4, kh, ic / 4, 2, 3, 8]: blocks of 4 output channels; the even, then the odd
    of 4 input channels; the 3 columns of the window; 8 bytes as `pack_weights` folds two pairs of
    output channels. `wide` is the answer of `is_wide` for these weights.
    """
    oc, kh, kw, ic = w.shape
    packed = pack_weights(w.reshape(oc, -1), wide).reshape(-1, kh, kw, ic // 4, 2, 8)
    return np.ascontiguousarray(packed.transpose(0, 1, 3, 4, 2, 5)).reshape(-1)


def pack_bias(bias: Array, wide: bool) -> Array:
    """The int32 sums (modulo 2^32) that each block of four channels starts from.

    Two channels share a number unless `wide`.
    """
    filled = padded(bias.astype(np.int64), 4)
    if not wide:
        filled[1::2] = 256 * filled[1::2] + filled[0::2]
    return filled.astype(np.uint32).view(np.int32)


def _clip(conv: QConv) -> int:
    """1 if the limits are narrower than int8, else 0: the instance constant CLIP."""
    return int((conv.lo, conv.hi) != (-128, 127))


def conv_kind(conv: QConv) -> int:
    """The instance constant KIND: 1 for whole 1 x 1 windows, 2 for windows of three columns, else
    0.
    """
    quads = conv.ic % 4 == 0
    strides = conv.sh == conv.sw == 1
    whole = conv.oh == conv.ih and conv.ow == conv.iw
    if conv.kh == conv.kw == 1 and quads and strides and whole:
        return 1
    return 2 if quads and conv.kw == 3 and conv.sw == conv.dw == 1 else 0


def plan(conv: QConv, w: Array, bias: Array, objective: str) -> QCall:
    """The call for weights [oc, ic, kh, kw] (ic is 1 for a filter per channel) and bias [oc].

    Few channels, and depthwise ones that are no multiple of four, go to the portable kernel.
    """
    if conv.kind == "fc":
        return plan_fc(conv, w.reshape(len(w), -1), bias, objective)
    if (conv.kind == "conv" and conv.oc < 4) or (conv.kind == "dwconv" and conv.ic % 4 != 0):
        return conv_portable.plan(conv, w, bias, objective)
    if conv.kind == "dwconv":
        return plan_depthwise(conv, w, bias)
    blocks = in_blocks(conv.oc)
    bias = bias[blocks]
    last = np.ascontiguousarray(w.transpose(0, 2, 3, 1)[blocks])
    flat = last.reshape(len(last), -1)
    kind, wide = conv_kind(conv), is_wide(flat, bias)
    depth = round_up(flat.shape[1], 8)
    if kind == 2:
        weights, scratch = pack_columns(last, wide), 8 * conv.kh * conv.ic
    else:
        weights = pack_weights(padded(flat, 8, axis=1), wide)
        scratch = 4 * depth if kind else 6 * depth + 4
    instance = {"KIND": kind, "CLIP": _clip(conv), "WIDE": int(wide), "LAST": int(conv.oc % 4 != 0)}
    tile = 0 if conv.oc % 4 else 4  # a last block of the last four channels again
    return QCall(conv.kernel("__dsp"), weights, pack_bias(bias, wide), scratch, instance, tile=tile)


def plan_depthwise(conv: QConv, w: Array, bias: Array) -> QCall:
    """The call of the depthwise kernel; weights [c, 1, kh, kw] int8, bias [c] int32."""
    near = conv.kh == conv.kw == 3 and conv.dh == conv.dw == 1 and conv.sh == conv.sw
    kind = conv.sh if near and conv.sh in (1, 2) else 0
    weights = w.reshape(-1, 4, conv.kh, conv.kw).transpose(0, 2, 3, 1)
    return QCall(
        conv.kernel("__dsp"),
        np.ascontiguousarray(weights).reshape(-1),
        bias,
        ROWS_SCRATCH if kind else POINTER * conv.kh * conv.kw + conv.ic,
        {"KIND": kind, "CLIP": _clip(conv)},
    )


def plan_fc(dense: QConv, w: Array, bias: Array, objective: str) -> QCall:
    """The call of a matrix product with constant weights [n, k] int8 and bias [n] int32."""
    # Pairs that share a number would make -9 of -8, for which weights of four bits have no room.
    four_bits = objective == "flash" and w.size > 0 and w.min() == -8 and w.max() < 8
    wide = is_wide(w, bias) or bool(four_bits)
    scratch = 0 if dense.ic % 8 == 0 else round_up(dense.ic, 8)
    instance = {"CLIP": _clip(dense), "WIDE": int(wide)}
    deep = pack_weights(padded(w, 8, axis=1), wide)
    made = dense.kernel("__dsp"), deep, pack_bias(bias, wide), scratch, instance
    return QCall(*made, tile=4)
