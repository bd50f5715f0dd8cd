# SPDX-License-Identifier: Apache-2.0
"""1 x 1 convolutions in groups of a few channels, computed in vectors of pixels."""

from __future__ import annotations

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ir.splits import PartField, Split
from aot.ops.conv_pack import ceil_div
from aot.ops.conv_plan import TILES, ConvShape, Fields, KernelCall, act_fields, tile_cost
from aot.vendor.activations import NO_ACT, Act


def pixel_vectors(sizes: ConvShape, vlen: int) -> bool:
    """Whether vectors of pixels are estimated to beat vectors of channels: 1 x 1 windows in groups
    that share vectors of channels, whose panels multiply the channels of other groups by zero.

    Costs in cycles, as tile_cost has them. Tiles of one vector wait for addresses, and where groups
    share it each result is looked at again: 1.3 times as many (measured on a Zen 4). A panel of
    pixels is copied; converting a tensor between plain and blocks takes an eighth per float.
    """
    icg, ocg, pixels = sizes.ic // sizes.groups, sizes.oc // sizes.groups, sizes.oh * sizes.ow
    flat = sizes.kh * sizes.kw * sizes.sh * sizes.sw == 1 and pixels == sizes.ih * sizes.iw
    if not flat or sizes.groups == 1 or not (icg % vlen or ocg % vlen):
        return False
    blocks, (p, o) = ceil_div(pixels, vlen), TILES[vlen][-1]
    own = sizes.groups * (tile_cost(p, o, ocg, blocks, icg + 1, vlen) + 2 * icg * blocks)
    other = sum(
        tile_cost(
            p, 1, pixels, 1, (min(b + vlen, sizes.oc) - 1) // ocg * icg + icg - b // ocg * icg
        )
        for b in range(0, sizes.oc, vlen)
    )
    return own + (sizes.ic + sizes.oc) * pixels / 8 < 1.3 * other


def plan_grouped(
    sizes: ConvShape, w: Array, b: Array | None, vlen: int, act: Act = NO_ACT
) -> KernelCall:
    """The call of a 1 x 1 convolution in groups, of plain tensors; w [oc, ic / groups, 1, 1]."""
    icg, ocg, pixels = sizes.ic // sizes.groups, sizes.oc // sizes.groups, sizes.oh * sizes.ow
    p, o = TILES[vlen][-1]
    bias = np.zeros(sizes.oc, np.float32) if b is None else b
    rows = np.concatenate([w.reshape(sizes.oc, icg), bias[:, None]], axis=1)
    fields: Fields = {"n": sizes.n, "groups": sizes.groups, "ic": icg, "oc": ocg, "pixels": pixels}
    fields |= {"x_batch": sizes.ic * pixels, "y_batch": sizes.oc * pixels, **act_fields(act)}
    wide = 4 * ocg * pixels
    moves = (0, wide), (1, 4 * icg * pixels), (2, 4 * ocg * (icg + 1)), (3, wide)
    return KernelCall(
        "aot_conv_f32_grouped",
        rows,
        np.zeros(0, np.float32),
        fields,
        {"P": p, "O": o, "ACT": act.after},
        4 * (icg + 1) * min(o, ceil_div(pixels, vlen)) * vlen,
        (Split(sizes.groups, (PartField("groups", "count"),), moves),),
    )
