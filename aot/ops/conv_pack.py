# SPDX-License-Identifier: Apache-2.0
"""Weights of convolutions and matrix products in the order the kernels read them.

Output channels go in blocks of `lanes`, blocks in groups of `vectors` (the last groups half of that
and so on down to 1), and every group is one contiguous panel: see runtime_c/kernels/aot_tile_f32.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from aot.ir.deferred import LARGE, Constant, Deferred, memory_of
from aot.ir.graph_nodes import Array


def ceil_div(a: int, b: int) -> int:
    """`a` divided by `b`, rounded up."""
    return -(-a // b)


def panel_groups(blocks: int, panel: int) -> Iterator[tuple[int, int]]:
    """(first block, number of blocks) of every panel; numbers are powers of two up to `panel`."""
    b = 0
    while b < blocks:
        size = panel
        while size > blocks - b:
            size //= 2
        yield b, size
        b += size


def pack_bias(bias: Array | None, channels: int, lanes: int) -> Array:
    """The bias of `channels` floats padded with zeros to a multiple of `lanes`; zeros if it is
    None.
    """
    out = np.zeros(ceil_div(channels, lanes) * lanes, np.float32)
    if bias is not None:
        out[:channels] = bias.reshape(-1)
    return out


def gemm_panels(w: Array, lanes: int, vectors: int) -> Iterator[Array]:
    """The panels of a matrix w [k, n] in order, each [k, vectors * lanes] flattened.

    Columns past n are zero; the last panels are half as wide and so on.
    """
    k, n = w.shape
    for b, size in panel_groups(ceil_div(n, lanes), vectors):
        panel = np.zeros((k, size * lanes), w.dtype)
        part = w[:, b * lanes : (b + size) * lanes]
        panel[:, : part.shape[1]] = part
        yield panel.reshape(-1)


def pack_gemm(w: Array, lanes: int, vectors: int) -> Array:
    """The panels of `gemm_panels`, one after the other, as one float32 array."""
    return np.concatenate(list(gemm_panels(w, lanes, vectors)))


def defer_gemm(w: Array, lanes: int, vectors: int) -> Constant:
    """The panels of `gemm_panels` as a constant; matrices of LARGE bytes are packed only when
    written.
    """
    k, n = w.shape
    if w.nbytes < LARGE:
        return pack_gemm(w, lanes, vectors)
    size, key = k * ceil_div(n, lanes) * lanes, ("panels", memory_of(w), lanes, vectors)
    return Deferred((size,), np.dtype(np.float32), key, partial(gemm_panels, w, lanes, vectors), w)


def pack_plain(w: Array, lanes: int, panel: int) -> Array:
    """Weights [oc, ic, kh, kw] for a plain input: panels [ic * kh * kw, vectors * lanes],
    flattened.
    """
    oc = w.shape[0]
    return pack_gemm(w.reshape(oc, -1).T, lanes, panel)


def pack_blocked(w: Array, groups: int, lanes: int, vectors: int) -> Array:
    """Panels [kh][kw][kc][vectors * lanes] of w [oc, ic / groups, kh, kw].

    kc are the input channels of every convolution group the panel touches, from a multiple of lanes
    on; weights between channels that are not connected are zero.
    """
    oc, icg, kh, kw = w.shape
    if groups == 1:
        return pack_gemm(w.transpose(2, 3, 1, 0).reshape(-1, oc), lanes, vectors)
    ocg = oc // groups
    panels = []
    for b, size in panel_groups(ceil_div(oc, lanes), vectors):
        start, end = b * lanes, min((b + size) * lanes, oc)
        first = start // ocg * icg // lanes * lanes
        kc = ((end - 1) // ocg + 1) * icg - first
        panel = np.zeros((kh, kw, kc, size * lanes), np.float32)
        for c in range(start, end):
            at = c // ocg * icg - first
            panel[:, :, at : at + icg, c - start] = w[c].transpose(1, 2, 0)
        panels.append(panel.reshape(-1))
    return np.concatenate(panels)


def pack_depthwise(w: Array, lanes: int) -> Array:
    """[ceil(c/v)][kh][kw][j][v] of w [c, j, kh, kw], zero past the channels."""
    c, _, kh, kw = w.shape
    blocks = ceil_div(c, lanes)
    out = np.zeros((blocks * lanes, *w.shape[1:]), np.float32)
    out[:c] = w
    return np.ascontiguousarray(out.reshape(blocks, lanes, -1, kh, kw).transpose(0, 3, 4, 2, 1))


def _interpolation(points: Sequence[float], taps: int) -> Array:
    """G [points + 1, taps], the transform of the taps of a row for `points` and infinity: by
    Lagrange, the powers of a point by the product of its distances from the others; the kernel has
    the sign of point 0.
    """
    rows = []
    for p in points:
        product = float(np.prod([p - q for q in points if q != p]))
        rows.append([p**k / (product if p else abs(product)) for k in range(taps)])
    return np.array([*rows, [0] * (taps - 1) + [1]])


# The finite points of Winograd's algorithm by the number of all points, as the kernel has them.
_POINTS = {
    4: (0, 1, -1),
    6: (0, 0.625, -0.625, 1.5, -1.5),
    8: (0, 1, -1, 2, -2, 0.5, -0.5),
}


def pack_winograd(w: Array, points: int, lanes: int, panel: int) -> Array:
    """Transformed weights for `points` points per axis whose window is not 1: panels [points of
    both axes][ic][o * v] of w [oc, ic, kh, kw].

    5 points stand for a 3 x 3 window with stride 2, whose products are those with g0, g1, g0 + g2,
    g2 and g1; the first two and the last two are added up, and those of a sum follow each other.
    The transform is computed in float64 and rounded once.
    """
    oc, ic, kh, kw = w.shape
    if points == 5:
        down = right = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 0, 1], [0, 1, 0]])
        sums = ((0, 1), (2,), (3, 4))
        order = [(i, j) for a in sums for b in sums for i in a for j in b]
    else:
        down, right = (
            _interpolation(_POINTS[points], k) if k > 1 else np.ones((1, 1)) for k in (kh, kw)
        )
        order = [(i, j) for i in range(len(down)) for j in range(len(right))]
    taps = np.ascontiguousarray(w.transpose(2, 3, 1, 0), np.float64).reshape(kh, kw, ic * oc)
    # Sums of a few rows: NumPy's matrix product would wake its threads for nothing.
    columns = [sum(c * taps[k] for k, c in enumerate(row) if c) for row in down]
    u = np.stack([sum(c * columns[i][k] for k, c in enumerate(right[j]) if c) for i, j in order])
    return pack_gemm(u.astype(np.float32).reshape(-1, oc), lanes, panel)
