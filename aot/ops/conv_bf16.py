# SPDX-License-Identifier: Apache-2.0
"""Convolutions of blocked tensors by dot products of bfloat16: aot_conv_f32_blocked__bf16.h."""

from __future__ import annotations

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ir.splits import Split
from aot.ops import conv_pack as pack
from aot.ops.conv_pack import ceil_div
from aot.ops.conv_plan import ConvShape, KernelCall, choose_tile, tile_cost
from aot.ops.narrow import bf16_words, is_in_range

#: AOT_CONV_BF16_WORDS: words of the image in scratch.
WORDS = 1 << 16
#: Cycles in which a number of the image is rounded.
ROUNDING = 0.3


def _image(s: ConvShape, vlen: int) -> tuple[int, int, int]:
    """Words of a row of the image in scratch, its rows, and rows that one of the result reads."""
    ends = (s.oh - 1) * s.sh < s.ih and (s.ow - 1) * s.sw < s.iw
    flat = s.kh == s.kw == 1 and s.pt == s.pl == 0 and ends
    row = ceil_div(s.ic, vlen) * vlen // 2
    return (row * s.ow, s.oh, 1) if flat else (row * s.iw, s.ih, (s.kh - 1) * s.dh + 1)


def costs(s: ConvShape, vlen: int) -> tuple[float, float]:
    """Estimated cycles by products of bfloat16, and by those of float32."""
    pixels, blocks, depth = s.oh * s.ow, ceil_div(s.oc, vlen), s.kh * s.kw * s.ic
    row, rows, _ = _image(s, vlen)

    def products(depth: int) -> float:
        """Estimated cycles of the register tiles."""
        return tile_cost(*choose_tile(vlen, pixels, blocks, depth), pixels, blocks, depth, vlen)

    return products(s.kh * s.kw * ceil_div(s.ic, 2)) + 2 * ROUNDING * row * rows, products(depth)


def plan_rounded(s: ConvShape, w: Array, plain: KernelCall, vlen: int) -> KernelCall | None:
    """The call `plain` with the image and its weights [oc, ic, kh, kw] rounded; None where that is
    slower, or where a weight would be infinite. Threads share rows.
    """
    rounded, exact = costs(s, vlen)
    if s.groups > 1 or rounded > exact or not is_in_range(w):
        return None
    taps = w.transpose(2, 3, 1, 0)
    even = np.pad(taps, ((0, 0), (0, 0), (0, s.ic % 2), (0, 0)))
    words = bf16_words(even.reshape(-1, s.oc))
    pixels, blocks = s.oh * s.ow, ceil_div(s.oc, vlen)
    p, o = choose_tile(vlen, pixels, blocks, len(words))
    row, rows, reach = _image(s, vlen)
    return KernelCall(
        "aot_conv_f32_blocked__bf16",
        pack.pack_gemm(words, vlen, o),
        plain.bias,
        plain.fields,
        {**plain.instance, "P": p, "O": o},
        4 * min(max(WORDS // row, reach), rows) * row,
        (Split.rows(s.oh, 4),),
    )
