# SPDX-License-Identifier: Apache-2.0
"""Convolutions of small windows by Winograd's algorithm: whether it pays, with how many points, and
the kernel's arguments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from aot.ir.graph_nodes import Array
from aot.ops import conv_pack as pack
from aot.ops.conv_pack import ceil_div
from aot.ops.conv_plan import ConvShape, KernelCall, act_fields, choose_tile, strides, tile_cost
from aot.vendor.activations import NO_ACT, Act

# Up to so many products of a sum (64 channels of a 3x3 window) a layer is taken for one of a
# network's first, whose errors all others amplify.
EXACT_PRODUCTS = 576
# How much more than one sum of all products Winograd's algorithm errs, by the points of an axis and
# the windows that are longer than 1: the root mean square of the errors of 48 channels of rectified
# normal values, as `python tests/ops/test_winograd_errors.py` measures it.
ERRORS: Mapping[tuple[int, tuple[int, ...]], float] = {
    (4, (3,)): 0.77,
    (4, (3, 3)): 0.66,
    (5, (3, 3)): 0.61,  # with stride 2
    (6, (3,)): 1.44,
    (6, (5,)): 1.13,
    (6, (3, 3)): 1.82,
    (6, (3, 5)): 1.59,
    (6, (5, 5)): 1.18,
    (8, (3,)): 2.42,
    (8, (5,)): 1.88,
    (8, (7,)): 1.75,
    (8, (3, 3)): 6.59,
    (8, (3, 5)): 4.95,
    (8, (3, 7)): 4.67,
    (8, (5, 5)): 3.73,
    (8, (5, 7)): 3.54,
    (8, (7, 7)): 3.60,
}
# Greater errors than these are not accepted in first layers, in others (the error of F(4,3)), and
# with `--accuracy fast`.
FIRST_ERROR, ERROR, ANY_ERROR = 0.8, ERRORS[6, (3, 3)], math.inf
STRIDED = 5  # the points of a 3 x 3 window with stride 2
SCRATCH = 1 << 19  # bytes: what a block of tiles may take (it lives in L2)


def count_of(sizes: ConvShape, points: int) -> int:
    """Tiles of an image."""
    down, right = sizes.winograd_tile(points)
    return ceil_div(sizes.oh, down) * ceil_div(sizes.ow, right)


def sums_of(sizes: ConvShape, points: int) -> list[int]:
    """How many products each of the sums of a tile has per channel: one, or with 5 points (stride
    2) one, two or four.
    """
    if points != STRIDED:
        return [1] * sizes.winograd_points(points)
    return [a * b for a in (2, 1, 2) for b in (2, 1, 2)]


def floats_of(sizes: ConvShape, points: int, panel: int, vlen: int) -> int:
    """Floats of scratch for a tile: its points, and the sums of `panel` vectors of results."""
    planes, sums = ceil_div(sizes.ic, vlen), len(sums_of(sizes, points))
    return vlen * (sizes.winograd_points(points) * planes + sums * panel)


def tiles_together(sizes: ConvShape, points: int, panel: int, vlen: int) -> int:
    """How many tiles are transformed together: a multiple of 14 that fits the scratch, or all of
    them.

    `points` are those of an axis; `panel` counts vectors of output channels at a time.
    """
    total = count_of(sizes, points)
    each = 4 * floats_of(sizes, points, panel, vlen)
    share = min(SCRATCH, sizes.n * (sizes.ic + sizes.oc) * sizes.oh * sizes.ow * 4)
    fits = max(7, share // each)
    if total <= fits:
        return total
    blocks = ceil_div(total, fits // 14 * 14 or fits)
    even = ceil_div(total, blocks)
    return min(fits, ceil_div(even, 14) * 14) if fits >= 14 else even


def choices(conv: ConvShape, vlen: int, error: float) -> list[int]:
    """The numbers of points per axis with which Winograd's algorithm computes `conv` and errs at
    most by the factor `error`.
    """
    windows = tuple(sorted(k for k in (conv.kh, conv.kw) if k > 1))
    offered = {(1, 1): (4, 6, 8), (2, 2): (STRIDED,)}.get((conv.sh, conv.sw), ())
    if conv.groups > 1 or vlen == 1 or (conv.dh, conv.dw) != (1, 1):
        return []
    if conv.pt >= conv.kh or conv.pl >= conv.kw:
        return []
    return [t for t in offered if (t, windows) in ERRORS and ERRORS[t, windows] <= error]


def choice(
    conv: ConvShape,
    vlen: int,
    error: float = ERROR,
    price: float = 0.0,
    products: float = 1.0,
) -> int:
    """The points per axis of Winograd's algorithm that is estimated to beat the direct kernel among
    `choices`, 0 if none is.

    Costs in cycles: register tiles, transforms (6 per vector), and the time that weights which are
    not in a cache take to arrive (8 bytes per cycle) and `price` cycles for each byte of them; more
    points have more weights. The time keeps ResNet-50's at 163 instead of 205 MB.

    The direct kernel takes `products` of its estimate.
    """
    planes, vecs = ceil_div(conv.ic, vlen), ceil_div(conv.oc, vlen)

    def cost(sums: Sequence[int], pixels: int, depth: int, transforms: int, passes: int) -> float:
        """Estimated cycles of `sums` of `depth` products each over `pixels` pixels, of transforms,
        and loading weights, which all passes after the first find in a cache.
        """
        each = {}
        for n in set(sums):
            tile = choose_tile(vlen, pixels, vecs, n * depth)
            each[n] = tile_cost(*tile, pixels, vecs, n * depth, vlen)
        weights = sum(sums) * depth * vecs * vlen * 4
        arrive = weights * (1 / 8 + (passes - 1) / 64 + price)
        return sum(each[n] for n in sums) + 6 * transforms + arrive

    costs = {0: products * cost([1], conv.oh * conv.ow, conv.kh * conv.kw * conv.ic, 0, 1)}
    for points in choices(conv, vlen, error):
        tiles, sums = count_of(conv, points), sums_of(conv, points)
        vectors = tiles * (sum(sums) * planes + len(sums) * vecs)
        _, panel = choose_tile(vlen, tiles, vecs, conv.ic)
        passes = ceil_div(tiles, tiles_together(conv, points, panel, vlen))
        # The estimate is rough and tiles need more memory, so they have to be clearly ahead.
        costs[points] = 1.1 * cost(sums, tiles, conv.ic, vectors, passes)
    return min(costs, key=lambda t: (costs[t], t))


def plan_winograd(
    sizes: ConvShape, w: Array, b: Array | None, vlen: int, act: Act = NO_ACT, points: int = 6
) -> KernelCall:
    """The call of a convolution by Winograd's algorithm with `points` points along
    each axis of the window that is longer than 1; weights [oc, ic, kh, kw].
    """
    total = count_of(sizes, points)
    p, o = choose_tile(vlen, total, ceil_div(sizes.oc, vlen), sizes.ic)
    tiles = tiles_together(sizes, points, o, vlen)
    fields = {**sizes.fields, "tiles": tiles, **strides(sizes, vlen, False), **act_fields(act)}
    return KernelCall(
        "aot_winograd_f32_blocked",
        pack.pack_winograd(w, points, vlen, o),
        pack.pack_bias(b, sizes.oc, vlen),
        fields,
        {"T": points, "KH": sizes.kh, "KW": sizes.kw, "P": p, "O": o, "ACT": act.after},
        4 * tiles * floats_of(sizes, points, o, vlen),
    )
