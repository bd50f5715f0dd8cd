# SPDX-License-Identifier: Apache-2.0
"""Convolutions and matrix products of 8-bit values by dot products: tiles, strips, packed weights.

The kernels are aot_q*_s8__dot of runtime_c/kernels; aot_qdot.h describes tiles and panels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ops.quantised.shapes import QCall, QConv, padded

#: Vectors of channels of a tile, its segments, and the pixels of one in 16 and in 32 registers.
VECTORS, SEGMENTS, FEW, MANY = 2, 2, 3, 7
#: Segments of a strip of which half a tile counts little.
FULL = 12
#: Bytes of the image that are copied at a time: what leaves room in a second-level cache.
STRIP = 192 << 10
#: AOT_QDOT_LENGTH and AOT_QDOT_SLACK of aot_qdot.h.
LENGTH, SLACK = 7, 64
#: AOT_QDOT_BEYOND of aot_qconv_s8__dot.h.
BEYOND = 16
#: AOT_QDW_COLUMNS of aot_qdwconv_s8__dot.h, and the largest window that its instances know.
COLUMNS, KNOWN = 28, 7
#: What a segment costs beside its pixels, in pixels.
OVERHEAD = 0.5


def suits(simd: str, vlen: int, objective: str) -> bool:
    """Whether the target has dot products and vectors, and memory for copies of the image."""
    return simd == "dot" and vlen > 1 and objective != "ram"


def flip(conv: QConv) -> int:
    """The number that the target's instruction needs added to x: 128 where it multiplies unsigned
    bytes, else 0.
    """
    return 128 if conv.arch == "x86_64" else 0


def split(w: Array) -> tuple[Array, Array]:
    """(int8 weights of the shape of `w`, the number subtracted from them by output channel, int32
    [n]).

    The number is 0 for channels whose weights int8 holds.
    """
    rows = w.reshape(len(w), -1).astype(np.int64)
    top, low = rows.max(axis=1), rows.min(axis=1)
    lacking = np.where((low < -128) | (top > 127), top - 127, 0)
    return (rows - lacking[:, None]).astype(np.int8).reshape(w.shape), lacking.astype(np.int32)


def pack(w: Array, vectors: int, vlen: int) -> Array:
    """The weights [n, runs, run] as panels of `vectors` vectors of channels, in the order of
    aot_qdot.h.

    Runs are padded with zeros to multiples of 4.
    """
    whole = padded(padded(w, vlen), 4, axis=2)
    panels = whole.reshape(-1, vlen, whole.shape[1] * whole.shape[2] // 4, 4).swapaxes(1, 2)
    parts = [panels[i : i + vectors] for i in range(0, len(panels), vectors)]
    return np.concatenate([p.transpose(1, 0, 2, 3).reshape(-1) for p in parts])


def length(pixels: int, most: int) -> int:
    """The number of pixels of a segment, at most `most`, with which a row of `pixels` takes least
    time.
    """
    return min(range(1, most + 1), key=lambda n: (-(-pixels // n) * (n + OVERHEAD), -n))


def tiles(conv: QConv, wz: bool, strip: int = STRIP) -> tuple[dict[str, int], int]:
    """(instance constants of a kernel, bytes of its scratch); `wz`: weights lack a number per
    channel.
    """
    if conv.kind == "fc":  # rows of x are rows of pixels: strips are made of whole rows
        conv = replace(conv, ih=conv.iw, oh=conv.ow, iw=1, ow=1)
    few = conv.arch == "x86_64" and conv.vlen == 8
    pixels, rows, size, sums = _strip(conv, strip)
    most = length(pixels, FEW if few else MANY)
    # An odd number of segments wastes half a tile: one of a segment is as many channels wider.
    segments, wide = rows * -(-pixels // most), SEGMENTS * VECTORS
    single = segments % 2 and segments < FULL and conv.oc % (wide * conv.vlen) == 0
    single = single and conv.arch == "x86_64" and conv.vlen == 16
    instance = {
        "L": most,
        "S": 1 if single else min(SEGMENTS, rows * -(-pixels // MANY)),
        "O": wide if single else VECTORS if conv.oc > conv.vlen else 1,
        "FLIP": flip(conv),
        "WZ": int(wz),
        "STRIP": strip,
    }
    return instance, size + (4 * sums if wz else 0)


def plan(conv: QConv, w: Array, bias: Array, strip: int = STRIP) -> QCall:
    """The call of the dot-product kernel for weights [oc, ic, kh, kw] and bias [oc], both packed.

    The bias takes off what flipped bytes of x add.
    """
    quantised, lacking = split(w)
    wz = bool(lacking.any())
    runs = quantised.transpose(0, 2, 3, 1)
    runs = runs.reshape(conv.oc, -1, conv.ic * (conv.kw if conv.dw == 1 else 1))
    instance, scratch = tiles(conv, wz, strip)
    sums = w.reshape(conv.oc, -1).astype(np.int64).sum(axis=1)
    # The kernel's sums wrap at 32 bits, so the bias may wrap as well; NumPy would refuse to cast.
    folded = (bias.astype(np.int64) - flip(conv) * sums).astype(np.uint64).astype(np.uint32)
    parts = [folded.view(np.int32), *([lacking] if wz else [])]
    return QCall(
        conv.kernel("__dot"),
        pack(runs, instance["O"], conv.vlen),
        np.concatenate([padded(p, conv.vlen) for p in parts]),
        scratch,
        instance,
        staged=False,
    )


def plan_depthwise(conv: QConv, w: Array, bias: Array) -> QCall | None:
    """The call of aot_qdwconv_s8__dot for weights [c, 1, kh, kw] and bias [c], both packed.

    None where the target's instruction has no such kernel, it would requantise value by value, or
    two sets of int8 do not make the weights.
    """
    first = np.clip(w, -128, 127)
    sets = [first, w - first] if (w != first).any() else [first]
    if conv.arch != "x86_64" or conv.rq != 0 or sets[-1].max() > 127:
        return None
    groups, full = -(-conv.kh // 4), 4 * conv.vlen
    sums = w.reshape(conv.oc, -1).astype(np.int64).sum(axis=1)
    folded = (bias.astype(np.int64) - 128 * sums).astype(np.uint64).astype(np.uint32)
    panels, lanes = list[Array](), list[Array]()
    for c in range(0, conv.oc, full):
        wide = full // 2 if conv.vlen == 16 and conv.oc - c <= full // 2 else full
        part = np.stack([padded(s[c : c + wide, 0], wide) for s in sets])
        part = padded(part.astype(np.int8), 4, axis=2)
        # Now [set][channel / 16][vector][lane % 4][group][row][column].
        part = part.reshape(len(sets), wide // 16, 4, 4, groups, 4, conv.kw)
        panels.append(part.transpose(0, 6, 4, 2, 1, 3, 5).reshape(-1))
        lanes.append(
            padded(folded[c : c + wide], wide).reshape(-1, 4, 4).swapaxes(0, 1).reshape(-1)
        )
    if len(sets) > 1:
        lanes.append(np.array([sets[1][c : c + full].any() for c in range(0, conv.oc, full)]))
    known = conv.kw <= KNOWN and conv.kh <= KNOWN
    instance = {
        "KW": conv.kw if known else 0,
        "G": groups if known else 0,
        "SETS": len(sets),
    }
    scratch = (COLUMNS * conv.sw + conv.kw * conv.dw) * groups * 4 * full
    stored = np.concatenate([b.astype(np.uint32) for b in lanes]).view(np.int32)
    return QCall(conv.kernel("__dot"), np.concatenate(panels), stored, scratch, instance)


def _strip(conv: QConv, most: int) -> tuple[int, int, int, int]:
    """(pixels of a row, rows of a strip, bytes of its copy, int32 for sums of its windows) for
    strips of at most `most` bytes.

    It is what aot_qdot_sizes computes and aot_qdot_totals needs; a 1 x 1 convolution takes several
    rows as one.
    """
    window = conv.kh * conv.kw == 1 and conv.pt == conv.pl == 0
    within = (conv.oh - 1) * conv.sh < conv.ih and (conv.ow - 1) * conv.sw < conv.iw
    if window and within:
        pitch = conv.ow * conv.ic
        rows = min(max(most // pitch, 1), conv.oh)
        copied, step, pixels, lines, more = rows, conv.ic, rows * conv.ow, 1, 0
    else:
        span = (conv.kh - 1) * conv.dh + 1
        pitch = ((conv.ow - 1) * conv.sw + (conv.kw - 1) * conv.dw + 1) * conv.ic
        rows = min(max(int((most // pitch - span) / conv.sh) + 1, 1), conv.oh)
        copied, step = (rows - 1) * conv.sh + span, conv.sw * conv.ic
        pixels, lines = conv.ow, rows
        more = BEYOND + 2 * (pitch // conv.ic + BEYOND) + span * (conv.ow + BEYOND)
    size = (copied * pitch + LENGTH * step + SLACK + 63) // 64 * 64
    return pixels, lines, size, lines * pixels + more
