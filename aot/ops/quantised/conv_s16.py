# SPDX-License-Identifier: Apache-2.0
"""Plans of products of int16 quantised values and int8 weights, the same kernels on every board.

Their sums are those of runtime_c/kernels/aot_qsums_s16.h, with an order of the weights for each
instruction set.
"""

from __future__ import annotations

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ops.quantised.conv_dsp import POINTER, pack_weights
from aot.ops.quantised.shapes import QCall, QConv, padded, round_up

#: The instance constant UNIT by the target's instructions; plain C else.
PLAIN, DSP, MVE = range(3)
UNITS = {"dsp": DSP, "mve": MVE}


def pack(w: Array, unit: int) -> Array:
    """The weights [oc, depth] int8 in the order of `unit`, flat, padded to blocks of four channels.

    For DSP and MVE the depth is padded to a multiple of 8.
    """
    blocks: Array
    if unit == PLAIN:
        blocks = padded(w, 4).reshape(-1, 4, w.shape[1]).transpose(0, 2, 1)
    elif unit == DSP:
        # pack_weights pairs the values k and k + 2 of four; memory has k and k + 1 in a word.
        deep = padded(w, 8, axis=1)
        fours = deep.reshape(len(w), -1, 4)[:, :, [0, 2, 1, 3]]
        return pack_weights(fours.reshape(deep.shape), wide=True)
    else:
        deep = padded(padded(w, 4), 8, axis=1)
        blocks = deep.reshape(len(deep) // 4, 4, -1, 8).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(blocks).reshape(-1)


def plan(conv: QConv, w: Array, bias: Array, objective: str) -> QCall:
    """The call for weights [oc, ic, kh, kw] (ic is 1 for a filter per channel) and bias [oc]."""
    unit, name = UNITS.get(conv.simd, PLAIN), f"aot_q{conv.kind}_s16"
    instance = {"CLIP": int((conv.lo, conv.hi) != (-32768, 32767)), "UNIT": unit}
    bias = padded(bias.astype(np.int32), 4)
    if conv.kind == "dwconv":
        taps = conv.kh * conv.kw
        blocks = padded(w.astype(np.int8).reshape(-1, taps), 4).reshape(-1, 4, taps)
        # SXTB16 widens bytes 0 and 2 of a word, then 1 and 3: so channels come out as pairs 0, 1
        # and 2, 3.
        order = [0, 2, 1, 3] if unit == DSP else [0, 1, 2, 3]
        packed = np.ascontiguousarray(blocks[:, order].transpose(0, 2, 1)).reshape(-1)
        return QCall(name, packed, bias, POINTER * taps + 2 * conv.ic, instance)
    rows = w.astype(np.int8).transpose(0, 2, 3, 1)
    inside = (conv.oh - 1) * conv.sh < conv.ih and (conv.ow - 1) * conv.sw < conv.iw
    point = conv.kh == conv.kw == 1 and conv.pt == conv.pl == 0 and inside
    taps = 1 if point or conv.dw > 1 else conv.kw
    runs = rows.reshape(conv.oc, -1, taps * conv.ic)
    # Runs are padded to pairs of values, which a 32-bit load takes; a point has one run.
    flat = (runs if point else padded(runs, 2, axis=2)).reshape(conv.oc, -1)
    depth = round_up(flat.shape[1], 1 if unit == PLAIN else 8)
    packed = pack(flat, unit)
    if conv.kind == "fc":
        return QCall(name, packed, bias, 0 if depth == conv.ic else 2 * depth, instance)
    in_place = point and unit != DSP and depth == conv.ic
    return QCall(name, packed, bias, 0 if in_place else 4 * depth, {"KIND": int(point), **instance})
