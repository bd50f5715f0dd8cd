# SPDX-License-Identifier: Apache-2.0
"""Ways to cut a layer, and what each costs on its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.frontend import Kernel
from aot.vendor.accel_sim.kinds import Rq
from aot.vendor.accel_sim.layers import Tiling
from aot.vendor.accel_sim.network import Layer, Tensor
from aot.vendor.accel_sim.timing import depthwise_cycles, drain_cycles, product_cycles
from aot.vendor.accel_sim.weights import depth_parts

#: Fields of MM, DRAIN and the like hold so many rows and columns.
SIDE = 256
FETCH = 17


@dataclass(frozen=True, slots=True)
class Cost:
    """Instructions, and a guess of the cycles of the layer alone."""

    instructions: int
    alone: int


def _up(a: int, b: int) -> int:
    """`a` divided by `b`, rounded up."""
    return -(-a // b)


def _sizes(total: int, piece: int) -> list[tuple[int, int]]:
    """(size, how often) of the pieces of `total`."""
    whole, rest = divmod(total, piece)
    return [(s, n) for s, n in ((piece, whole), (rest, 1 if rest else 0)) if n]


def product_cost(c: Config, layer: Layer, x: Tensor, y: Tensor, tiling: Tiling) -> Cost:
    """Instructions and cycles of a convolution, or depthwise convolution, that is cut by `tiling`.

    EX and VX work at the same time, so the slower one counts, or the front end if it fetches
    longer; the last drain has nothing to hide behind and is added.
    """
    size, lanes = x.itemsize, c.lanes(x.itemsize)
    w = layer.window
    count = _up(y.channels, lanes)
    parts = depth_parts(layer, c, size) if layer.kind == "conv" else []
    rounded = layer.requant is None or layer.requant.rq is Rq.FLOAT
    ex = vx = instructions = 0
    worst = 0
    for rows, a in _sizes(y.height, tiling.rows):
        for cols, b in _sizes(y.width, tiling.cols):
            for tiles, n in _sizes(count, tiling.tiles):
                times, pixels = a * b * n, rows * cols
                if layer.kind == "conv":
                    one = sum(
                        product_cycles(
                            c, Kernel(p.kh, p.kw, w.sh, w.sw, w.dh, w.dw, p.last - p.first),
                            x.channels * size, pixels, tiles, size,
                        )
                        for p in parts
                    )  # fmt: skip
                else:
                    one = depthwise_cycles(c, w.kh * w.kw, pixels, tiles, size)
                drain = drain_cycles(
                    c, pixels, min(tiles * lanes, y.channels), len(layer.inputs) > 1, rounded, size
                )
                ex, vx = ex + one * times, vx + drain * times
                instructions += times * (max(1, len(parts)) + 1)
                worst = max(worst, drain)
    return Cost(instructions, max(ex, vx, FETCH * instructions) + worst)


def _cols(width: int, most: int) -> int:
    """The largest piece of at most `most` when `width` is cut into the fewest even pieces."""
    return _up(width, _up(width, max(1, most)))


def product_tilings(c: Config, layer: Layer, x: Tensor, y: Tensor) -> Iterator[Tiling]:
    """Tilings of a product whose sums fit ACC, whose weights fit WGT and parameters PRM.

    Rows and columns are pixels of y, tiles are groups of as many channels as the array has lanes.
    More than one tile must leave half of WGT and PRM free, where the next loads arrive.
    """
    lanes = c.lanes(x.itemsize)
    count = _up(y.channels, lanes)
    taps = layer.window.kh * layer.window.kw
    parts = depth_parts(layer, c, x.itemsize) if layer.kind == "conv" else []
    deep = max((p.rows for p in parts), default=taps)
    total = count * (sum(p.rows for p in parts) or taps)
    keep = len(parts) < 2 and total <= c.wgt_rows
    if deep > c.wgt_rows:
        return
    widths = sorted({_cols(y.width, w) for w in (SIDE, 128, 64, 32) if w <= c.acc_rows})
    for tiles in range(1, min(count, 32) + 1):
        if tiles * lanes > max(lanes, c.prm_channels // 2) or tiles * deep > max(
            deep, c.wgt_rows // 2
        ):
            break
        # Another number of tiles gives as many passes, of which the last has less to do.
        if _up(count, _up(count, tiles)) != tiles:
            continue
        for cols in widths:
            limit = c.acc_rows // (tiles * cols)
            # With half of ACC the next sums are made while those before are drained.
            half = c.acc_rows // 2 // (tiles * cols)
            for rows in sorted({_cols(y.height, n) for n in (half, limit, half // 2, 1) if n}):
                if rows <= SIDE and rows * cols * tiles <= c.acc_rows:
                    yield from _bands(Tiling(rows, cols, tiles, False, keep), y, count)


def _bands(tiling: Tiling, y: Tensor, count: int) -> Iterator[Tiling]:
    """Variants of `tiling`: as it is, and with tiles in the outer loop over bands of several
    heights.

    `count` is the number of tiles of the layer. As it is only where weights stay, or are one tile.
    """
    if tiling.keep or count <= tiling.tiles:
        yield tiling
    if count > tiling.tiles or not tiling.keep:
        for band in sorted({min(y.height, tiling.rows * n) for n in (1, 2, 3, 4, 8, 1 << 12)}):
            if not tiling.keep or band == y.height:
                yield replace(tiling, outer=True, band=band)


def ranked_tilings(
    c: Config, layer: Layer, x: Tensor, y: Tensor, flash: bool = True
) -> list[tuple[Cost, Tiling]]:
    """Tilings of a layer `conv` or `dw` with their costs, the fastest first.

    A cost is a guess of the cycles of the layer alone, at least what it takes to load the weights
    again for every step, from flash or (`flash` false) from the system's RAM. Equally fast ones are
    in the order of their instructions, then those with `outer` come first, then larger steps.
    """
    found = []
    assert layer.weights is not None
    cut = layer.kind == "conv" and len(depth_parts(layer, c, x.itemsize)) > 1
    costs: dict[tuple[int, int, int], Cost] = {}
    lanes = c.lanes(x.itemsize)
    size = _up(y.channels, lanes) * lanes * int(layer.weights[0].size) * x.itemsize
    for t in product_tilings(c, layer, x, y):
        key = (t.rows, t.cols, t.tiles)
        if key not in costs:
            costs[key] = product_cost(c, layer, x, y, t)
        cost = costs[key]
        times = 1 if t.keep else _up(y.height, t.step(y.height))
        if cut:  # parts of the window follow each other in every block
            times = _up(y.height, t.rows) * _up(y.width, t.cols)
        again = (times - 1) * size // c.rate(flash)
        alone = max(cost.alone, again)
        found.append((alone, cost.instructions, not t.outer, -t.step(y.height), cost, t))
    found.sort(key=lambda f: f[:4])
    return [(replace(f[4], alone=f[0]), f[5]) for f in found]


def vector_tilings(c: Config, layer: Layer, y: Tensor) -> list[Tiling]:
    """Tilings of pooling and elementwise layers: steps of about an eighth of the rows, then of
    fewer.

    Small layers have fewer, larger steps, because every instruction has a fixed cost.
    """
    cols = _cols(y.width, SIDE)
    work = y.height * y.width * _up(y.channels * y.itemsize, c.port)
    pieces = max(1, min(8, work // 128))
    rows = {max(1, min(SIDE, _up(y.height, n))) for n in (pieces, 2 * pieces, 4 * pieces, y.height)}
    return [Tiling(n, cols) for n in sorted(rows, reverse=True)]


def vector_cycles(c: Config, layer: Layer, y: Tensor) -> int:
    """The cycles of the vector unit for a layer without products: bytes read and written over its
    port.
    """
    pixels = y.height * y.width
    rows = pixels * _up(y.channels * y.itemsize, c.port)
    if layer.kind in ("max", "average"):
        return rows * layer.window.kh * layer.window.kw + c.vx_fill
    if layer.kind == "softmax":
        return pixels * (3 * y.channels + c.softmax_fill) + c.vx_fill
    return rows * (1 + len(layer.inputs)) + c.vx_fill
