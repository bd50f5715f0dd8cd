# SPDX-License-Identifier: Apache-2.0
"""Which kernel and which tile computes a convolution or a matrix product, and its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aot.ops import conv_pack as pack
from aot.ops.conv_pack import ceil_div
from aot.vendor.activations import NO_ACT, Act

Array = np.ndarray[Any, Any]
Fields = dict[str, int | float | tuple[int, ...]]

# Tiles (pixels, vectors of output channels) that keep their accumulators in registers, by width.
TILES: Mapping[int, tuple[tuple[int, int], ...]] = {
    16: ((14, 2), (6, 4)),
    8: ((6, 2),),
    4: ((4, 2),),
    1: ((4, 4),),
}


@dataclass(frozen=True, slots=True)
class ConvShape:
    """Sizes of a 2-D convolution (1-D ones have height 1); pt, pl are the pads above and left."""

    n: int
    ic: int
    ih: int
    iw: int
    oc: int
    oh: int
    ow: int
    kh: int
    kw: int
    sh: int = 1
    sw: int = 1
    dh: int = 1
    dw: int = 1
    pt: int = 0
    pl: int = 0
    groups: int = 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the convolution as defined."""
        per_pixel = self.kh * self.kw * self.ic // self.groups
        return self.n * self.oh * self.ow * self.oc * per_pixel

    @property
    def depthwise(self) -> bool:
        """Whether each channel is convolved with one filter of its own."""
        return self.groups == self.ic == self.oc and self.groups > 1

    @property
    def fields(self) -> Fields:
        """The sizes as the kernels' parameters, in the order of the C structs."""
        names = ("n", "ic", "ih", "iw", "oc", "oh", "ow", "kh", "kw", "sh", "sw", "dh", "dw")
        return {k: getattr(self, k) for k in (*names, "pt", "pl")}


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A kernel and its arguments: y, x, weights, bias, r (not depthwise), then scratch.

    `scratch` is its size in bytes, 0 passes NULL, None means the kernel has no such parameter.
    """

    kernel: str
    weights: Array
    bias: Array
    fields: Fields
    instance: dict[str, int] = field(default_factory=dict)
    scratch: int | None = None


def tile_pixels(p: int, n: int) -> int:
    """Pixels computed by the tile function that takes `n` pixels in family `p` (as in C)."""
    sizes = {14: (14, 7, 3, 1), 6: (6, 3, 1), 4: (4, 2, 1)}[p]
    return min(s for s in sizes if s >= n)


def tile_cost(p: int, o: int, pixels: int, blocks: int, k: int, v: int = 16) -> float:
    """Estimated cycles (one vector FMA each) of a family on a whole layer of `k` products each.

    A tile of few pixels waits for its weights: 16 bytes per cycle from L2.
    """
    cost = 0.0
    full, rest = divmod(pixels, p)
    for _, size in pack.panel_groups(blocks, o):
        for count, n in ((full, p), (1, rest)):
            if count and n:
                fma = tile_pixels(p, n) * size
                cost += count * (k * max(4, fma, size * v / 4) + 60 + 2 * fma)
    return cost


def choose_tile(v: int, pixels: int, blocks: int, k: int) -> tuple[int, int]:
    """The tile family (P, O) with the least estimated time."""
    return min(TILES[v], key=lambda t: tile_cost(t[0], t[1], pixels, blocks, k, v))


def _strides(s: ConvShape, v: int, x_plain: bool, y_plain: bool = False) -> Fields:
    lanes, y_lanes = 1 if x_plain else v, 1 if y_plain else v
    x_plane = s.ih * s.iw * lanes
    y_plane = s.oh * s.ow * y_lanes
    in_planes = s.ic if x_plain else ceil_div(s.ic, v)
    return {
        "y0": 0,
        "y1": s.oh,
        "x_row0": 0,
        "y_row0": 0,
        "x_row": s.iw * lanes,
        "x_plane": x_plane,
        "x_batch": x_plane * in_planes,
        "y_plane": y_plane,
        "y_batch": y_plane * ceil_div(s.oc, y_lanes),
    }


def _act_fields(act: Act) -> Fields:
    return {"act": act.kind, "alpha": act.alpha, "beta": act.beta}


def plan_blocked(
    s: ConvShape, w: Array, b: Array | None, v: int, act: Act = NO_ACT, y_plain: bool = False
) -> KernelCall:
    """Direct convolution of a blocked tensor; w [oc, ic / groups, kh, kw]."""
    k = s.kh * s.kw * s.ic // s.groups
    p, o = choose_tile(v, s.oh * s.ow, ceil_div(s.oc, v), k)
    if s.groups > 1:  # a panel that touches two groups computes zeros
        while o > 1 and (s.oc // s.groups) % (o * v):
            o //= 2
    fields = {**s.fields, "groups": s.groups, **_strides(s, v, False, y_plain)}
    fields |= _act_fields(act)
    return KernelCall(
        "aot_conv_f32_blocked",
        pack.pack_blocked(w, s.groups, v, o),
        pack.pack_bias(b, s.oc, v),
        fields,
        {"P": p, "O": o, "YV": 1 if y_plain else v, "ACT": act.after},
    )


RUN, LONG = 16, 192  # of few channels: products in a run, and products that a sum with runs has


def plan_plain(
    s: ConvShape, w: Array, b: Array | None, v: int, act: Act = NO_ACT, y_plain: bool = False
) -> KernelCall:
    """Convolution of a plain tensor, usually into a blocked one; groups must be 1."""
    blocks, k = ceil_div(s.oc, v), s.kh * s.kw * s.ic
    p, o = choose_tile(v, s.ow, blocks, k)  # a tile stays in its row
    bottom = (s.oh - 1) * s.sh + (s.kh - 1) * s.dh + 1
    right = (s.ow - 1) * s.sw + (s.kw - 1) * s.dw + 1
    padded = s.pt > 0 or s.pl > 0 or bottom > s.ih or right > s.iw
    width = (min(p, s.ow) - 1) * s.sw + (s.kw - 1) * s.dw + 1
    run = RUN if s.ic <= 2 and k >= LONG else 0  # filters of signals cancel
    return KernelCall(
        "aot_conv_f32_plain",
        pack.pack_plain(w, v, o),
        pack.pack_bias(b, s.oc, v),
        {**s.fields, **_strides(s, v, True, y_plain), **_act_fields(act)},
        {"P": p, "O": o, "RUN": run, "YV": 1 if y_plain else v, "ACT": act.after},
        4 * s.ic * s.kh * width if padded else 0,
    )


def plan_depthwise(
    s: ConvShape, w: Array, b: Array | None, v: int, act: Act = NO_ACT
) -> KernelCall:
    """Depthwise convolution of a blocked tensor; w [c, 1, kh, kw]. The kernel adds no residual."""
    fields = {**s.fields, **_strides(s, v, False), **_act_fields(act)}
    instance = {
        "KW": s.kw if s.kw in (3, 5) and s.dw == 1 else 0,
        "S": s.sw if s.sw in (1, 2) else 0,
        "ACT": act.after,
    }
    weights, bias = pack.pack_depthwise(w, v), pack.pack_bias(b, s.oc, v)
    return KernelCall("aot_dwconv_f32_blocked", weights, bias, fields, instance)


WINOGRAD_SCRATCH = 1 << 19  # bytes: what a block of tiles may take (it lives in L2)


def winograd_tiles(s: ConvShape, m: int, o: int, v: int) -> int:
    """Tiles transformed together: a multiple of 14 within the scratch, or all of them."""
    total = ceil_div(s.oh, m) * ceil_div(s.ow, m)
    each = 4 * (m + 2) ** 2 * v * (ceil_div(s.ic, v) + o)
    share = min(WINOGRAD_SCRATCH, s.n * (s.ic + s.oc) * s.oh * s.ow * 4)
    fits = max(7, share // each)
    if total <= fits:
        return total
    blocks = ceil_div(total, fits // 14 * 14 or fits)
    even = ceil_div(total, blocks)
    return min(fits, ceil_div(even, 14) * 14) if fits >= 14 else even


def winograd_outputs(s: ConvShape, v: int, sizes: tuple[int, ...] = (2, 4)) -> int:
    """The M of `sizes` whose F(M,3) is estimated to beat the direct kernel, 0 if none is.

    Costs in cycles: register tiles, transforms (10 per vector), and the time that weights which are
    not in a cache take to arrive (8 bytes per cycle); F(M,3) has more weights. The last keeps
    ResNet-50's at 133 instead of 201 MB, as fast within 1 %.
    """
    fits = s.kh == s.kw == 3 and s.sh == s.sw == s.dh == s.dw == 1
    if not fits or s.groups > 1 or v == 1 or max(s.pt, s.pl) > 2:
        return 0
    planes, vecs = ceil_div(s.ic, v), ceil_div(s.oc, v)

    def cost(points: int, pixels: int, k: int, transforms: int) -> float:
        tile = choose_tile(v, pixels, vecs, k)
        products = points * tile_cost(*tile, pixels, vecs, k, v)
        weights = points * k * vecs * v * 4
        return products + 10 * transforms + weights / 8

    costs = {0: cost(1, s.oh * s.ow, 9 * s.ic, 0)}
    for m in sizes:
        tiles, points = ceil_div(s.oh, m) * ceil_div(s.ow, m), (m + 2) ** 2
        costs[m] = 1.1 * cost(points, tiles, s.ic, points * tiles * (planes + vecs))
    return min(costs, key=lambda m: (costs[m], m))


def plan_winograd(
    s: ConvShape, w: Array, b: Array | None, v: int, act: Act = NO_ACT, m: int = 4
) -> KernelCall:
    """3x3 stride-1 convolution by F(m,3); w [oc, ic, 3, 3]."""
    total = ceil_div(s.oh, m) * ceil_div(s.ow, m)
    p, o = choose_tile(v, total, ceil_div(s.oc, v), s.ic)
    tiles = winograd_tiles(s, m, o, v)
    fields = {**s.fields, "tiles": tiles, **_strides(s, v, False), **_act_fields(act)}
    return KernelCall(
        "aot_winograd_f32_blocked",
        pack.pack_winograd(w, m, v, o),
        pack.pack_bias(b, s.oc, v),
        fields,
        {"M": m, "P": p, "O": o, "ACT": act.after},
        4 * (m + 2) ** 2 * tiles * v * (ceil_div(s.ic, v) + o),
    )


def plan_gemm(
    m: int, w: Array, b: Array | None, v: int, act: Act = NO_ACT, x_row: int = 0, y_row: int = 0
) -> KernelCall:
    """y [m, n] = act(x [m, k] · w [k, n] + b); row strides in floats, 0 means contiguous."""
    k, n = w.shape
    blocks = ceil_div(n, v)
    p, o = TILES[v][-1]
    # Rows of x a power of two apart share few cache sets: the tile with fewer rows first.
    if v == 16 and tile_cost(14, 2, m, blocks, k) < 0.9 * tile_cost(p, o, m, blocks, k):
        p, o = (14, 2)
    fields: Fields = {"m": m, "n": n, "k": k, "x_row": x_row or k, "y_row": y_row or n}
    return KernelCall(
        "aot_gemm_f32",
        pack.pack_gemm(w, v, o),
        pack.pack_bias(b, n, v),
        {**fields, **_act_fields(act)},
        {"P": p, "O": o, "ACT": act.after},
    )


@dataclass(frozen=True, slots=True)
class MatMulShape:
    """A batched product of two activations; strides in floats, as aot_matmul_f32.h defines them."""

    m: int
    n: int
    k: int
    batch: tuple[int, int, int]
    a_batch: tuple[int, int, int]
    b_batch: tuple[int, int, int]
    y_batch: tuple[int, int, int]
    a_row: int
    b_row: int
    b_col: int
    y_row: int
    scale: float = 1.0


GEMM_RUN = 256
"""AOT_GEMM_RUN: products that are summed up before they are added to a total."""


def plan_matmul(s: MatMulShape, v: int) -> KernelCall:
    """Product of two activations (the call has no weights and no bias).

    Columns are packed in blocks of k: at most as many floats as b has where a group of vectors is
    full, a run where most of it would be padding.
    """
    p, o = TILES[v][-1]
    group = o
    while group > max(1, ceil_div(s.n, v)):
        group //= 2
    width = group * v
    block = 4 * GEMM_RUN if s.n >= o * v else GEMM_RUN
    fields: Fields = {name: getattr(s, name) for name in MatMulShape.__slots__}
    none = np.zeros(0, np.float32)
    scratch = 4 * min(s.k, block) * width
    fields["k_block"] = block
    return KernelCall("aot_matmul_f32", none, none, fields, {"P": p, "O": o}, scratch)
