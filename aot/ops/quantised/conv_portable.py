# SPDX-License-Identifier: Apache-2.0
"""Convolutions and matrix products of int8 quantised values in portable C: sizes of tiles, packed
weights.

Targets with vectors have kernels of their own, conv_vector, those with dot products conv_dot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ops.quantised import conv_dot, conv_vector
from aot.ops.quantised.shapes import QCall, QConv, padded

#: Scratch of a depthwise convolution stays below this many bytes where that costs little.
SMALL_SCRATCH = 512
#: The `cpu` of a QConv for all cores without the whole of Thumb-2, whose registers are few.
THUMB1 = "cortex-m0"


@dataclass(frozen=True, slots=True)
class Tile:
    """How many pixels and output channels the registers of a core hold sums for.

    `planar` keeps the weights of a channel side by side in every row of the window.
    """

    pixels: int
    channels: int
    planar: bool = False

    @property
    def instance(self) -> dict[str, int]:
        """The kernels' constants."""
        return {"P": self.pixels, "O": self.channels, "PLANAR": int(self.planar)}


def tile(arch: str, cpu: str, pixels: int) -> Tile:
    """The tile for the core of a target and a number of pixels."""
    if arch == "arm":
        if cpu == THUMB1:
            return Tile(1, 4, planar=True)
        return Tile(min(pixels, 2), 4)
    if arch.startswith("riscv"):
        return Tile(min(pixels, 2), 8)
    return Tile(min(pixels, 4), 4)


def pack(w: Array, tile: Tile) -> Array:
    """The weights [n, rows, run] as panels in the order of aot_qtile_s8.h, zeros past row n."""
    rows, run = w.shape[1:]
    o = tile.channels
    panels = padded(w.astype(np.int8), o).reshape(-1, o, rows, run)
    order = (0, 2, 1, 3) if tile.planar else (0, 2, 3, 1)
    return np.ascontiguousarray(panels.transpose(order)).reshape(-1)


def plan(conv: QConv, w: Array, bias: Array, objective: str) -> QCall:
    """The call for weights [oc, ic, kh, kw] (ic is 1 for a filter per channel) and bias [oc].

    Kernels of dot products, then of vectors, come first where the target has these.
    """
    depthwise = conv.kind == "dwconv"
    by_rows = objective == "ram" and conv.kind == "conv"
    if conv_dot.suits(conv.simd, conv.vlen, "" if by_rows else objective):
        if not depthwise:
            return conv_dot.plan(conv, w, bias, 0 if by_rows else conv_dot.STRIP)
        if (call := conv_dot.plan_depthwise(conv, w, bias)) is not None:
            return call
    if conv_vector.suits(conv):
        return conv_vector.plan(conv, w, bias)
    if depthwise:
        return plan_depthwise(conv, w, bias)
    t = tile(conv.arch, conv.cpu, conv.oh * conv.ow)
    packed = pack(w.transpose(0, 2, 3, 1).reshape(conv.oc, conv.kh, conv.kw * conv.ic), t)
    bias = padded(bias.astype(np.int32), t.channels)
    neighbours = conv.ow % t.pixels == 0 and conv.dw == 1 and conv.sw <= conv.kw
    width = (t.pixels - 1) * conv.sw + conv.kw if neighbours else t.pixels * conv.kw
    scratch = conv.kh * width * conv.ic if copies(conv) else 0
    # Rows apart are copied to scratch: a window that is read in place needs them in order.
    reads_rows = scratch > 0 or conv.kh == 1
    more: dict[str, Any] = {"rows_apart": reads_rows, "tile": t.channels}
    return QCall(conv.kernel(), packed, bias, scratch, t.instance, **more)


def copies(conv: QConv) -> bool:
    """Whether some window is copied to scratch: at the border, with dilations, or read many
    times.
    """
    below = (conv.oh - 1) * conv.sh - conv.pt + (conv.kh - 1) * conv.dh >= conv.ih
    right = (conv.ow - 1) * conv.sw - conv.pl + (conv.kw - 1) * conv.dw >= conv.iw
    short = conv.dw > 1 or (conv.kh > 1 and conv.oc > 6 * conv.kw * conv.ic)
    return conv.pt > 0 or conv.pl > 0 or below or right or short


def plan_depthwise(conv: QConv, w: Array, bias: Array) -> QCall:
    """The call of aot_qdwconv_s8 for weights [c, 1, kh, kw]; scratch holds a ring of rows
    (bytes).
    """
    ring = (conv.kh - 1) * conv.dh + 1
    width = (conv.ow - 1) * conv.sw + (conv.kw - 1) * conv.dw + 1
    # A wide block fills vectors; a ring beyond the limit takes RAM that boards lack.
    block = next((b for b in (16, 8, 4) if ring * width * b <= SMALL_SCRATCH), 8)
    # The C compiler unrolls loops of known small sizes; 0 leaves the size to the parameters.
    known = conv.dw == 1 and conv.kw <= 5 and conv.sw <= 2
    instance = {
        "P": results_at_once(conv),
        "KH": conv.kh if conv.kh <= 5 else 0,
        "KW": conv.kw if known else 0,
        "S": conv.sw if known else 0,
        "CB": block,
    }
    packed = np.ascontiguousarray(w.astype(np.int8)).reshape(-1)
    return QCall(
        conv.kernel(),
        packed,
        bias.astype(np.int32),
        ring * width * block,
        instance,
        inplace=stays_behind(conv),
    )


def results_at_once(conv: QConv) -> int:
    """How many neighbouring results of a depthwise convolution are computed together.

    The number divides a row if possible, and is at most 6, as far as registers go.
    """
    return next((p for p in range(min(6, conv.ow), 2, -1) if conv.ow % p == 0), min(4, conv.ow))


def stays_behind(conv: QConv) -> bool:
    """Whether y may take x's place: results of a row never pass rows of x not yet copied to
    scratch.
    """
    if conv.n > 1 and (conv.oh, conv.ow) != (conv.ih, conv.iw):
        return False
    ring = (conv.kh - 1) * conv.dh + 1
    for oy in range(conv.oh):
        copied = min(conv.ih, max(0, oy * conv.sh - conv.pt + ring))
        if (oy + 1) * conv.ow > copied * conv.iw:
            return False
    return True
